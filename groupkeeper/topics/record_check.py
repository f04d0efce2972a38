"""Checks the records of a batch: keys for compacted topics, valid timestamps, and well-formedness.

Compaction drops records without keys, and relies on these checks when it reads records.
Source: Kafka's `LogValidator.validateRecord` and `processRecordErrors`; KIP-467 for the errors.
"""

from collections.abc import Iterable, Iterator
from itertools import islice, repeat
from typing import Final, NamedTuple, cast

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.produce import BatchIndexAndErrorMessage
from groupkeeper.protocol.record_batch import BatchHeader, CorruptBatch, record_times
from groupkeeper.protocol.rewrite_batch import keyed_records
from groupkeeper.topics.batch_reader import BatchReader
from groupkeeper.topics.timestamps import NO_TIMESTAMP, TimestampRules
from groupkeeper.turns import Slices

RECORD_ERRORS_MOST: Final = 100
"""Maximum number of faulty records to list; Kafka lists all."""

RECORDS_MOST: Final = 1_000_000
"""Maximum records of a checked batch: as many as a mebibyte can decompress to."""

_IN_MESSAGE: Final = 3
_RECORDS: Final = 1_000
"""Records in one slice."""


class RecordErrors(NamedTuple):
    """Why a batch is refused."""

    error: ErrorCode
    message: str | None
    errors: list[BatchIndexAndErrorMessage]


class RecordRules(NamedTuple):
    """The rules for the records of a batch."""

    folder: str
    """Folder of the partition, for messages."""
    needs_keys: bool
    timestamps: TimestampRules | None
    """None: not to be checked."""
    now: int
    """Unix milliseconds."""


class _Found(NamedTuple):
    faults: list[tuple[int, str]]
    """The first faulty records, by their places in the batch."""
    faulty: int
    """Number of faulty records."""
    bad_times: bool
    """Whether some faults are about timestamps."""
    largest: int
    """The largest timestamp, if timestamps were checked."""


async def check_records(
    reader: BatchReader, rules: RecordRules, batch: bytes | memoryview, header: BatchHeader
) -> RecordErrors | int:
    """Return the faults of the records; if none, their largest timestamp, or NO_TIMESTAMP."""
    if header.record_count > RECORDS_MOST:
        kind = "for a compacted topic" if rules.needs_keys else "whose timestamps have to be read"
        message = f"A batch {kind} may have {RECORDS_MOST} records, not {header.record_count}"
        return RecordErrors(ErrorCode.INVALID_RECORD, message, [])
    try:
        found = await reader.read(batch, header, lambda data: _faults(data, header, rules))
    except CorruptBatch as error:
        return RecordErrors(ErrorCode.INVALID_RECORD, f"A record cannot be read: {error}", [])
    return _refusal(found) if found.faulty else found.largest


def _faults(data: bytes | memoryview, header: BatchHeader, rules: RecordRules) -> Slices[_Found]:
    faults: list[tuple[int, str]] = []
    count, bad_times, largest = 0, False, NO_TIMESTAMP
    keyless = f"Compacted topic cannot accept message without key in topic partition {rules.folder}"
    timestamps, now = rules.timestamps, rules.now
    places = enumerate(zip(_keys(data, header, rules), _times(data, header, rules), strict=False))
    for place, (key, (offset, time)) in places:
        why = keyless if key is None else None
        if why is None and timestamps is not None:
            why = timestamps.fault(header, offset, time, now)
            bad_times = bad_times or why is not None
            largest = max(largest, time)
        if why is not None:
            count += 1
            if count <= RECORD_ERRORS_MOST:
                faults.append((place, why))
        if place % _RECORDS == _RECORDS - 1:
            yield
    return _Found(faults, count, bad_times, largest)


def _keys(
    data: bytes | memoryview, header: BatchHeader, rules: RecordRules
) -> Iterable[bytes | None]:
    if not rules.needs_keys:
        return repeat(b"")
    records = keyed_records(cast("bytes", data), header)  # of a view, keys are views
    return (record[1] for record in records)


def _times(
    data: bytes | memoryview, header: BatchHeader, rules: RecordRules
) -> Iterator[tuple[int, int]]:
    if rules.timestamps is None:
        return repeat((0, NO_TIMESTAMP))
    return record_times(data, header)


def _refusal(found: _Found) -> RecordErrors:
    errors = [
        BatchIndexAndErrorMessage(batch_index=place, batch_index_error_message=why)
        for place, why in found.faults
    ]
    if found.bad_times:
        message = "One or more records have been rejected due to invalid timestamp"
        return RecordErrors(ErrorCode.INVALID_TIMESTAMP, message, errors)
    some = ", ".join(
        f"RecordError(batchIndex={place}, message='{why}')"
        for place, why in islice(found.faults, _IN_MESSAGE)
    )
    message = (
        f"One or more records have been rejected due to {found.faulty} record errors in total, and "
        f"only showing the first three errors at most: [{some}]"
    )
    return RecordErrors(ErrorCode.INVALID_RECORD, message, errors)
