"""DeleteRecords: partitions forget their beginning, durably.

Not the forgetting itself (partitions.py, storage/log.py). Source: Kafka's
``ReplicaManager.deleteRecordsOnLocalLog`` and ``Partition.deleteRecordsOnLeader``; KIP-107.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo
from groupkeeper.topics.offload import LateAnswers
from groupkeeper.topics.opening import Place
from groupkeeper.topics.partition import Partition
from groupkeeper.topics.partitions import Partitions
from protocol.errors import ErrorCode
from protocol.messages.delete_records import (
    HIGH_WATERMARK,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

_NO_OFFSET: Final = -1


class DeletingRecords:
    """Answers DeleteRecords, one request at a time: an older start must not overwrite a newer."""

    def __init__(self, partitions: Partitions, late: LateAnswers) -> None:
        self._partitions = partitions
        self._late = late
        self._deleting = asyncio.Lock()

    def handle(self, request: DeleteRecordsRequest, caller: Caller, reply_to: ReplyTo) -> None:
        # As in Kafka, the last offset counts for a partition that is named more than once.
        wanted = {
            (topic.name, partition.partition_index): partition.offset
            for topic in request.topics
            for partition in topic.partitions
        }
        self._late.start(self._delete(wanted), reply_to, lambda: _broken(wanted))

    async def _delete(self, wanted: Mapping[Place, int]) -> DeleteRecordsResponse:
        async with self._deleting:
            existing = self._partitions.existing(wanted)
            await self._partitions.prepare(p for p in existing if not p.readable)
            results = {
                place: await self._delete_before(place, offset) for place, offset in wanted.items()
            }
        return _response(results)

    async def _delete_before(self, place: Place, offset: int) -> DeleteRecordsPartitionResult:
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
        if start > log.start_offset and not await self._partitions.delete_before(partition, start):
            return _refused(place, _why_not(partition))
        return DeleteRecordsPartitionResult(
            partition_index=place[1], low_watermark=max(start, log.start_offset)
        )


def _why_not(partition: Partition) -> ErrorCode:
    if partition.deleted:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.KAFKA_STORAGE_ERROR


def _refused(place: Place, code: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=place[1], low_watermark=_NO_OFFSET, error_code=code
    )


def _response(results: Mapping[Place, DeleteRecordsPartitionResult]) -> DeleteRecordsResponse:
    topics: dict[str, DeleteRecordsTopicResult] = {}
    for (name, _), result in results.items():
        topic = topics.setdefault(name, DeleteRecordsTopicResult(name=name))
        topic.partitions.append(result)
    return DeleteRecordsResponse(topics=list(topics.values()))


def _broken(wanted: Mapping[Place, int]) -> DeleteRecordsResponse:
    return _response({place: _refused(place, ErrorCode.UNKNOWN_SERVER_ERROR) for place in wanted})
