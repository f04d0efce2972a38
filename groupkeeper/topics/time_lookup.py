"""Finds records by time, even if batches have false timestamps.

Batches are stored unchanged: a header may state a maximum timestamp that no record has. So records
are read (batch_reader.py), and too many false headers end a lookup. Threads read the files for a
millisecond at a time, as they run Python code.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator
from contextlib import aclosing
from typing import Final, TypeVar

from groupkeeper.protocol.record_batch import read_header, record_times
from groupkeeper.storage.log.log import Log
from groupkeeper.storage.log.scan import Batch
from groupkeeper.storage.log.segment import Segment
from groupkeeper.topics.batch_reader import BatchReader
from groupkeeper.topics.file_jobs import FileJobs
from groupkeeper.topics.limits import OverLimitError
from groupkeeper.turns import Slices

_Found = tuple[int, int]
"""Offset of a record and its epoch milliseconds."""

Promise = tuple[Batch, bytes]
"""A batch whose header says that a record has the wanted timestamp, and its bytes."""

_Promising = Iterator[tuple[Segment, Batch] | None]
"""Yields such batches, and None after a millisecond of work."""

R = TypeVar("R")

_Scan = Callable[[Iterator[_Found]], Slices[R]]
"""Searches the records of one batch."""

FALSE_PROMISES: Final = 3
"""A lookup ends at this number of batches without the record that their headers state."""

RECORDS_MOST: Final = 1_000_000
"""Maximum number of records read by one lookup: as many as a batch of one mebibyte can decompress
to, if they are not empty."""

_END: Final = "the end"

_RECORDS: Final = 2_000
"""Records in one slice."""


class TimeLookup:
    """Searches logs. Raises OSError, StorageError, CorruptBatch and OverLimitError."""

    def __init__(self, reader: BatchReader, jobs: FileJobs) -> None:
        self._reader = reader
        self._jobs = jobs

    async def first(self, log: Log, timestamp_ms: int) -> _Found | None:
        """Return the first record with this timestamp or a later one, or None."""
        return await _from_start(log, lambda start: self._first(log, start, timestamp_ms))

    async def newest(self, log: Log) -> _Found | None:
        """Return the first record with the largest timestamp. If headers state more than their
        records have, the newest record of the first batch that states the most.
        """
        return await _from_start(log, lambda start: self._newest(log, start))

    async def _first(self, log: Log, start: int, timestamp_ms: int) -> _Found | None:
        budget = _Budget()
        async with aclosing(self._promises(log.promising(timestamp_ms))) as promises:
            async for promise in promises:
                found = await self._search(
                    promise, budget, lambda records: _first(records, timestamp_ms, start)
                )
                if found is not None:
                    return found
                budget.missed(promise[0], start)
        return None

    async def _newest(self, log: Log, start: int) -> _Found | None:
        budget = _Budget()
        newest: _Found | None = None
        async with aclosing(self._promises(log.newest())) as promises:
            async for promise in promises:
                found = await self._search(promise, budget, lambda records: _newest(records, start))
                if found is not None and (newest is None or found[1] > newest[1]):
                    newest = found
                if promise[0].base_offset >= start:
                    break  # an earlier batch may have lost the record by DeleteRecords
        return newest

    async def _promises(self, found: _Promising) -> AsyncGenerator[Promise, None]:
        """Yield promising batches. Only threads use segments: the last one that does closes the
        file.
        """
        pieces = _read(found)
        try:
            while (promise := await self._jobs.run(lambda: next(pieces, _END))) != _END:
                if isinstance(promise, tuple):
                    yield promise
        finally:
            await self._jobs.run(pieces.close)

    async def _search(self, promise: Promise, budget: "_Budget", scan: _Scan[R]) -> R:
        _, data = promise
        header = read_header(data)
        budget.spend(header.record_count)
        return await self._reader.read(
            data, header, lambda records: scan(record_times(records, header))
        )


class _Budget:
    """Limits of one lookup."""

    def __init__(self) -> None:
        self._records = RECORDS_MOST
        self._promises = FALSE_PROMISES

    def spend(self, records: int) -> None:
        self._records -= records
        if self._records < 0:
            raise OverLimitError(f"a lookup by time goes through at most {RECORDS_MOST} records")

    def missed(self, batch: Batch, start: int) -> None:
        """Count a batch without the record, unless that may have been deleted."""
        self._promises -= batch.base_offset >= start
        if not self._promises:
            raise OverLimitError(
                f"{FALSE_PROMISES} batches do not have the timestamps of their headers, "
                f"the last one at offset {batch.base_offset}"
            )


async def _from_start(log: Log, scan: Callable[[int], Awaitable[_Found | None]]) -> _Found | None:
    """Run `scan` from the start of the log. Repeated if the start moves meanwhile and files that it
    reads are removed. Open files can be read to the end.
    """
    while True:
        start = log.start_offset
        try:
            return await scan(start)
        except FileNotFoundError:
            if log.start_offset == start:
                raise


def _read(promises: _Promising) -> Generator[Promise | None, None, None]:
    """Yield the bytes of promising batches, on a thread; None after a millisecond of work."""
    for promise in promises:
        if promise is None:
            yield None
        else:
            segment, batch = promise
            yield batch, segment.read(batch.position, batch.size)


def _first(records: Iterator[_Found], timestamp_ms: int, start: int) -> Slices[_Found | None]:
    for count, record in enumerate(records, 1):
        offset, time = record
        if time >= timestamp_ms and offset >= start:
            return record
        if not count % _RECORDS:
            yield
    return None


def _newest(records: Iterator[_Found], start: int) -> Slices[_Found | None]:
    newest: _Found | None = None
    for count, record in enumerate(records, 1):
        if record[0] >= start and (newest is None or record[1] > newest[1]):
            newest = record
        if not count % _RECORDS:
            yield
    return newest
