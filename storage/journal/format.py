"""The byte format of journal files: flushes, and the entries in them.

A file is a sequence of flushes: salt of 8 bytes, number int64, payload length int32, CRC-32C of
number, length and payload, then the payload. Numbers increase by one: an unsound flush is the
unfinished end of the file, unless a sound flush with a larger number follows, which means damage.
The salt is random and part of the file's name, `<node>-<first flush>-<salt>`. Clients do not know
it, so the bytes that they send, which are in payloads, cannot pass for a flush. A flush begins at a
disk sector, so that a torn write of the next flush does not damage it.

A payload is a sequence of entries: kind int8, name length int16, data length int32, name, data.
Kind 0 is a batch of the log `name`. Kind 1 is the claim of the shard `name` in the epoch `data`.
Kind 2 is a mark of the log `name` (marks.py). Kind 3 summarizes preceding flushes, to show which
logs have lost batches if one of these flushes is damaged: number of logs int32, number of the first
summarized flush int64, the end offset of each log int64, and the names of the logs separated by
slashes.
"""

from collections.abc import Iterator, Mapping
from struct import Struct, pack, unpack_from
from typing import Final, NamedTuple

from crc32c import crc32c

from groupkeeper.storage.log.window import Window
from groupkeeper.storage.recovery.marks import Mark

SALT_BYTES: Final = 8
FLUSH: Final = Struct(">8sQII")
COUNTED: Final = Struct(">QI")
ENTRY: Final = Struct(">BHI")
BATCH, CLAIM, MARK, ENDS = range(4)
_COUNT: Final = Struct(">I")


def batch_entry(name: bytes, batch: bytes) -> tuple[bytes, bytes, bytes]:
    """Return the entry of a finished batch of a log, in pieces to be joined."""
    return ENTRY.pack(BATCH, len(name), len(batch)), name, batch


def claim_entry(shard: int, epoch: int) -> tuple[bytes, bytes, bytes]:
    """Return the entry of the claim of a shard in an epoch, in pieces to be joined."""
    name, data = str(shard).encode(), epoch.to_bytes(4, "big")
    return ENTRY.pack(CLAIM, len(name), len(data)), name, data


def mark_entry(name: str, mark: Mark) -> tuple[bytes, bytes, bytes]:
    """Return the entry of a mark of a log, in pieces to be joined."""
    data, log = mark.to_bytes(), name.encode()
    return ENTRY.pack(MARK, len(log), len(data)), log, data


def ends_entry(first: int, ends: Mapping[str, int]) -> tuple[bytes, ...]:
    """Return the entry that summarizes the flushes from `first` on, in pieces to be joined. `ends`:
    the end offset of each of their logs.
    """
    names = "/".join(ends).encode()
    numbers = pack(f">{len(ends) + 1}Q", first, *ends.values())
    size = _COUNT.size + len(numbers) + len(names)
    return ENTRY.pack(ENDS, 0, size), _COUNT.pack(len(ends)), numbers, names


def ends_of(data: bytes) -> tuple[int, dict[str, int]]:
    """Return the first flush of an `ends_entry`, and the end offsets of logs by name."""
    (count,) = _COUNT.unpack_from(data)
    first, *numbers = unpack_from(f">{count + 1}Q", data, _COUNT.size)
    names = data[_COUNT.size + 8 * (count + 1) :].decode().split("/") if count else []
    return first, dict(zip(names, numbers, strict=True))


class JournalEntry(NamedTuple):
    """An entry of a flush: its kind, name and data, and the position of the data in the file."""

    kind: int
    name: bytes
    data: memoryview
    position: int


def entries_of(window: Window, position: int, size: int) -> Iterator[JournalEntry]:
    """Yield the entries of a verified flush's payload. `data` is valid until the next entry."""
    end = position + size
    while position < end:
        at = window.find(position, ENTRY.size)
        kind, name_size, data_size = ENTRY.unpack_from(window.buffer, at)
        position += ENTRY.size
        at = window.find(position, name_size + data_size)
        name = window.buffer[at : at + name_size]
        data = window.view[at + name_size : at + name_size + data_size]
        yield JournalEntry(kind, name, data, position + name_size)
        position += name_size + data_size


def flush_at(window: Window, position: int, salt: bytes, number: int) -> int:
    """Return the payload size of the flush at a position; -1 if damaged or not flush `number`."""
    at = window.find(position, FLUSH.size)
    if at < 0:
        return -1
    begin, found, size, crc = FLUSH.unpack_from(window.buffer, at)
    if begin != salt or found != number:
        return -1
    at = window.find(position, FLUSH.size + size)
    if at < 0:
        return -1
    counted = window.view[at + SALT_BYTES : at + SALT_BYTES + COUNTED.size]
    payload = window.view[at + FLUSH.size : at + FLUSH.size + size]
    return size if crc32c(payload, crc32c(counted)) == crc else -1


def flush_after(window: Window, position: int, salt: bytes, number: int) -> tuple[int, int]:
    """Return position and number of the first sound flush beyond `position` whose number is larger
    than `number`; -1 and -1 without one.
    """
    position += 1
    while position < window.size:
        at = window.find(position, min(FLUSH.size, window.size - position))
        found = window.buffer.find(salt, at)
        if found < 0:
            position += max(1, len(window.buffer) - at - SALT_BYTES + 1)
            continue
        position += found - at
        at = window.find(position, FLUSH.size)
        if at >= 0:
            later = FLUSH.unpack_from(window.buffer, at)[1]
            if later > number and flush_at(window.again(), position, salt, later) >= 0:
                return position, later
        position += 1
    return -1, -1
