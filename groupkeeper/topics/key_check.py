"""Checks that all records of a batch for a compacted topic have a key: compaction drops the others.

And that the records are well-formed, as compaction reads what is checked here.
Source: Kafka's `LogValidator.validateKey` and `processRecordErrors`; KIP-467 for the errors.
"""

from itertools import islice
from typing import Final, NamedTuple, cast

from groupkeeper.protocol.messages.produce import BatchIndexAndErrorMessage
from groupkeeper.protocol.record_batch import BatchHeader, CorruptBatch
from groupkeeper.protocol.rewrite_batch import keyed_records
from groupkeeper.topics.batch_reader import BatchReader
from groupkeeper.turns import Slices

RECORD_ERRORS_MOST: Final = 100
"""How many records of a batch are named; Kafka names all."""

RECORDS_MOST: Final = 1_000_000
"""Records in a batch for a compacted topic: as many as a mebibyte can decompress to, if they are
not empty."""

_IN_MESSAGE: Final = 3
_RECORDS: Final = 1_000
"""Records in one slice."""


class RecordErrors(NamedTuple):
    """Why a batch is refused."""

    message: str
    errors: list[BatchIndexAndErrorMessage]


async def check_keys(
    reader: BatchReader, folder: str, batch: bytes | memoryview, header: BatchHeader
) -> RecordErrors | None:
    """What is wrong with the records of a batch for the partition of this folder; None: nothing."""
    if header.record_count > RECORDS_MOST:
        return RecordErrors(
            f"A batch for a compacted topic may have {RECORDS_MOST} records, not "
            f"{header.record_count}",
            [],
        )
    try:
        keyless, count = await reader.read(batch, header, lambda data: _keyless(data, header))
    except CorruptBatch as error:
        return RecordErrors(f"A record cannot be read: {error}", [])
    return _refusal(folder, keyless, count) if count else None


def _keyless(data: bytes | memoryview, header: BatchHeader) -> Slices[tuple[list[int], int]]:
    """The first records without a key, by their places in the batch, and how many there are."""
    places: list[int] = []
    count = 0
    records = keyed_records(cast("bytes", data), header)  # of a view, keys are views
    for place, (_, key, *_) in enumerate(records):
        if key is None:
            count += 1
            if count <= RECORD_ERRORS_MOST:
                places.append(place)
        if place % _RECORDS == _RECORDS - 1:
            yield
    return places, count


def _refusal(folder: str, places: list[int], count: int) -> RecordErrors:
    why = f"Compacted topic cannot accept message without key in topic partition {folder}"
    errors = [
        BatchIndexAndErrorMessage(batch_index=place, batch_index_error_message=why)
        for place in places
    ]
    some = ", ".join(
        f"RecordError(batchIndex={place}, message='{why}')" for place in islice(places, _IN_MESSAGE)
    )
    return RecordErrors(
        f"One or more records have been rejected due to {count} record errors in total, and only "
        f"showing the first three errors at most: [{some}]",
        errors,
    )
