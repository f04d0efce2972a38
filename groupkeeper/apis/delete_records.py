"""DeleteRecords: move the start of partitions forward, durably.

The deletion itself is in topics/record_deletion.py and storage/log/log.py. Source: Kafka's
`ReplicaManager.deleteRecordsOnLocalLog` and `Partition.deleteRecordsOnLeader`; KIP-107.
"""

from collections.abc import Mapping
from functools import partial
from itertools import islice
from typing import Final

from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo
from groupkeeper.observe.seldom import SHOWN, AuditLines
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.delete_records import (
    HIGH_WATERMARK,
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)
from groupkeeper.refused_rows import server_failed
from groupkeeper.topics.log_opener import PartitionId
from groupkeeper.topics.partition import TopicPartition
from groupkeeper.topics.slices import Pace, each, visit_within
from groupkeeper.topics.topics import Topics
from groupkeeper.turns import Slices

_NO_OFFSET: Final = -1


class DeleteRecordsHandler:
    """Answers DeleteRecords, one request at a time."""

    def __init__(self, topics: Topics) -> None:
        self._partitions = topics.partitions
        self._log_opener = topics.log_opener
        self._response_tasks = topics.response_tasks
        self._deletion = topics.record_deletion
        self._lines = AuditLines()

    def handle(
        self, request: DeleteRecordsRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[None]:
        wanted = yield from _wanted(request)
        failed = partial(server_failed, request, caller.api_version)
        self._response_tasks.start(self._delete(wanted, caller), reply_to, failed)

    async def _delete(
        self, wanted: Mapping[PartitionId, int], caller: Caller
    ) -> DeleteRecordsResponse:
        run = self._response_tasks.turns.run
        async with self._deletion.lock:
            unopened = await run(self._log_opener.unopened(wanted, lambda each: (each,)))
            await self._partitions.prepare(unopened)
            results: dict[PartitionId, DeleteRecordsPartitionResult] = {}
            deleted: dict[PartitionId, int] = {}
            pace = Pace()
            for partition_id, offset in wanted.items():
                result = self._checked(partition_id, offset)
                if isinstance(result, tuple):
                    result = await self._delete_before(*result)
                    if result.error_code == ErrorCode.NONE:
                        deleted[partition_id] = result.low_watermark
                results[partition_id] = result
                if pace.spent():
                    await self._response_tasks.turns.wait()
        self._tell(deleted, caller)
        return await run(_response(results))

    async def _delete_before(
        self, partition: TopicPartition, start: int
    ) -> DeleteRecordsPartitionResult:
        if not await self._deletion.delete_before(partition, start):
            return _refused(partition.index, _write_error(partition))
        return DeleteRecordsPartitionResult(partition_index=partition.index, low_watermark=start)

    def _tell(self, deleted: Mapping[PartitionId, int], caller: Caller) -> None:
        """Log who deleted the records of which partitions, and before which offsets."""
        if deleted:
            some = islice(deleted.items(), SHOWN)
            shown = [f"{topic}-{index}: before {start}" for (topic, index), start in some]
            self._lines.tell("records deleted", caller.peer, shown, len(deleted))

    def _checked(
        self, partition_id: PartitionId, offset: int
    ) -> DeleteRecordsPartitionResult | tuple[TopicPartition, int]:
        """Return the result if it is known at once, or the partition and its new start."""
        _, index = partition_id
        partition = self._partitions.find(*partition_id)
        if partition is None:
            return _refused(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if partition.topic.internal:
            return _refused(index, ErrorCode.INVALID_TOPIC_EXCEPTION)
        if not partition.policy.deletes:
            return _refused(index, ErrorCode.POLICY_VIOLATION)
        log = partition.log
        if log is None:
            return _refused(index, ErrorCode.KAFKA_STORAGE_ERROR)
        start = log.next_offset if offset == HIGH_WATERMARK else offset
        if not 0 <= start <= log.next_offset:
            return _refused(index, ErrorCode.OFFSET_OUT_OF_RANGE)
        if start > log.start_offset:
            return partition, start
        return DeleteRecordsPartitionResult(partition_index=index, low_watermark=log.start_offset)


def _write_error(partition: TopicPartition) -> ErrorCode:
    if partition.deleted:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.KAFKA_STORAGE_ERROR


def _refused(index: int, error: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=index, low_watermark=_NO_OFFSET, error_code=error
    )


def _wanted(request: DeleteRecordsRequest) -> Slices[dict[PartitionId, int]]:
    """Return offsets by partition; the last counts for a repeated partition, as in Kafka."""
    wanted: dict[PartitionId, int] = {}

    def note(topic: DeleteRecordsTopic, partition: DeleteRecordsPartition) -> None:
        wanted[topic.name, partition.partition_index] = partition.offset

    yield from visit_within(request.topics, lambda topic: topic.partitions, note)
    return wanted


def _response(
    results: Mapping[PartitionId, DeleteRecordsPartitionResult],
) -> Slices[DeleteRecordsResponse]:
    topics: dict[str, DeleteRecordsTopicResult] = {}

    def add(partition_id: PartitionId) -> None:
        topic = topics.setdefault(partition_id[0], DeleteRecordsTopicResult(name=partition_id[0]))
        topic.partitions.append(results[partition_id])

    yield from each(results, add)
    return DeleteRecordsResponse(topics=list(topics.values()))
