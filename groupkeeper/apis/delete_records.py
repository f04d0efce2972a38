"""DeleteRecords: partitions forget their beginning, durably.

Not the forgetting itself (partitions.py, storage/log.py). Source: Kafka's
``ReplicaManager.deleteRecordsOnLocalLog`` and ``Partition.deleteRecordsOnLeader``; KIP-107.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.delete_records import (
    HIGH_WATERMARK,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from groupkeeper.topics.log_opener import Place
from groupkeeper.topics.partition import Partition
from groupkeeper.topics.slices import Pace, each
from groupkeeper.topics.topics import EmbeddedTopics
from groupkeeper.turns import Slices

_NO_OFFSET: Final = -1


class DeleteRecordsHandler:
    """Answers DeleteRecords, one request at a time: an older start must not overwrite a newer."""

    def __init__(self, topics: EmbeddedTopics) -> None:
        self._partitions = topics.partitions
        self._opening = topics.log_opener
        self._late = topics.late
        self._deleting = asyncio.Lock()

    def handle(
        self, request: DeleteRecordsRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[None]:
        wanted = yield from _wanted(request)
        self._late.start(self._delete(wanted), reply_to, lambda: _broken(wanted))

    async def _delete(self, wanted: Mapping[Place, int]) -> DeleteRecordsResponse:
        run = self._late.turns.run
        async with self._deleting:
            unready = await run(self._opening.unready(wanted, lambda place: (place,), _is_open))
            await self._partitions.prepare(unready)
            results: dict[Place, DeleteRecordsPartitionResult] = {}
            due = await run(self._due(wanted, results))
            for place in due:
                results[place] = await self._delete_before(place, wanted[place])
        return await run(_response(results))

    def _due(
        self, wanted: Mapping[Place, int], results: dict[Place, DeleteRecordsPartitionResult]
    ) -> Slices[list[Place]]:
        """Where there is something to do. The other results are known, and their order is."""
        due = []

        def check(place: Place) -> None:
            checked = self._checked(place, wanted[place])
            if isinstance(checked, tuple):
                due.append(place)
                checked = _refused(place, ErrorCode.NONE)
            results[place] = checked

        yield from each(wanted, check)
        return due

    async def _delete_before(self, place: Place, offset: int) -> DeleteRecordsPartitionResult:
        checked = self._checked(place, offset)
        if not isinstance(checked, tuple):
            return checked
        partition, start = checked
        if not await self._partitions.delete_before(partition, start):
            return _refused(place, _why_not(partition))
        return DeleteRecordsPartitionResult(partition_index=place[1], low_watermark=start)

    def _checked(
        self, place: Place, offset: int
    ) -> DeleteRecordsPartitionResult | tuple[Partition, int]:
        """What can be said at once, or which partition is to begin where."""
        partition = self._partitions.find(*place)
        if partition is None:
            return _refused(place, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if partition.topic.internal:
            return _refused(place, ErrorCode.INVALID_TOPIC_EXCEPTION)
        if not partition.topic.deletes_records:
            return _refused(place, ErrorCode.POLICY_VIOLATION)
        log = partition.log
        if log is None:
            return _refused(place, ErrorCode.KAFKA_STORAGE_ERROR)
        start = log.next_offset if offset == HIGH_WATERMARK else offset
        if not 0 <= start <= log.next_offset:
            return _refused(place, ErrorCode.OFFSET_OUT_OF_RANGE)
        if start > log.start_offset:
            return partition, start
        return DeleteRecordsPartitionResult(
            partition_index=place[1], low_watermark=log.start_offset
        )


def _why_not(partition: Partition) -> ErrorCode:
    if partition.deleted:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.KAFKA_STORAGE_ERROR


def _refused(place: Place, code: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=place[1], low_watermark=_NO_OFFSET, error_code=code
    )


def _wanted(request: DeleteRecordsRequest) -> Slices[dict[Place, int]]:
    """As in Kafka, the last offset counts for a partition that is named more than once."""
    pace = Pace()
    wanted: dict[Place, int] = {}
    for topic in request.topics:
        if pace.spent():
            yield
        for partition in topic.partitions:
            wanted[topic.name, partition.partition_index] = partition.offset
            if pace.spent():
                yield
    return wanted


def _is_open(partition: Partition) -> bool:
    return partition.readable


def _response(
    results: Mapping[Place, DeleteRecordsPartitionResult],
) -> Slices[DeleteRecordsResponse]:
    topics: dict[str, DeleteRecordsTopicResult] = {}

    def add(place: Place) -> None:
        topic = topics.setdefault(place[0], DeleteRecordsTopicResult(name=place[0]))
        topic.partitions.append(results[place])

    yield from each(results, add)
    return DeleteRecordsResponse(topics=list(topics.values()))


def _broken(wanted: Mapping[Place, int]) -> DeleteRecordsResponse:
    code = ErrorCode.UNKNOWN_SERVER_ERROR
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(name=place[0], partitions=[_refused(place, code)])
            for place in wanted
        ]
    )
