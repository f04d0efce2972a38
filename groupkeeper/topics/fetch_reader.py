"""Reads the logs for one Fetch: the records available now, within the limits of the request.

A Fetch is planned and answered on the event loop. In between, the loop reads data in the page
cache, and a thread the rest. Waiting is in apis/fetch.py. Source: Kafka's
`ReplicaManager.readFromLog` (KIP-74 for the limits).
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from groupkeeper.storage.errors import NotCached, StorageError
from groupkeeper.storage.log.segment import Segment
from groupkeeper.topics.file_jobs import FileJob, FileJobs
from groupkeeper.topics.leader_epochs import UNKNOWN_EPOCH, check_leader_epoch
from groupkeeper.topics.partition import TopicPartition
from groupkeeper.topics.partitions import Failed, TopicPartitions
from groupkeeper.topics.slices import Pace
from groupkeeper.turns import Slices, Turns

RESPONSE_BYTES: Final = 2 * 1024 * 1024
"""Maximum record bytes of one response, which are read in one job; clients fetch again."""

LEAST_BYTES: Final = 64 * 1024
"""Record bytes that a response may always have, even if unread responses leave less room: consumers
slow down, but make progress."""

ROOM_SHARE: Final = 16
"""One response takes at most this fraction of the room left, so that many clients get some."""

BY_ID_SINCE: Final = 13
"""From this version on, topics are given by id (KIP-516)."""

UNKNOWN_ID: Final = ErrorCode.UNKNOWN_TOPIC_ID
UNKNOWN_NAME: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

_READ_COMMITTED: Final = 1
_NO_OFFSET: Final = -1

# Cost of reading records, in items of a `Pace`: of a call, and bytes that cost one more.
_READ: Final = 10
_BYTES: Final = 8 * 1024


Found = dict[int, bytes | Exception]
"""Records for one response, or errors, by the id of the request's object."""


_IN_PLACE: Final = FileJobs()
NOTHING: Final = _IN_PLACE.start(Found)
"""A finished job without results."""


@dataclass(slots=True)
class Reads:
    """The reads for one response, in the order of the request, and their results."""

    budget: int
    """Maximum bytes; the first read with data returns a batch of any size."""
    wanted: list[tuple[int, TopicPartition, int, int]] = field(default_factory=list)
    """Id of the request's object, partition, offset, maximum bytes."""
    found: Found = field(default_factory=dict)
    _size: int = 0
    """Bytes found."""
    _next: int = 0
    """Number of finished items of `wanted`."""
    _left: Sequence[Segment] = ()
    """Segments released by their log. A thread must release them, too, as this may close files."""

    def cached(self) -> Slices[bool]:
        """Read data in memory, without blocking; False if a thread has to read the rest."""
        pace = Pace()
        for key, partition, offset, most in self.wanted:
            limit = self._limit(most)
            if limit is None:
                break
            log = partition.log
            segments = log.segments if log is not None else ()
            try:
                records = partition.read_cached(offset, limit, at_least_one=not self._size)
            except NotCached:
                return False
            finally:
                if log is not None and log.segments is not segments:
                    self._left = segments
            self._add(key, records)
            if self._left:
                return False
            if pace.spent(_READ + len(records or b"") // _BYTES):
                yield
        return True

    def __call__(self) -> Found:
        """Read the rest, blocking. Unreadable data is left out: see `TopicPartition.read`."""
        self._left = ()
        for key, partition, offset, most in self.wanted[self._next :]:
            limit = self._limit(most)
            if limit is None:
                break
            try:
                self._add(key, partition.read(offset, limit, at_least_one=not self._size))
            except (StorageError, OSError) as error:
                self._add(key, error)
        return self.found

    def _limit(self, most: int) -> int | None:
        """Return how many bytes the next read may return; None: the response is full."""
        limit = max(min(most, self.budget - self._size), 0)
        return limit if limit or not self._size else None

    def _add(self, key: int, found: bytes | Exception | None) -> None:
        self._next += 1
        if found is not None:
            self.found[key] = found
            if isinstance(found, bytes):
                self._size += len(found)


@dataclass(slots=True)
class ReadResult:
    """A response, and whether to send it without waiting for more."""

    response: FetchResponse
    budget: int
    """Maximum record bytes of the response."""
    size: int = 0
    failed: bool = False
    partitions: int = 0


class FetchReader:
    """Reads for Fetch and for events."""

    def __init__(
        self, partitions: TopicPartitions, max_bytes: int, failed: Failed, jobs: FileJobs
    ) -> None:
        self._jobs = jobs
        self._partitions = partitions
        self._max_bytes = min(max_bytes, RESPONSE_BYTES)
        self._failed = failed
        self.room: Callable[[], int] = lambda: sys.maxsize
        """Returns how many bytes of responses may still be held; called for each response."""
        self._being_read = 0
        """Maximum bytes of the responses that threads are reading."""

    def plan(
        self, request: FetchRequest, watch: Callable[[TopicPartition], None] | None = None
    ) -> Slices[tuple[list[TopicPartition], Reads]]:
        """Return the partitions that the worker has to open first, and the reads for the others.

        `watch` is called with each partition before it is examined: later appends may not be read.
        """
        pace = Pace()
        unopened: dict[TopicPartition, None] = {}
        share = max(LEAST_BYTES, (self.room() - self._being_read) // ROOM_SHARE)
        reads = Reads(min(request.max_bytes, self._max_bytes, share))
        for topic in request.topics:
            for wanted in topic.partitions:
                partition = self._partitions.find(topic.topic, wanted.partition)
                if partition is not None:
                    if watch is not None:
                        watch(partition)
                    log, offset = partition.log, wanted.fetch_offset
                    if not partition.readable:
                        unopened[partition] = None
                    elif log is not None and log.start_offset <= offset < log.next_offset:
                        most = wanted.partition_max_bytes
                        reads.wanted.append((id(wanted), partition, offset, most))
                if pace.spent():
                    yield
            if pace.spent():
                yield
        return list(unopened), reads

    def start(self, reads: Reads) -> Slices[FileJob[Found]]:
        """Read data in memory, and let a thread read the rest: usually done on return."""
        if not reads.wanted:
            return NOTHING
        if (yield from reads.cached()):
            return _IN_PLACE.start(lambda: reads.found)
        job = self._jobs.start(reads)
        self._being_read += reads.budget
        job.when_done(partial(self._was_read, reads.budget))
        return job

    def _was_read(self, budget: int) -> None:
        self._being_read -= budget

    async def read(self, request: FetchRequest, version: int, turns: Turns) -> ReadResult:
        """Open logs, read and answer, without waiting for records."""
        unopened, reads = await turns.run(self.plan(request))
        if unopened:
            await self._partitions.prepare(unopened)
            _, reads = await turns.run(self.plan(request))
        found = await (await turns.run(self.start(reads))).wait()
        return await turns.run(self.answer(request, version, reads, found))

    def answer(
        self, request: FetchRequest, version: int, reads: Reads, found: Found
    ) -> Slices[ReadResult]:
        """Return the response with the results, partitions in the order of the request. If the
        version gives topics by id, their names are filled in, and empty for unknown ones.
        """
        pace = Pace()
        result = ReadResult(FetchResponse(), reads.budget)
        for topic in request.topics:
            answer = FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id)
            by_id = version >= BY_ID_SINCE
            result.response.responses.append(answer)
            if pace.spent():
                yield
            for wanted in topic.partitions:
                partition = self._partitions.find(topic.topic, wanted.partition)
                if partition is None:
                    unknown = by_id and not topic.topic
                    data = _error(wanted, UNKNOWN_ID if unknown else UNKNOWN_NAME)
                elif by_id and partition.topic.topic_id != topic.topic_id:
                    data = _error(wanted, ErrorCode.INCONSISTENT_TOPIC_ID)
                else:
                    data = self._answer(partition, wanted, found.get(id(wanted)))
                if not data.error_code and request.isolation_level != _READ_COMMITTED:
                    data.aborted_transactions = None
                answer.partitions.append(data)
                size = len(data.records or b"")
                result.size += size
                result.failed = result.failed or data.error_code != ErrorCode.NONE
                result.partitions += 1
                if pace.spent(_READ + size // _BYTES if size else 1):
                    yield
        return result

    def _answer(
        self, partition: TopicPartition, wanted: FetchPartition, found: bytes | Exception | None
    ) -> PartitionData:
        if isinstance(found, Exception):
            self._failed(partition.folder, found)
            return _error(wanted, ErrorCode.KAFKA_STORAGE_ERROR)
        log = partition.log
        if log is None:
            return _without_log(partition, wanted)
        # Any negative epoch means none, as in Kafka's `FetchRequest.optionalEpoch`.
        epoch = max(wanted.current_leader_epoch, UNKNOWN_EPOCH)
        error = check_leader_epoch(partition, epoch)
        if error != ErrorCode.NONE:
            return _error(wanted, error)
        end = log.next_offset
        if not log.start_offset <= wanted.fetch_offset <= end:
            return _error(wanted, ErrorCode.OFFSET_OUT_OF_RANGE)
        return PartitionData(
            partition_index=wanted.partition,
            high_watermark=end,
            last_stable_offset=end,
            log_start_offset=log.start_offset,
            records=found or b"",
        )


def _without_log(partition: TopicPartition, wanted: FetchPartition) -> PartitionData:
    if not partition.topic.internal:
        return _error(wanted, ErrorCode.KAFKA_STORAGE_ERROR)
    if wanted.fetch_offset != 0:
        # The coordinator has closed it for a moment: a consumer must not restart from 0.
        return _error(wanted, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return PartitionData(
        partition_index=wanted.partition, last_stable_offset=0, log_start_offset=0, records=b""
    )


def _error(wanted: FetchPartition, error: ErrorCode) -> PartitionData:
    return PartitionData(
        partition_index=wanted.partition,
        error_code=error,
        high_watermark=_NO_OFFSET,
        aborted_transactions=[] if error in (UNKNOWN_ID, UNKNOWN_NAME) else None,
        records=b"",
    )
