"""Journal files: append-only, they hold the batches of all logs before they are acknowledged.

Only recovery reads a journal, and it is removed as soon as the segments with its batches are on
disk. format.py describes the bytes.
"""

import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from crc32c import crc32c

from groupkeeper.storage.errors import AppendFailed, Corrupt, SyncFailed, remedy
from groupkeeper.storage.files.files import Files, parent_of
from groupkeeper.storage.journal.format import (
    BATCH,
    CLAIM,
    COUNTED,
    FLUSH,
    MARK,
    SALT_BYTES,
    ends_entry,
    ends_of,
    entries_of,
    flush_after,
    flush_at,
)
from groupkeeper.storage.log.scan import FIELDS
from groupkeeper.storage.log.window import Window
from groupkeeper.storage.recovery.marks import SECTOR, Mark, newest, whole_sectors

FOLDER: Final = "journals"
_FIELDS_PER_ENTRY: Final = 4
_NAME: Final = re.compile(r"(?P<node>[0-9]+)-(?P<first>[0-9]{20})-(?P<salt>[0-9a-f]{16})")

AHEAD_BYTES: Final = 1024 * 1024
"""Zeros written ahead of the flushes.

A flush over zeros changes neither the size nor the extents of the file, so its sync need not wait
for the journal of the file system: on ext4, it takes half the time, or a tenth at p99."""

SUMMARIZED_BYTES: Final = 4096
"""A flush summarizes the flushes that begin within this many bytes before it, and always the last
one: damage rarely affects more than a page."""


class FlushSummary(NamedTuple):
    """A flush's logs and claims, to be repeated in the summaries of later flushes."""

    position: int
    number: int
    ends: Mapping[str, int]
    """The next offsets of its logs, by name."""
    claims: Sequence[bytes]
    """Its claim entries."""


class JournalWriter:
    """A journal file that flushes are appended to."""

    def __init__(
        self,
        files: Files,
        folder: str,
        node_id: int,
        first_flush: int,
        ends: Mapping[str, int] | None = None,
    ) -> None:
        """Durably create the file. Raises OSError.

        `ends` are the next offsets of the logs in earlier flushes.
        """
        self._files = files
        self._summaries = [FlushSummary(0, 0, ends or {}, ())]
        self._number = first_flush
        self._salt = files.random_bytes(SALT_BYTES)
        self.path = f"{folder}/{node_id}-{first_flush:020d}-{self._salt.hex()}"
        self._handle = files.open(self.path, create=True)
        try:
            files.sync_folder(folder)
        except OSError:
            with suppress(OSError):  # an empty file that stays is removed at the next start
                self.drop()
            raise
        self.size = 0
        self._filled = 0
        self.touched: dict[str, None] = {}
        """The logs whose batches may be in this file only, in order of their first batch."""

    @property
    def next_flush(self) -> int:
        return self._number

    @property
    def is_in_place(self) -> bool:
        """False once the file was removed or replaced: the next process would not find it."""
        return self._files.is_at(self._handle, self.path)

    def write(
        self,
        pieces: Sequence[bytes],
        ends: Mapping[str, int] | None = None,
        claims: Sequence[bytes] = (),
    ) -> None:
        """Make a flush durable with one write and one sync.

        `ends` are the next offsets of its logs, `claims` those pieces that are claim entries.
        Raises AppendFailed if the write failed and the file is unchanged, and SyncFailed if nothing
        can be made durable any more.
        """
        payload = b"".join((*pieces, *self._summary()))
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
        self._summaries.append(FlushSummary(self.size, self._number, ends or {}, claims))
        self.size = whole_sectors(self.size + len(data))
        self._number += 1

    def _summary(self) -> Iterator[bytes]:
        """Yield the entries that repeat the preceding flushes."""
        oldest = self.size - SUMMARIZED_BYTES
        while len(self._summaries) > 1 and self._summaries[0].position < oldest:
            del self._summaries[0]
        ends: dict[str, int] = {}
        for each in self._summaries:
            yield from each.claims
            ends.update(each.ends)
        yield from ends_entry(self._summaries[0].number, ends)

    def _fill(self, size: int) -> None:
        """Write zeros past the end if the next flush would exceed those written before."""
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
        """Close and remove the file, once all its batches are on disk in their segments."""
        self.close()
        self._files.remove(self.path)


class JournalReader:
    """The contents of a journal file, of this process or another one."""

    def __init__(
        self, files: Files, path: str, size: int | None = None, *, go_on: bool = False
    ) -> None:
        """Read the file up to `size`; the bytes after that are still being written.

        If a sound flush follows a damaged one, raises Corrupt. With `go_on`, adds a line to
        `damage` instead and continues at the sound flush.
        """
        self._files = files
        self._size = size
        self._go_on = go_on
        self.damage: list[str] = []
        """A message for each damaged place that is followed by a sound flush."""
        self.ends: dict[str, int] = {}
        """The next offsets of logs, from flushes and summaries."""
        self.marks: dict[str, Mark] = {}
        self._logs_unknown = False
        """Whether no summary names the logs of the damaged flushes."""
        self._first_lost = 0
        """The number of the first damaged flush."""
        self._told_since: set[str] = set()
        """The logs whose next offset is in a flush after the damage."""
        self.path = path
        self.first_flush, self._salt = first_flush_and_salt(path)
        self._handle = files.open(path)
        self.epochs: dict[int, int] = {}
        """The newest epoch of each shard in the claims."""
        self._entries: dict[bytes, array[int]] = {}
        """Four numbers per batch of each log: see `entries`."""
        self.next_flush = self.first_flush
        self._end = 0
        try:
            self._read()
        except BaseException:
            self.close()
            raise

    @property
    def names(self) -> set[str]:
        """The logs that have batches in this journal."""
        return {name.decode() for name in self._entries}

    @property
    def is_empty(self) -> bool:
        """Whether the journal has no finished flush."""
        return self.next_flush == self.first_flush

    def last_ends(self) -> dict[str, int]:
        """Return the next offsets of logs after the last flush."""
        ends = {name.decode(): entries[-3] + 1 for name, entries in self._entries.items()}
        return {name: max(ends.get(name, 0), self.ends.get(name, 0)) for name in ends | self.ends}

    def entries(self, name: str) -> Iterator[tuple[int, int, int, int]]:
        """Yield base offset, last offset, position and size of every batch of a log, as written."""
        entries = self._entries.get(name.encode(), array("q"))
        for at in range(0, len(entries), _FIELDS_PER_ENTRY):
            base, last, position, size = entries[at : at + _FIELDS_PER_ENTRY]
            yield base, last, position, size

    def batch(self, position: int, size: int) -> bytes:
        return self._files.read(self._handle, size, position)

    @property
    def end(self) -> int:
        """The end of the last finished flush, in bytes."""
        return self._end

    def close(self) -> None:
        self._files.close(self._handle)

    def drop(self) -> None:
        self.close()
        self._files.remove(self.path)

    def lacks(self, name: str) -> bool:
        """Return whether damage may hide batches of a log beyond the known ones."""
        return self._logs_unknown and name not in self._told_since

    @property
    def torn(self) -> str:
        """A message about an unfinished flush at the end; empty if there is none."""
        if not any(self._files.read(self._handle, SECTOR, whole_sectors(self._end))):
            return ""
        return f"{self.path}: the unfinished flush at byte {whole_sectors(self._end)} is left out"

    def read_on(self) -> None:
        """Read the flushes that the running owner has written since. Raises Corrupt."""
        begin = whole_sectors(self._end)
        if self._files.read(self._handle, SALT_BYTES, begin) == self._salt:
            self._read()

    def _read(self) -> None:
        end = self._files.size(self._handle) if self._size is None else self._size
        window = Window(self._files, self._handle, end)
        bad = -1
        while True:
            position = whole_sectors(self._end)
            size = flush_at(window, position, self._salt, self.next_flush)
            if size < 0:
                position, number = flush_after(window, self._end, self._salt, self.next_flush)
                if position < 0:
                    break
                if bad != self._end:  # its running owner may have been writing it: read again
                    bad = self._end
                    window = window.again()
                    continue
                self._pass_over(position, number)
                size = flush_at(window, position, self._salt, number)
            self._read_flush(window, position + FLUSH.size, size)
            self._end = position + FLUSH.size + size
            self.next_flush += 1

    def _pass_over(self, position: int, number: int) -> None:
        """Continue after damage at the next sound flush, or raise Corrupt."""
        line = (
            f"{self.path}: the flush at byte {whole_sectors(self._end)} is damaged and a sound one "
            f"follows at byte {position}"
        )
        if not self._go_on:
            folder = parent_of(parent_of(self.path))
            raise Corrupt(f"{line}: {remedy(folder)}")
        self.damage.append(line)
        if not self._logs_unknown:
            self._logs_unknown, self._first_lost = True, self.next_flush
        self._told_since.clear()
        self.next_flush = number

    def _read_flush(self, window: Window, position: int, size: int) -> None:
        for kind, name, data, at in entries_of(window, position, size):
            if kind == BATCH:
                self._note_batch(name, data, at)
            elif kind == CLAIM:
                shard, epoch = int(name), int.from_bytes(data, "big")
                self.epochs[shard] = max(epoch, self.epochs.get(shard, 0))
            elif kind == MARK:
                mark = Mark.from_bytes(bytes(data))
                self.marks[name.decode()] = newest(self.marks.get(name.decode()), mark) or mark
            else:
                self._note_ends(bytes(data))

    def _note_batch(self, name: bytes, data: memoryview, position: int) -> None:
        base, _, _, _, _, delta, _ = FIELDS.unpack_from(data)
        entries = self._entries.setdefault(name, array("q"))
        entries.extend((base, base + delta, position, len(data)))
        if self._logs_unknown:
            self._told_since.add(name.decode())

    def _note_ends(self, data: bytes) -> None:
        first, ends = ends_of(data)
        if first <= self._first_lost:
            self._logs_unknown = False
        for name, end in ends.items():
            self.ends[name] = max(end, self.ends.get(name, 0))
        self._told_since |= ends.keys()


def node_of(name: str) -> int | None:
    """Return the node id in the name of a journal; None for other files."""
    found = _NAME.fullmatch(name)
    return int(found["node"]) if found else None


def first_flush_and_salt(path: str) -> tuple[int, bytes]:
    """Return the first flush number and the salt in the name of a journal."""
    found = _NAME.fullmatch(path.rpartition("/")[2])
    assert found, "not the name of a journal: see node_of"
    return int(found["first"]), bytes.fromhex(found["salt"])
