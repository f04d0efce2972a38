"""ListOffsets: the first offset, the next one, or the one at a time.

Not consumer positions: those are the coordinator's. Source: Kafka's
``KafkaApis.handleListOffsetRequest`` and ``UnifiedLog.fetchOffsetByTimestamp``; KIP-79 (times),
KIP-320 (epochs), KIP-734 (largest timestamp), KIP-405 and KIP-1005 (remote storage: there is none).
"""

from collections.abc import Sequence
from typing import Final

from coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo, Response
from groupkeeper.topics.leader_epochs import UNKNOWN_EPOCH, check_leader_epoch, epoch_at
from groupkeeper.topics.opening import Opening
from groupkeeper.topics.partition import Partition
from groupkeeper.topics.partitions import Failed, Partitions
from groupkeeper.topics.slices import Pace, each_within
from groupkeeper.turns import Slices
from protocol.errors import ErrorCode
from protocol.messages.list_offsets import (
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
from protocol.record_batch import CorruptBatch
from storage.errors import StorageError

_NAMES_SINCE: Final = {
    LATEST_TIMESTAMP: 0,
    EARLIEST_TIMESTAMP: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
}
"""Negative times are names, and newer versions have more of them."""

_NOTHING: Final = (-1, -1)


class ListingOffsets:
    """Answers ListOffsets."""

    def __init__(self, partitions: Partitions, opening: Opening, failed: Failed) -> None:
        self._partitions = partitions
        self._opening = opening
        self._failed = failed

    def handle(
        self, request: ListOffsetsRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[Response | None]:
        """The response, or None when logs have to be opened first."""
        return self._opening.answer_when_readable(
            request.topics,
            lambda topic: ((topic.name, wanted.partition_index) for wanted in topic.partitions),
            lambda: self._list(request, caller.api_version),
            reply_to,
            lambda: _broken(request),
        )

    def _list(self, request: ListOffsetsRequest, version: int) -> Slices[ListOffsetsResponse]:
        repeated = yield from _repeated(request)

        def answer(
            topic: ListOffsetsTopic, wanted: ListOffsetsPartition
        ) -> ListOffsetsPartitionResponse:
            if (topic.name, wanted.partition_index) in repeated:
                return _error(wanted, ErrorCode.INVALID_REQUEST)
            return self._answer(topic.name, wanted, version)

        topics = yield from each_within(request.topics, _partitions_of, answer, _result)
        return ListOffsetsResponse(topics=topics)

    def _answer(
        self, topic_name: str, wanted: ListOffsetsPartition, version: int
    ) -> ListOffsetsPartitionResponse:
        if wanted.timestamp < 0 and version < _NAMES_SINCE.get(wanted.timestamp, version + 1):
            return _error(wanted, ErrorCode.UNSUPPORTED_VERSION)
        partition = self._partitions.find(topic_name, wanted.partition_index)
        if partition is None:
            return _error(wanted, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if not partition.readable:
            return _error(wanted, ErrorCode.KAFKA_STORAGE_ERROR)
        code = check_leader_epoch(partition, wanted.current_leader_epoch)
        if code != ErrorCode.NONE:
            return _error(wanted, code)
        try:
            if version == 0:
                return _old_style(partition, wanted)
            offset, timestamp = _find(partition, wanted.timestamp)
        except CorruptBatch:
            # Stored as it came, with a good checksum over something that no codec understands.
            return _error(wanted, ErrorCode.CORRUPT_MESSAGE)
        except (StorageError, OSError) as error:
            self._failed(partition.folder, error)
            partition.close()
            return _error(wanted, ErrorCode.KAFKA_STORAGE_ERROR)
        return ListOffsetsPartitionResponse(
            partition_index=wanted.partition_index,
            timestamp=timestamp,
            offset=offset,
            leader_epoch=UNKNOWN_EPOCH if offset < 0 else epoch_at(partition.log, offset),
        )


def _find(partition: Partition, timestamp: int) -> tuple[int, int]:
    """Offset and its timestamp (the ends have none); -1 and -1 if nothing is that young."""
    if timestamp == LATEST_TIMESTAMP:
        return _bounds(partition)[1], -1
    if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        return _bounds(partition)[0], -1
    if timestamp == LATEST_TIERED_TIMESTAMP:
        return _NOTHING  # all storage is local
    if timestamp == MAX_TIMESTAMP:
        return partition.newest_timestamp() or _NOTHING
    return partition.offset_for_timestamp(timestamp) or _NOTHING


def _bounds(partition: Partition) -> tuple[int, int]:
    """First and next offset; the coordinator's partitions have no log until a group needs them."""
    log = partition.log
    return (0, 0) if log is None else (log.start_offset, log.next_offset)


def _old_style(partition: Partition, wanted: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
    """Version 0: offsets where reading may start, newest first, at most as many as asked for.

    Kafka lists segments by the age of their files; here it is the log's end, its start, or the
    offset of the time.
    """
    start, end = _bounds(partition)
    if wanted.timestamp == LATEST_TIMESTAMP:
        offsets = [end, start] if start < end else [end]
    elif wanted.timestamp == EARLIEST_TIMESTAMP:
        offsets = [start]
    else:
        found = partition.offset_for_timestamp(wanted.timestamp)
        offsets = [] if found is None else [found[0]]
    return ListOffsetsPartitionResponse(
        partition_index=wanted.partition_index,
        old_style_offsets=offsets[: max(wanted.max_num_offsets, 0)],
    )


def _repeated(request: ListOffsetsRequest) -> Slices[set[tuple[str, int]]]:
    pace = Pace()
    seen: set[tuple[str, int]] = set()
    repeated: set[tuple[str, int]] = set()
    for topic in request.topics:
        if pace.spent():
            yield
        for wanted in topic.partitions:
            key = (topic.name, wanted.partition_index)
            (repeated if key in seen else seen).add(key)
            if pace.spent():
                yield
    return repeated


def _partitions_of(topic: ListOffsetsTopic) -> Sequence[ListOffsetsPartition]:
    return topic.partitions


def _result(
    topic: ListOffsetsTopic, partitions: list[ListOffsetsPartitionResponse]
) -> ListOffsetsTopicResponse:
    return ListOffsetsTopicResponse(name=topic.name, partitions=partitions)


def _error(wanted: ListOffsetsPartition, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=wanted.partition_index, error_code=code)


def _broken(request: ListOffsetsRequest) -> ListOffsetsResponse:
    code = ErrorCode.UNKNOWN_SERVER_ERROR
    return ListOffsetsResponse(
        topics=[
            _result(topic, [_error(wanted, code) for wanted in topic.partitions])
            for topic in request.topics
        ]
    )
