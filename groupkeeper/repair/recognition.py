"""What is still recognizable in damaged bytes: for people, who can compare it with what they know.

Nothing of it is taken into a log.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from groupkeeper.protocol.errors import DecodeError
from groupkeeper.protocol.record_batch import (
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    BatchHeader,
    CorruptBatch,
    check_crc,
    decode_records,
    read_header,
)
from groupkeeper.repair.contents import State, state_of
from groupkeeper.storage.errors import Loss
from groupkeeper.storage.files import Files

LOOKED_AT_BYTES: Final = 1024 * 1024
"""How much of a damaged place is looked at."""

MOST_RECOGNIZED: Final = 1_000
"""States of one damaged place."""


class Recognized(NamedTuple):
    """What a damaged record seems to say."""

    state: State
    sound: bool
    """The checksum of its batch is right: what is wrong is its offset, its epoch or its place."""


def recognized_in(files: Files, loss: Loss) -> list[Recognized]:
    """The records of groups in damaged bytes, as far as they can be decoded. Raises OSError."""
    if loss.start >= loss.stop:
        return []
    handle = files.open(loss.path)
    try:
        data = files.read(handle, min(loss.stop - loss.start, LOOKED_AT_BYTES), loss.start)
    finally:
        files.close(handle)
    found: list[Recognized] = []
    for header, batch in _batches(data):
        sound = check_crc(batch, header)
        for state in _states(batch, header):
            if len(found) == MOST_RECOGNIZED:
                return found
            found.append(Recognized(state, sound))
    return found


def _batches(data: bytes) -> Iterator[tuple[BatchHeader, bytes]]:
    """The batches back to back in some bytes; if there is none, all bytes read as one batch."""
    position = 0
    while True:
        batch = data[position:]
        try:
            header = read_header(batch)
        except CorruptBatch:
            break
        if header.size > len(batch):
            break
        yield header, batch
        position += header.size
    if not position and len(data) >= HEADER_SIZE:
        length = (len(data) - LENGTH_OVERHEAD).to_bytes(4, "big")
        batch = b"".join((data[:8], length, data[12:16], bytes([MAGIC]), data[17:]))
        try:
            yield read_header(batch), batch
        except CorruptBatch:
            return


def _states(batch: bytes, header: BatchHeader) -> Iterator[State]:
    try:
        for record in decode_records(batch, header):
            state = state_of(record.offset, record.key or b"", record.value)
            if state is not None:
                yield state
    except (CorruptBatch, DecodeError):
        return
