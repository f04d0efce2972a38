"""OffsetForLeaderEpoch: returns end offsets of epochs, by which consumers detect a truncated log.

Epochs are looked up in leader_epochs.py. Source: Kafka's
`ReplicaManager.lastOffsetForLeaderEpoch`; KIP-101, KIP-320.
"""

from functools import partial

from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo, Response
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)
from groupkeeper.refused_rows import server_failed
from groupkeeper.topics.leader_epochs import check_leader_epoch, end_of_epoch
from groupkeeper.topics.partition import LEADER_EPOCH, TopicPartition
from groupkeeper.topics.slices import each_within
from groupkeeper.topics.topics import Topics
from groupkeeper.turns import Slices


class OffsetForLeaderEpochHandler:
    """Answers OffsetForLeaderEpoch."""

    def __init__(self, topics: Topics) -> None:
        self._partitions = topics.partitions
        self._log_opener = topics.log_opener

    def handle(
        self, request: OffsetForLeaderEpochRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[Response | None]:
        """Return the response, or None if logs have to be opened first."""
        return self._log_opener.answer(
            request.topics,
            lambda topic: ((topic.topic, wanted.partition) for wanted in topic.partitions),
            lambda: self._answer(request),
            reply_to,
            partial(server_failed, request, caller.api_version),
        )

    def _answer(self, request: OffsetForLeaderEpochRequest) -> Slices[OffsetForLeaderEpochResponse]:
        topics = yield from each_within(
            request.topics, lambda topic: topic.partitions, self._end, _result
        )
        return OffsetForLeaderEpochResponse(topics=topics)

    def _end(self, topic: OffsetForLeaderTopic, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
        partition = self._partitions.find(topic.topic, wanted.partition)
        if partition is None:
            return _refused(wanted, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        error = check_leader_epoch(partition, wanted.current_leader_epoch)
        if error == ErrorCode.NONE and partition.log is None:
            error = _without_log(partition, wanted)
        if error != ErrorCode.NONE:
            return _refused(wanted, error)
        epoch, end_offset = end_of_epoch(partition, wanted.leader_epoch)
        return EpochEndOffset(partition=wanted.partition, leader_epoch=epoch, end_offset=end_offset)


def _without_log(partition: TopicPartition, wanted: OffsetForLeaderPartition) -> ErrorCode:
    if not partition.topic.internal:
        return ErrorCode.KAFKA_STORAGE_ERROR
    # The group topic's log is not open yet, or closed for a moment: a consumer that knows a later
    # epoch must not conclude that all records were lost.
    later = wanted.leader_epoch > LEADER_EPOCH
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if later else ErrorCode.NONE


def _refused(wanted: OffsetForLeaderPartition, error: ErrorCode) -> EpochEndOffset:
    return EpochEndOffset(partition=wanted.partition, error_code=error)


def _result(
    topic: OffsetForLeaderTopic, partitions: list[EpochEndOffset]
) -> OffsetForLeaderTopicResult:
    return OffsetForLeaderTopicResult(topic=topic.topic, partitions=partitions)
