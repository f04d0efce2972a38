"""Encodes record batches whose records have times of their own; see record_batch.py.

For records that tell of a time other than that of their append, such as events.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from groupkeeper.protocol.record_batch import finish_batch
from groupkeeper.protocol.wire import write_varint

OVERHEAD: Final = 32
"""The most bytes that a record takes beside its key and value: five varints and two bytes."""


class TimedRecord(NamedTuple):
    """A record, and its time in Unix milliseconds."""

    timestamp_ms: int
    key: bytes
    value: bytes | None
    """None: a tombstone."""


def encode_timed_batch(
    base_offset: int, leader_epoch: int, records: Sequence[TimedRecord]
) -> bytes:
    """A plain batch of at least one record; the first one's time is the batch's base timestamp."""
    first = records[0].timestamp_ms
    out: list[bytes] = []
    for delta, (timestamp_ms, key, value) in enumerate(records):
        body = b"".join(
            (
                b"\x00",
                _signed(timestamp_ms - first),
                _signed(delta),
                _signed(len(key)),
                key,
                _signed(-1 if value is None else len(value)),
                value or b"",
                b"\x00",
            )
        )
        out += _signed(len(body)), body
    times = first, max(record.timestamp_ms for record in records)
    return finish_batch(base_offset, leader_epoch, times, len(records), b"".join(out))


def size_of_record(record: TimedRecord) -> int:
    """Upper bound of the bytes of a record in a batch."""
    return OVERHEAD + len(record.key) + len(record.value or b"")


def _signed(number: int) -> bytes:
    return write_varint(number << 1 if number >= 0 else (-number << 1) - 1)
