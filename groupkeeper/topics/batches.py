"""Checks a produced batch: framing, checksum, size and the rules for clients.

A batch is not decompressed, and its records are not read: it is stored and returned as a whole.
Source: Kafka's `ProduceRequest.validateRecords`, `UnifiedLog.analyzeAndValidateRecords` and
`LogValidator`.
"""

from typing import Final

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.record_batch import (
    LENGTH_OVERHEAD,
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
"""docs/clients.md describes which error transactional clients show, and how soon."""

_ONE_BATCH: Final = "A produce request must have exactly one record batch per partition"
_MAGIC_AT: Final = 16
_SHORTEST: Final = 14
"""The smallest length that a batch of any format may state."""


class RefusedByLog(Refused):
    """A batch is refused by the rules for its log: the answer includes the log's first offset."""


def check_batch(
    records: bytes | memoryview | None, api_version: int, max_bytes: int
) -> BatchHeader:
    """Return the header of the one batch in `records`; raises Refused with Kafka's code."""
    header = _whole(records) or _framed(records)
    assert records is not None, "refused before"
    if header.size > max_bytes:
        raise Refused(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The record batch size is {header.size} bytes, more than the maximum of {max_bytes}",
        )
    if not check_crc(records, header):
        raise _corrupt("wrong checksum")
    _check_fields(header, api_version)
    return header


def _whole(records: bytes | memoryview | None) -> BatchHeader | None:
    """Return the header if the records are one batch, as usual; None: `_framed` reports why not."""
    if records is None:
        return None
    try:
        header = read_header(records)
    except CorruptBatch:
        return None
    return header if header.size == len(records) else None


def _framed(records: bytes | memoryview | None) -> BatchHeader:
    """Return the header of the only batch, or raise Refused. The error codes and their order follow
    Kafka's `ByteBufferLogInputStream.nextBatchSize` and `ProduceRequest.validateRecords`.
    """
    if records is None or len(records) < LENGTH_OVERHEAD:
        raise Refused(ErrorCode.INVALID_RECORD, _ONE_BATCH)
    length = int.from_bytes(records[8:LENGTH_OVERHEAD], "big", signed=True)
    if length < _SHORTEST:
        raise _corrupt(f"its length is {length}")
    if len(records) <= _MAGIC_AT:
        raise Refused(ErrorCode.INVALID_RECORD, _ONE_BATCH)
    magic = records[_MAGIC_AT]
    if magic > MAGIC:
        raise _corrupt(f"its magic is {magic}")
    if LENGTH_OVERHEAD + length > len(records):
        raise Refused(ErrorCode.INVALID_RECORD, "The record batch is cut off")
    if magic != MAGIC:
        message = f"A record batch must have magic {MAGIC}, this one has {magic}"
        raise Refused(ErrorCode.INVALID_RECORD, message)
    if LENGTH_OVERHEAD + length < len(records):
        raise Refused(ErrorCode.INVALID_RECORD, _ONE_BATCH)
    try:
        return read_header(records)
    except CorruptBatch as error:
        raise _corrupt(str(error)) from error


def _corrupt(why: str) -> Refused:
    return Refused(ErrorCode.CORRUPT_MESSAGE, f"The record batch is corrupt: {why}")


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
        raise RefusedByLog(ErrorCode.INVALID_RECORD, message)
    if header.codec == ZSTD and api_version < ZSTD_SINCE:
        raise Refused(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"Produce requests before version {ZSTD_SINCE} are not allowed to use zstd",
        )
    if header.is_transactional:
        raise Refused(*NO_TRANSACTIONS)
