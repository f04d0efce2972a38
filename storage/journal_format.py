"""
The bytes of a journal: its rounds, and the entries in them.

A file is a row of rounds: salt of 8 bytes, number int64, payload length int32, CRC-32C of
number, length and payload. Numbers rise by one, so a round that was never finished cannot be taken
for one that was. The salt is random and part of the file's name, `<node>-<first round>-<salt>`: a
payload holds what clients sent, and cannot look like a round to who does not know the salt. A round
begins with a sector of the disk (files of older versions: where the last one ends), so that none is
harmed when the write of the next one is torn.

A payload is a row of entries: kind int8, name length int16, data length int32, name, data. Kind 0
is a batch of the log `name`; kind 1 is the claim of the shard `name` in the epoch `data`; kind 2 is
a mark of the log `name` (marks.py). Kind 3 says what the rounds just before did, so that it is
known which logs a damaged one touches: number of logs int32, the first of those rounds int64, the
logs' end offsets int64 each, their names with a slash between them.
"""

from collections.abc import Mapping
from struct import Struct, pack, unpack_from
from typing import Final

from crc32c import crc32c

from groupkeeper.storage.marks import Mark
from groupkeeper.storage.window import Window

SALT_BYTES: Final = 8
ROUND: Final = Struct(">8sQII")
COUNTED: Final = Struct(">QI")
ENTRY: Final = Struct(">BHI")
BATCH, CLAIM, MARK, ENDS = range(4)
_COUNT: Final = Struct(">I")


def batch_entry(name: bytes, batch: bytes) -> tuple[bytes, bytes, bytes]:
    """A finished batch of a log, in pieces to be joined."""
    return ENTRY.pack(BATCH, len(name), len(batch)), name, batch


def claim_entry(shard: int, epoch: int) -> tuple[bytes, bytes, bytes]:
    """The fact that a shard was claimed in an epoch, in pieces to be joined."""
    name, data = str(shard).encode(), epoch.to_bytes(4, "big")
    return ENTRY.pack(CLAIM, len(name), len(data)), name, data


def mark_entry(name: str, mark: Mark) -> tuple[bytes, bytes, bytes]:
    """A mark of a log, in pieces to be joined."""
    data, of = mark.to_bytes(), name.encode()
    return ENTRY.pack(MARK, len(of), len(data)), of, data


def ends_entry(first: int, ends: Mapping[str, int]) -> tuple[bytes, ...]:
    """What rounds from `first` on did to the ends of logs, in pieces to be joined."""
    names = "/".join(ends).encode()
    numbers = pack(f">{len(ends) + 1}Q", first, *ends.values())
    size = _COUNT.size + len(numbers) + len(names)
    return ENTRY.pack(ENDS, 0, size), _COUNT.pack(len(ends)), numbers, names


def ends_of(data: bytes) -> tuple[int, dict[str, int]]:
    """The first round that such an entry tells of, and the ends of logs."""
    (count,) = _COUNT.unpack_from(data)
    first, *numbers = unpack_from(f">{count + 1}Q", data, _COUNT.size)
    names = data[_COUNT.size + 8 * (count + 1) :].decode().split("/") if count else []
    return first, dict(zip(names, numbers, strict=True))


def round_at(window: Window, position: int, salt: bytes, number: int) -> int:
    """Payload size of the round at a position, -1 if it is not sound or not the one awaited."""
    at = window.find(position, ROUND.size)
    if at < 0:
        return -1
    begin, found, size, crc = ROUND.unpack_from(window.buffer, at)
    if begin != salt or found != number:
        return -1
    at = window.find(position, ROUND.size + size)
    if at < 0:
        return -1
    counted = window.view[at + SALT_BYTES : at + SALT_BYTES + COUNTED.size]
    payload = window.view[at + ROUND.size : at + ROUND.size + size]
    return size if crc32c(payload, crc32c(counted)) == crc else -1


def round_after(window: Window, position: int, salt: bytes, number: int) -> tuple[int, int]:
    """A sound round with a higher number behind a bad one: where, and which. -1 if none."""
    position += 1
    while position < window.size:
        at = window.find(position, min(ROUND.size, window.size - position))
        found = window.buffer.find(salt, at)
        if found < 0:
            position += max(1, len(window.buffer) - at - SALT_BYTES + 1)
            continue
        position += found - at
        at = window.find(position, ROUND.size)
        if at >= 0:
            later = ROUND.unpack_from(window.buffer, at)[1]
            if later > number and round_at(window.again(), position, salt, later) >= 0:
                return position, later
        position += 1
    return -1, -1
