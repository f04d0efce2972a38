"""Checks a produced batch: framing, checksum, size and the rules for clients.

A batch is neither decompressed nor are its records read: it is stored and returned as a whole.
Source: Kafka's `ProduceRequest.validateRecords`, `UnifiedLog.analyzeAndValidateRecords` and
`LogValidator`.
"""

from struct import Struct
from typing import Final

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.record_batch import (
    MAGIC,
    BatchHeader,
    CorruptBatch,
    check_crc,
    read_header,
)
from groupkeeper.topics.refusals import Refusal, Refused

ZSTD: Final = 4
ZSTD_SINCE: Final = 7
"""The first Produce version in which zstd is allowed (KIP-110)."""

NO_TRANSACTIONS: Final = Refusal(
    ErrorCode.UNSUPPORTED_VERSION,
    "Transactions are not served: use a producer without transactional.id "
    "(Kafka Streams: processing.guarantee=at_least_once)",
)
"""Which error transactional clients show, and how fast, is in docs/clients.md."""

NO_TIMESTAMP: Final = -1
"""The timestamp of messages without one."""

_MAGIC_AT: Final = 16
_MAX_TIMESTAMP: Final = Struct(">35xq")


def stated_timestamp(records: bytes | memoryview | None) -> int:
    """The largest timestamp by the header of a batch, which is not checked."""
    if records is None or len(records) < _MAX_TIMESTAMP.size:
        return NO_TIMESTAMP
    timestamp: int = _MAX_TIMESTAMP.unpack_from(records)[0]
    return timestamp


def check_batch(
    records: bytes | memoryview | None, api_version: int, max_bytes: int
) -> BatchHeader:
    """The header of the one batch in `records`; raises Refused with Kafka's code."""
    if not records or len(records) <= _MAGIC_AT:
        raise Refused(
            ErrorCode.INVALID_RECORD,
            "A produce request must have exactly one record batch per partition",
        )
    if records[_MAGIC_AT] != MAGIC:
        raise Refused(
            ErrorCode.INVALID_RECORD,
            f"A record batch must have magic {MAGIC}, this one has {records[_MAGIC_AT]}",
        )
    header = _framed(records)
    if header.size > max_bytes:
        raise Refused(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The record batch size is {header.size} bytes, more than the maximum of {max_bytes}",
        )
    if not check_crc(records, header):
        raise Refused(ErrorCode.CORRUPT_MESSAGE, "The record batch is corrupt: wrong checksum")
    _check_fields(header, api_version)
    return header


def _framed(records: bytes | memoryview) -> BatchHeader:
    try:
        header = read_header(records)
    except CorruptBatch as error:
        raise Refused(ErrorCode.CORRUPT_MESSAGE, f"The record batch is corrupt: {error}") from error
    if header.size > len(records):
        raise Refused(ErrorCode.CORRUPT_MESSAGE, "The record batch is corrupt: it is cut off")
    if header.size < len(records):
        raise Refused(
            ErrorCode.INVALID_RECORD,
            "A produce request must have exactly one record batch per partition",
        )
    return header


def _check_fields(header: BatchHeader, api_version: int) -> None:
    message = None
    if header.base_offset != 0:
        message = f"The base offset of a produced batch must be 0, but it is {header.base_offset}"
    elif header.is_control:
        message = "Clients are not allowed to write control records"
    elif header.record_count <= 0 or header.record_count != header.last_offset_delta + 1:
        message = (
            f"Inconsistent batch offset range: {header.record_count} records, "
            f"last offset delta {header.last_offset_delta}"
        )
    elif header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
        message = (
            f"Invalid sequence number {header.base_sequence} or epoch {header.producer_epoch} "
            f"of producer {header.producer_id}"
        )
    elif header.codec > ZSTD:
        message = f"Unknown compression type id {header.codec}"
    if message is not None:
        raise Refused(ErrorCode.INVALID_RECORD, message)
    if header.codec == ZSTD and api_version < ZSTD_SINCE:
        raise Refused(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"Produce requests before version {ZSTD_SINCE} are not allowed to use zstd",
        )
    if header.is_transactional:
        raise Refused(*NO_TRANSACTIONS)
