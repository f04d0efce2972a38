"""Reads the logs for one Fetch: what is there now, within the limits of the request.

Waiting is in apis/fetch.py. Source: Kafka's `ReplicaManager.readFromLog` (KIP-74 for the limits).
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from groupkeeper.storage.errors import StorageError
from groupkeeper.storage.log import Log
from groupkeeper.topics.leader_epochs import UNKNOWN_EPOCH, check_leader_epoch
from groupkeeper.topics.partition import TopicPartition
from groupkeeper.topics.partitions import Failed, Read, TopicPartitions
from groupkeeper.topics.slices import Pace
from groupkeeper.turns import Slices, Turns

RESPONSE_BYTES: Final = 2 * 1024 * 1024
"""Most record bytes of one response, so that reading them does not block the event loop for long;
clients fetch again."""

LEAST_BYTES: Final = 64 * 1024
"""One response may have so many bytes even if responses that clients have not read yet leave less
room: consumers slow down, but proceed."""

ROOM_SHARE: Final = 16
"""One response takes at most this fraction of the room left, so that many clients get some."""

BY_ID_SINCE: Final = 13
"""From this version on, topics are given by id (KIP-516)."""

UNKNOWN_ID: Final = ErrorCode.UNKNOWN_TOPIC_ID
UNKNOWN_NAME: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

_READ_COMMITTED: Final = 1
_NO_OFFSET: Final = -1

# Cost of reading records in items of a `Pace`: of the call, and bytes that cost one more.
_READ: Final = 10
_BYTES: Final = 8 * 1024


@dataclass(slots=True)
class ReadResult:
    """A response, and whether to send it without waiting for more."""

    response: FetchResponse
    budget: int
    """Most record bytes that it may have."""
    size: int = 0
    failed: bool = False
    partitions: int = 0


class FetchReader:
    """Reads for Fetch, without waiting and without opening logs."""

    def __init__(self, partitions: TopicPartitions, max_bytes: int, failed: Failed) -> None:
        self._partitions = partitions
        self._max_bytes = min(max_bytes, RESPONSE_BYTES)
        self._failed = failed
        self.room: Callable[[], int] = lambda: sys.maxsize
        """How many bytes of responses may still be held for clients; called for each response."""

    def unready(self, request: FetchRequest) -> Slices[tuple[list[TopicPartition], list[Read]]]:
        """What the worker has to do first: partitions to open, and reads of the others that may
        have to wait for the disk.
        """
        pace = Pace()
        unopened: dict[TopicPartition, None] = {}
        cold: list[Read] = []
        budget = min(request.max_bytes, self._max_bytes)
        for topic in request.topics:
            for wanted in topic.partitions:
                partition = self._partitions.find(topic.topic, wanted.partition)
                if partition is None:
                    continue
                if not partition.readable:
                    unopened[partition] = None
                elif budget > 0 and partition.is_cold(wanted.fetch_offset):
                    size = min(wanted.partition_max_bytes, budget)
                    cold.append((partition, wanted.fetch_offset, size))
                    budget -= size
                if pace.spent():
                    yield
            if pace.spent():
                yield
        return list(unopened), cold

    async def prepare(
        self, request: FetchRequest, unopened: list[TopicPartition], turns: Turns
    ) -> None:
        """Let the worker do it. `read` reports what failed."""
        await self._partitions.prepare(unopened)
        _, cold = await turns.run(self.unready(request))
        await self._partitions.warm(cold)

    def read(
        self,
        request: FetchRequest,
        version: int,
        watch: Callable[[TopicPartition], None] | None = None,
    ) -> Slices[ReadResult]:
        """Read partitions in the order of the request; the first with data returns a batch of any
        size. `watch` is called with each partition before it is read. If the version gives topics
        by id, their names are filled in, and empty for unknown ones.
        """
        pace = Pace()
        share = max(LEAST_BYTES, self.room() // ROOM_SHARE)
        result = ReadResult(FetchResponse(), min(request.max_bytes, self._max_bytes, share))
        for topic in request.topics:
            answer = FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id)
            by_id = version >= BY_ID_SINCE
            result.response.responses.append(answer)
            if pace.spent():
                yield
            for wanted in topic.partitions:
                partition = self._partitions.find(topic.topic, wanted.partition)
                if watch is not None and partition is not None:
                    watch(partition)
                if partition is None:
                    unknown = by_id and not topic.topic
                    data = _error(wanted, UNKNOWN_ID if unknown else UNKNOWN_NAME)
                elif by_id and partition.topic.topic_id != topic.topic_id:
                    data = _error(wanted, ErrorCode.INCONSISTENT_TOPIC_ID)
                else:
                    left = result.budget - result.size
                    data = self._read(partition, wanted, left, result.size == 0)
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

    def _read(
        self, partition: TopicPartition, wanted: FetchPartition, budget: int, first: bool
    ) -> PartitionData:
        log = partition.log
        if log is None:
            return _without_log(partition, wanted)
        # Any negative epoch is none here, as in Kafka's `FetchRequest.optionalEpoch`.
        epoch = max(wanted.current_leader_epoch, UNKNOWN_EPOCH)
        error = check_leader_epoch(partition, epoch)
        if error != ErrorCode.NONE:
            return _error(wanted, error)
        end = log.next_offset
        if not log.start_offset <= wanted.fetch_offset <= end:
            return _error(wanted, ErrorCode.OFFSET_OUT_OF_RANGE)
        try:
            records = _bounded(log, wanted, budget, first)
        except (StorageError, OSError) as failure:
            self._failed(partition.folder, failure)
            partition.close()
            return _error(wanted, ErrorCode.KAFKA_STORAGE_ERROR)
        return PartitionData(
            partition_index=wanted.partition,
            high_watermark=end,
            last_stable_offset=end,
            log_start_offset=log.start_offset,
            records=records,
        )


def _bounded(log: Log, wanted: FetchPartition, budget: int, first: bool) -> bytes:
    """Batches that fit; the first one of a response need not (KIP-74)."""
    limit = min(wanted.partition_max_bytes, budget)
    if limit <= 0 and not first:
        return b""
    return log.read(wanted.fetch_offset, max(limit, 0), at_least_one=first)


def _without_log(partition: TopicPartition, wanted: FetchPartition) -> PartitionData:
    if not partition.topic.internal:
        return _error(wanted, ErrorCode.KAFKA_STORAGE_ERROR)
    if wanted.fetch_offset != 0:
        # The coordinator has closed it for a moment: a consumer must not start from 0 again.
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
