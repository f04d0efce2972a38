"""
The journal: one append-only file per process, in which all partitions' batches of a round lie
before they are acknowledged.

Not a log: nobody reads it but recovery, and it is dropped as soon as the segments are on the
disk. The bytes are described in journal_format.py.
"""

import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from crc32c import crc32c

from groupkeeper.storage.errors import AppendFailed, Corrupt, SyncFailed
from groupkeeper.storage.files import Files
from groupkeeper.storage.journal_format import (
    BATCH,
    CLAIM,
    COUNTED,
    ENTRY,
    MARK,
    ROUND,
    SALT_BYTES,
    ends_entry,
    ends_of,
    round_after,
    round_at,
)
from groupkeeper.storage.marks import SECTOR, Mark, newest, whole_sectors
from groupkeeper.storage.scan import FIELDS
from groupkeeper.storage.window import Window

FOLDER: Final = "journals"
_FIELDS_PER_ENTRY: Final = 4
_NAME: Final = re.compile(r"(?P<node>[0-9]+)-(?P<first>[0-9]{20})-(?P<salt>[0-9a-f]{16})")

AHEAD_BYTES: Final = 1024 * 1024
"""
How many zeros are written ahead of the rounds. A round that lands on them changes neither the
size nor the extents of the file, so its sync need not wait for the file system's own journal:
half the time, and a tenth at the 99th percentile, on ext4.
"""

RETOLD_BYTES: Final = 4096
"""A round tells again what those before it did that begin in so many bytes, and the last one
always: damage rarely spoils more than a page."""


class Retold(NamedTuple):
    """What a round did, as those behind it tell it again."""

    position: int
    number: int
    ends: Mapping[str, int]
    """The offsets after the last ones of its logs."""
    claims: Sequence[bytes]


class JournalWriter:
    """The file that rounds are appended to. `touched` names the logs that depend on it."""

    def __init__(
        self,
        files: Files,
        folder: str,
        node_id: int,
        first_round: int,
        ends: Mapping[str, int] | None = None,
    ) -> None:
        """`ends` are those of all logs in the rounds before the first one."""
        self._files = files
        self._retold = [Retold(0, 0, ends or {}, ())]
        self._number = first_round
        self._salt = files.random_bytes(SALT_BYTES)
        self.path = f"{folder}/{node_id}-{first_round:020d}-{self._salt.hex()}"
        self._handle = files.open(self.path, create=True)
        try:
            files.sync_folder(folder)
        except OSError:
            with suppress(OSError):  # what stays is empty, and goes with the next start
                self.drop()
            raise
        self.size = 0
        self._filled = 0
        self.touched: dict[str, None] = {}

    @property
    def next_round(self) -> int:
        return self._number

    @property
    def is_in_place(self) -> bool:
        """Whether the next process will find the file."""
        return self._files.is_at(self._handle, self.path)

    def write(
        self,
        pieces: Sequence[bytes],
        ends: Mapping[str, int] | None = None,
        claims: Sequence[bytes] = (),
    ) -> None:
        """
        Make a round durable: one write, one sync. `ends` are those of the logs in it after it,
        `claims` those of the pieces that are claims.

        Raises AppendFailed if it could not be written, and the file is as before; SyncFailed if
        the disk failed in a way after which nothing more can be promised.
        """
        payload = b"".join((*pieces, *self._retell()))
        counted = COUNTED.pack(self._number, len(payload))
        crc = crc32c(payload, crc32c(counted))
        data = b"".join((self._salt, counted, crc.to_bytes(4, "big"), payload))
        try:
            self._fill(len(data))
            self._files.write(self._handle, data, self.size)
        except OSError as error:
            self._take_back(error)
            raise AppendFailed(f"cannot write to {self.path}: {error}") from error
        try:
            self._files.sync(self._handle)
        except OSError as error:
            raise SyncFailed(f"cannot sync {self.path}: {error}") from error
        self._retold.append(Retold(self.size, self._number, ends or {}, claims))
        self.size = whole_sectors(self.size + len(data))
        self._number += 1

    def _retell(self) -> Iterator[bytes]:
        """What the rounds just before did, as pieces of this one."""
        oldest = self.size - RETOLD_BYTES
        while len(self._retold) > 1 and self._retold[0].position < oldest:
            del self._retold[0]
        ends: dict[str, int] = {}
        for each in self._retold:
            yield from each.claims
            ends.update(each.ends)
        yield from ends_entry(self._retold[0].number, ends)

    def _fill(self, size: int) -> None:
        """Zeros behind the end, when the next round would reach beyond those that are there."""
        if self.size + size > self._filled:
            ahead = bytes(size + AHEAD_BYTES)
            self._files.write(self._handle, ahead, self.size)
            self._filled = self.size + len(ahead)

    def _take_back(self, cause: OSError) -> None:
        self._filled = self.size
        try:
            self._files.truncate(self._handle, self.size)
        except OSError as error:
            raise SyncFailed(f"cannot take back a failed write to {self.path}: {error}") from cause

    def close(self) -> None:
        self._files.close(self._handle)

    def drop(self) -> None:
        """Close and remove the file: every log it was written for has its bytes on the disk."""
        self.close()
        self._files.remove(self.path)


class JournalReader:
    """
    What a journal file of an earlier run, or of this one up to now, holds.

    Raises Corrupt if a round is damaged and a sound one follows, unless `damage` is to tell of it.
    """

    def __init__(
        self, files: Files, path: str, size: int | None = None, *, go_on: bool = False
    ) -> None:
        """Up to `size`: what follows is being written. `go_on`: read on behind damage."""
        self._files = files
        self._size = size
        self._go_on = go_on
        self.damage: list[str] = []
        """Rounds that are gone though a sound one follows, a line each."""
        self.ends: dict[str, int] = {}
        """The offsets that logs must reach, if nothing is lost."""
        self.marks: dict[str, Mark] = {}
        self._untold = False
        """Nobody knows which logs were in damaged rounds, the first of which is `_lost`."""
        self._lost = 0
        self._seen: set[str] = set()
        """Logs of which a later round than that tells the end."""
        self.path = path
        self._first_round, self._salt = _first_round_and_salt(path)
        self._handle = files.open(path)
        self.epochs: dict[int, int] = {}
        self._places: dict[bytes, array[int]] = {}
        self.next_round = self._first_round
        self._end = 0
        try:
            self._read()
        except BaseException:
            self.close()
            raise

    @property
    def names(self) -> set[str]:
        """The logs it holds batches of."""
        return {name.decode() for name in self._places}

    @property
    def is_empty(self) -> bool:
        """No round in it was ever finished."""
        return self.next_round == self._first_round

    def last_ends(self) -> dict[str, int]:
        """Up to where logs go on in it, or went on before it."""
        ends = {name.decode(): places[-3] + 1 for name, places in self._places.items()}
        return {name: max(ends.get(name, 0), self.ends.get(name, 0)) for name in ends | self.ends}

    def entries(self, name: str) -> Iterator[tuple[int, int, int, int]]:
        """
        Of one log: base offset, last offset, position and size of every batch, in the order
        written.
        """
        places = self._places.get(name.encode(), array("q"))
        for at in range(0, len(places), _FIELDS_PER_ENTRY):
            base, last, position, size = places[at : at + _FIELDS_PER_ENTRY]
            yield base, last, position, size

    def batch(self, position: int, size: int) -> bytes:
        return self._files.read(self._handle, size, position)

    def close(self) -> None:
        self._files.close(self._handle)

    def drop(self) -> None:
        """Close and remove the file."""
        self.close()
        self._files.remove(self.path)

    def lacks(self, name: str) -> bool:
        """Whether it may have held more of a log, and nobody knows up to where."""
        return self._untold and name not in self._seen

    @property
    def torn(self) -> str:
        """The unfinished round that it ends with, in words."""
        if not any(self._files.read(self._handle, SECTOR, whole_sectors(self._end))):
            return ""
        return f"{self.path}: the unfinished round at byte {whole_sectors(self._end)} is left out"

    def read_on(self) -> None:
        """Read what a living owner has written since. Raises Corrupt."""
        for position in (self._end, whole_sectors(self._end)):
            if self._files.read(self._handle, SALT_BYTES, position) == self._salt:
                self._read()
                break

    def _read(self) -> None:
        end = self._files.size(self._handle) if self._size is None else self._size
        window = Window(self._files, self._handle, end)
        bad = -1
        while True:
            position, size = self._next_round(window)
            if size < 0:
                position, number = round_after(window, self._end, self._salt, self.next_round)
                if position < 0:
                    break
                if bad != self._end:  # a living owner may have been writing it, and has now
                    bad = self._end
                    window = window.again()
                    continue
                self._pass_over(position, number)
                size = round_at(window, position, self._salt, number)
            self._read_round(window, position + ROUND.size, size)
            self._end = position + ROUND.size + size
            self.next_round += 1

    def _pass_over(self, position: int, number: int) -> None:
        """Damage, and the next sound round. Raises Corrupt unless to go on."""
        place = self._end if position % SECTOR else whole_sectors(self._end)
        line = (
            f"{self.path}: the round at byte {place} is damaged and a sound one follows at byte "
            f"{position}"
        )
        if not self._go_on:
            raise Corrupt(f"{line}: restore the file, or lose what it holds by removing it")
        self.damage.append(line)
        if not self._untold:
            self._untold, self._lost = True, self.next_round
        self._seen.clear()
        self.next_round = number

    def _next_round(self, window: Window) -> tuple[int, int]:
        """Where the awaited round begins, and the size of its payload, or -1."""
        for position in (self._end, whole_sectors(self._end)):
            size = round_at(window, position, self._salt, self.next_round)
            if size >= 0:
                return position, size
        return self._end, -1

    def _read_round(self, window: Window, position: int, size: int) -> None:
        end = position + size
        while position < end:
            at = window.find(position, ENTRY.size)
            kind, name_size, data_size = ENTRY.unpack_from(window.buffer, at)
            position += ENTRY.size
            at = window.find(position, name_size + data_size)
            name = window.buffer[at : at + name_size]
            data = window.view[at + name_size : at + name_size + data_size]
            if kind == BATCH:
                self._note_batch(name, data, position + name_size)
            elif kind == CLAIM:
                shard, epoch = int(name), int.from_bytes(data, "big")
                self.epochs[shard] = max(epoch, self.epochs.get(shard, 0))
            elif kind == MARK:
                mark = Mark.from_bytes(bytes(data))
                self.marks[name.decode()] = newest(self.marks.get(name.decode()), mark) or mark
            else:
                self._note_ends(bytes(data))
            position += name_size + data_size

    def _note_batch(self, name: bytes, data: memoryview, position: int) -> None:
        base, _, _, _, _, delta, _ = FIELDS.unpack_from(data)
        places = self._places.setdefault(name, array("q"))
        places.extend((base, base + delta, position, len(data)))
        if self._untold:
            self._seen.add(name.decode())

    def _note_ends(self, data: bytes) -> None:
        first, ends = ends_of(data)
        if first <= self._lost:
            self._untold = False
        for name, end in ends.items():
            self.ends[name] = max(end, self.ends.get(name, 0))
        self._seen |= ends.keys()


def node_of(name: str) -> int | None:
    """The node id in a journal's file name; None if it is not one."""
    found = _NAME.fullmatch(name)
    return int(found["node"]) if found else None


def _first_round_and_salt(path: str) -> tuple[int, bytes]:
    found = _NAME.fullmatch(path.rpartition("/")[2])
    assert found, "asked for with node_of before"
    return int(found["first"]), bytes.fromhex(found["salt"])
