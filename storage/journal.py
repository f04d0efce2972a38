"""
The journal: one append-only file per process, in which all partitions' batches of a round lie
before they are acknowledged.

Not a log: nobody reads it but recovery, and it is dropped as soon as the segments are on the
disk. A file is a row of rounds: salt of 8 bytes, number int64, payload length int32, CRC-32C of
number, length and payload. Numbers rise by one, so a round that was never finished cannot be taken
for one that was. The salt is random and part of the file's name, `<node>-<first round>-<salt>`: a
payload holds what clients sent, and cannot look like a round to who does not know the salt. A
payload is a row of entries: kind int8, name length int16, data length int32, name, data. Kind 0 is
a batch of the log `name`; kind 1 is the claim of the shard `name` in the epoch `data`.
"""

import re
from array import array
from collections.abc import Iterator, Sequence
from contextlib import suppress
from struct import Struct
from typing import Final

from crc32c import crc32c

from storage.errors import AppendFailed, Corrupt, SyncFailed
from storage.files import Files
from storage.scan import FIELDS
from storage.window import Window

FOLDER: Final = "journals"
SALT_BYTES: Final = 8
_ROUND: Final = Struct(">8sQII")
_COUNTED: Final = Struct(">QI")
_ENTRY: Final = Struct(">BHI")
_BATCH: Final = 0
_CLAIM: Final = 1
_FIELDS_PER_ENTRY: Final = 4
_NAME: Final = re.compile(r"(?P<node>[0-9]+)-(?P<first>[0-9]{20})-(?P<salt>[0-9a-f]{16})")

AHEAD_BYTES: Final = 1024 * 1024
"""
How many zeros are written ahead of the rounds. A round that lands on them changes neither the
size nor the extents of the file, so its sync need not wait for the file system's own journal:
half the time, and a tenth at the 99th percentile, on ext4.
"""


def batch_entry(name: bytes, batch: bytes) -> tuple[bytes, bytes, bytes]:
    """A finished batch of a log, in pieces to be joined."""
    return _ENTRY.pack(_BATCH, len(name), len(batch)), name, batch


def claim_entry(shard: int, epoch: int) -> tuple[bytes, bytes, bytes]:
    """The fact that a shard was claimed in an epoch, in pieces to be joined."""
    name, data = str(shard).encode(), epoch.to_bytes(4, "big")
    return _ENTRY.pack(_CLAIM, len(name), len(data)), name, data


class JournalWriter:
    """The file that rounds are appended to. `touched` names the logs that depend on it."""

    def __init__(self, files: Files, folder: str, node_id: int, first_round: int) -> None:
        self._files = files
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

    def write(self, pieces: Sequence[bytes]) -> None:
        """
        Make a round durable: one write, one sync.

        Raises AppendFailed if it could not be written, and the file is as before; SyncFailed if
        the disk failed in a way after which nothing more can be promised.
        """
        payload = b"".join(pieces)
        counted = _COUNTED.pack(self._number, len(payload))
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
        self.size += len(data)
        self._number += 1

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
    """What a journal file of an earlier run, or of this one up to now, holds. Raises Corrupt."""

    def __init__(self, files: Files, path: str, size: int | None = None) -> None:
        """Up to `size`: what follows is being written."""
        self._files = files
        self._size = size
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

    def read_on(self) -> None:
        """Read what a living owner has written since. Raises Corrupt."""
        if self._files.read(self._handle, SALT_BYTES, self._end) == self._salt:
            self._read()

    def _read(self) -> None:
        """
        All rounds there are. If one is bad and a later one sound, it is looked at again: a living
        owner may have been writing it, and had finished it before it began the later one.
        """
        bad = -1
        while (later := self._read_rounds()) >= 0:
            if self._end == bad:
                raise Corrupt(
                    f"{self.path}: the round at byte {bad} is damaged and a sound one follows at "
                    f"{later}: restore the file, or lose what it holds by removing it"
                )
            bad = self._end

    def _read_rounds(self) -> int:
        """Read on up to a round that is not sound. Where a later sound one begins, or -1."""
        size = self._files.size(self._handle) if self._size is None else self._size
        window = Window(self._files, self._handle, size)
        while (size := _round_at(window, self._end, self._salt, self.next_round)) >= 0:
            self._read_round(window, self._end + _ROUND.size, size)
            self._end += _ROUND.size + size
            self.next_round += 1
        return _round_after(window, self._end, self._salt, self.next_round)

    def _read_round(self, window: Window, position: int, size: int) -> None:
        end = position + size
        while position < end:
            at = window.find(position, _ENTRY.size)
            kind, name_size, data_size = _ENTRY.unpack_from(window.buffer, at)
            position += _ENTRY.size
            at = window.find(position, name_size + data_size)
            name = window.buffer[at : at + name_size]
            data = at + name_size
            if kind == _CLAIM:
                shard = int(name)
                epoch = int.from_bytes(window.buffer[data : data + data_size], "big")
                self.epochs[shard] = max(epoch, self.epochs.get(shard, 0))
            else:
                base, _, _, _, _, delta, _ = FIELDS.unpack_from(window.buffer, data)
                places = self._places.setdefault(name, array("q"))
                places.extend((base, base + delta, position + name_size, data_size))
            position += name_size + data_size


def node_of(name: str) -> int | None:
    """The node id in a journal's file name; None if it is not one."""
    found = _NAME.fullmatch(name)
    return int(found["node"]) if found else None


def _first_round_and_salt(path: str) -> tuple[int, bytes]:
    found = _NAME.fullmatch(path.rpartition("/")[2])
    assert found, "asked for with node_of before"
    return int(found["first"]), bytes.fromhex(found["salt"])


def _round_at(window: Window, position: int, salt: bytes, number: int) -> int:
    """Payload size of the round at a position, -1 if it is not sound or not the one awaited."""
    at = window.find(position, _ROUND.size)
    if at < 0:
        return -1
    begin, found, size, crc = _ROUND.unpack_from(window.buffer, at)
    if begin != salt or found != number:
        return -1
    at = window.find(position, _ROUND.size + size)
    if at < 0:
        return -1
    counted = window.view[at + SALT_BYTES : at + SALT_BYTES + _COUNTED.size]
    payload = window.view[at + _ROUND.size : at + _ROUND.size + size]
    return size if crc32c(payload, crc32c(counted)) == crc else -1


def _round_after(window: Window, position: int, salt: bytes, number: int) -> int:
    """Where a sound round with a higher number begins behind a bad one, -1 if nowhere."""
    position += 1
    while position < window.size:
        at = window.find(position, min(_ROUND.size, window.size - position))
        found = window.buffer.find(salt, at)
        if found < 0:
            position += max(1, len(window.buffer) - at - SALT_BYTES + 1)
            continue
        position += found - at
        at = window.find(position, _ROUND.size)
        if at >= 0:
            later = _ROUND.unpack_from(window.buffer, at)[1]
            if later > number and _round_at(window.again(), position, salt, later) >= 0:
                return position
        position += 1
    return -1
