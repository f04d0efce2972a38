"""Encodes record batches in which each record has its own time and headers; see record_batch.py.

For records, such as events, whose time is not that of their append.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from groupkeeper.protocol.record_batch import finish_batch
from groupkeeper.protocol.wire import write_varint

OVERHEAD: Final = 32
"""Maximum bytes of a record besides key, value and headers: five varints and two bytes."""


class TimedRecord(NamedTuple):
    """A record, and its time in Unix milliseconds."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    """None: a tombstone."""
    headers: Sequence[tuple[str, bytes | None]] = ()


def encode_timed_batch(
    base_offset: int, leader_epoch: int, records: Sequence[TimedRecord]
) -> bytes:
    """Encode a plain batch of at least one record. The first one gives the base timestamp."""
    first = records[0].timestamp_ms
    out: list[bytes] = []
    for delta, (timestamp_ms, key, value, headers) in enumerate(records):
        body = b"".join(
            (
                b"\x00",
                _signed(timestamp_ms - first),
                _signed(delta),
                _signed(-1 if key is None else len(key)),
                key or b"",
                _signed(-1 if value is None else len(value)),
                value or b"",
                _headers(headers) if headers else b"\x00",
            )
        )
        out += _signed(len(body)), body
    times = first, max(record.timestamp_ms for record in records)
    return finish_batch(base_offset, leader_epoch, times, len(records), b"".join(out))


def size_of_record(record: TimedRecord) -> int:
    """Return an upper bound of the bytes of a record in a batch."""
    headers = len(_headers(record.headers)) if record.headers else 0
    return OVERHEAD + len(record.key or b"") + len(record.value or b"") + headers


def _headers(headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    """Encode the number of headers, then the headers."""
    out = [_signed(len(headers))]
    for name, value in headers:
        data = name.encode()
        out += _signed(len(data)), data, _signed(-1 if value is None else len(value)), value or b""
    return b"".join(out)


@lru_cache(4096)
def _signed(number: int) -> bytes:
    return write_varint(number << 1 if number >= 0 else (-number << 1) - 1)
