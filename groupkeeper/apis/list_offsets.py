"""ListOffsets: the first offset, the next one, or the one at a time.

Committed offsets are the coordinator's. Source: Kafka's
`KafkaApis.handleListOffsetRequest` and `UnifiedLog.fetchOffsetByTimestamp`; KIP-79 (times),
KIP-320 (epochs), KIP-734 (largest timestamp), KIP-405 and KIP-1005 (remote storage: there is none).
"""

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Final

from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo, Response
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.list_offsets import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from groupkeeper.protocol.record_batch import CorruptBatch
from groupkeeper.refused_rows import server_failed
from groupkeeper.storage.errors import StorageError
from groupkeeper.storage.log.log import Log
from groupkeeper.topics.leader_epochs import UNKNOWN_EPOCH, check_leader_epoch, epoch_at
from groupkeeper.topics.limits import OverLimitError
from groupkeeper.topics.partition import TopicPartition
from groupkeeper.topics.slices import each_within, visit_within
from groupkeeper.topics.topics import Topics
from groupkeeper.turns import TURN_S, Slices

_NAMES_SINCE: Final = {
    LATEST_TIMESTAMP: 0,
    EARLIEST_TIMESTAMP: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
}
"""First version of each negative timestamp, which stands for a position."""


@dataclass(slots=True)
class _Lookup:
    """A result whose offset has to be looked up by time."""

    result: ListOffsetsPartitionResponse
    partition: TopicPartition
    log: Log
    wanted: ListOffsetsPartition


class ListOffsetsHandler:
    """Answers ListOffsets."""

    def __init__(self, topics: Topics) -> None:
        self._partitions = topics.partitions
        self._log_opener = topics.log_opener
        self._lookup = topics.lookup
        self._failed = topics.failed

    def handle(
        self, request: ListOffsetsRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[Response | None]:
        """Return the response, or None if logs have to be opened or searched first."""
        version = caller.api_version
        return self._log_opener.answer(
            request.topics,
            lambda topic: ((topic.name, wanted.partition_index) for wanted in topic.partitions),
            lambda: self._list(request, version, reply_to),
            reply_to,
            partial(server_failed, request, version),
        )

    def _list(
        self, request: ListOffsetsRequest, version: int, reply_to: ReplyTo
    ) -> Slices[Response | None]:
        repeated = yield from _repeated(request)
        lookups: list[_Lookup] = []

        def answer(
            topic: ListOffsetsTopic, wanted: ListOffsetsPartition
        ) -> ListOffsetsPartitionResponse:
            if (topic.name, wanted.partition_index) in repeated:
                return _refused(wanted, ErrorCode.INVALID_REQUEST)
            return self._answer(topic.name, wanted, version, lookups)

        topics = yield from each_within(
            request.topics, lambda topic: topic.partitions, answer, _result
        )
        response = ListOffsetsResponse(topics=topics)
        if not lookups:
            return response
        self._log_opener.response_tasks.start(
            self._look_up(lookups, response, version),
            reply_to,
            partial(server_failed, request, version),
        )
        return None

    def _answer(
        self, topic_name: str, wanted: ListOffsetsPartition, version: int, lookups: list[_Lookup]
    ) -> ListOffsetsPartitionResponse:
        if wanted.timestamp < 0 and version < _NAMES_SINCE.get(wanted.timestamp, version + 1):
            return _refused(wanted, ErrorCode.UNSUPPORTED_VERSION)
        partition = self._partitions.find(topic_name, wanted.partition_index)
        if partition is None:
            return _refused(wanted, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if not partition.readable:
            return _refused(wanted, ErrorCode.KAFKA_STORAGE_ERROR)
        error = check_leader_epoch(partition, wanted.current_leader_epoch)
        if error != ErrorCode.NONE:
            return _refused(wanted, error)
        result = ListOffsetsPartitionResponse(
            partition_index=wanted.partition_index, offset=-1, timestamp=-1
        )
        by_time = wanted.timestamp >= 0 or wanted.timestamp == MAX_TIMESTAMP
        if by_time and partition.log is not None:
            lookups.append(_Lookup(result, partition, partition.log, wanted))
        elif version == 0:
            result.old_style_offsets = _old_style(partition, wanted)
        elif not by_time:
            _fill(result, partition, _end(partition, wanted.timestamp), -1)
        return result

    async def _look_up(
        self, lookups: list[_Lookup], response: ListOffsetsResponse, version: int
    ) -> ListOffsetsResponse:
        turns, loop = self._log_opener.response_tasks.turns, asyncio.get_running_loop()
        deadline = loop.time() + TURN_S
        for one in lookups:
            result, partition = one.result, one.partition
            try:
                found = await self._found(one)
            except CorruptBatch:
                # The checksum is right, but the codec cannot decompress the records.
                result.error_code = ErrorCode.CORRUPT_MESSAGE
            except OverLimitError as limit:
                self._failed(partition.folder, limit)
                # Kafka has no such limit and no code for it. No log of a correct producer exceeds
                # it, and a retry would not help.
                result.error_code = ErrorCode.CORRUPT_MESSAGE
            except (StorageError, OSError) as error:
                result.error_code = await self._unreadable(one, error)
            else:
                if version == 0:
                    offsets = [] if found is None else [found[0]]
                    result.old_style_offsets = offsets[: max(one.wanted.max_num_offsets, 0)]
                elif found is not None:
                    _fill(result, partition, *found)
            if loop.time() >= deadline:  # many short lookups add up
                await turns.wait()
                deadline = loop.time() + TURN_S
        return response

    async def _unreadable(self, lookups: _Lookup, error: Exception) -> ErrorCode:
        partition = lookups.partition
        if partition.deleted:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # and so are the files
        self._failed(partition.folder, error)
        if partition.log is lookups.log:
            await self._partitions.drop_log(partition)
        return ErrorCode.KAFKA_STORAGE_ERROR

    async def _found(self, lookups: _Lookup) -> tuple[int, int] | None:
        timestamp = lookups.wanted.timestamp
        if timestamp == MAX_TIMESTAMP:
            return await self._lookup.newest(lookups.log)
        return await self._lookup.first(lookups.log, timestamp)


def _fill(
    result: ListOffsetsPartitionResponse, partition: TopicPartition, offset: int, timestamp: int
) -> None:
    result.offset = offset
    result.timestamp = timestamp
    result.leader_epoch = UNKNOWN_EPOCH if offset < 0 else epoch_at(partition, offset)


def _end(partition: TopicPartition, name: int) -> int:
    """Return the offset that a negative timestamp stands for, or -1."""
    if name == LATEST_TIMESTAMP:
        return _bounds(partition)[1]
    if name in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        return _bounds(partition)[0]
    return -1  # LATEST_TIERED_TIMESTAMP: all storage is local


def _bounds(partition: TopicPartition) -> tuple[int, int]:
    """Return first and next offset; partitions of the group topic may have no log yet."""
    log = partition.log
    return (0, 0) if log is None else (log.start_offset, log.next_offset)


def _old_style(partition: TopicPartition, wanted: ListOffsetsPartition) -> list[int]:
    """Return the offsets of version 0, at which reading may start, newest first, at most
    `max_num_offsets`.

    Kafka lists segments by the age of their files; here it is the end of the log, its start,
    or the offset of the timestamp.
    """
    start, end = _bounds(partition)
    if wanted.timestamp == LATEST_TIMESTAMP:
        offsets = [end, start] if start < end else [end]
    elif wanted.timestamp == EARLIEST_TIMESTAMP:
        offsets = [start]
    else:
        offsets = []
    return offsets[: max(wanted.max_num_offsets, 0)]


def _repeated(request: ListOffsetsRequest) -> Slices[set[tuple[str, int]]]:
    seen: set[tuple[str, int]] = set()
    repeated: set[tuple[str, int]] = set()

    def look(topic: ListOffsetsTopic, wanted: ListOffsetsPartition) -> None:
        partition_id = topic.name, wanted.partition_index
        (repeated if partition_id in seen else seen).add(partition_id)

    yield from visit_within(request.topics, lambda topic: topic.partitions, look)
    return repeated


def _result(
    topic: ListOffsetsTopic, partitions: list[ListOffsetsPartitionResponse]
) -> ListOffsetsTopicResponse:
    return ListOffsetsTopicResponse(name=topic.name, partitions=partitions)


def _refused(wanted: ListOffsetsPartition, error: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=wanted.partition_index, error_code=error)
