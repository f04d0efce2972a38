"""Changes the timestamp type of a finished record batch, and its largest timestamp.

Source: Kafka's `DefaultRecordBatch.setMaxTimestamp`.
"""

from dataclasses import replace
from struct import Struct
from typing import Final

from crc32c import crc32c

from groupkeeper.protocol.record_batch import CRC_START, BatchHeader

_CRC_AT: Final = 17
_LAST_OFFSET_DELTA_AT: Final = 23
_MAX_TIMESTAMP_AT: Final = 35
_PRODUCER_ID_AT: Final = 43
_LOG_APPEND_TIME: Final = 0x08
_ATTRIBUTES: Final = Struct(">h")
_TIMESTAMP: Final = Struct(">q")


def restamped(
    batch: bytes | memoryview, header: BatchHeader, max_timestamp: int, *, log_append_time: bool
) -> tuple[bytes, BatchHeader]:
    """Return the batch, described by `header` at the start of the buffer, with another timestamp
    type and largest timestamp (epoch milliseconds), and its new header.

    The records stay as they are, compressed or not: with log append time, the largest timestamp is
    the timestamp of each record.
    """
    attributes = header.attributes & ~_LOG_APPEND_TIME
    if log_append_time:
        attributes |= _LOG_APPEND_TIME
    with memoryview(batch) as view:
        checked = (
            _ATTRIBUTES.pack(attributes),
            view[_LAST_OFFSET_DELTA_AT:_MAX_TIMESTAMP_AT],
            _TIMESTAMP.pack(max_timestamp),
            view[_PRODUCER_ID_AT : header.size],
        )
        crc = 0
        for part in checked:
            crc = crc32c(part, crc)
        assert sum(map(len, checked)) == header.size - CRC_START
        data = b"".join((view[:_CRC_AT], crc.to_bytes(4, "big"), *checked))
    return data, replace(header, crc=crc, attributes=attributes, max_timestamp=max_timestamp)
