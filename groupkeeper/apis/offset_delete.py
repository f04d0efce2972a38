"""OffsetDelete: refuses unknown topics and partitions, and lets the group delete the rest.

Source: Kafka's `KafkaApis.handleOffsetDeleteRequest`; KIP-496.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from groupkeeper.apis.gather import PART_PARTITIONS, MappedReply, cut_topics, part_replies
from groupkeeper.apis.group_handler import GroupHandler
from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo
from groupkeeper.groups.group_partitions import GroupPartitions
from groupkeeper.groups.topic_check import PartitionCount, overlay
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from groupkeeper.turns import Slices


@dataclass(slots=True)
class _Part:
    """A part of the offsets that an OffsetDelete names."""

    continues: bool
    """The first topic is also the last one of the part before."""
    known: list[OffsetDeleteRequestTopic]
    refused: list[OffsetDeleteResponseTopic]
    """Results of unknown topics and partitions."""


class OffsetDeleteHandler(GroupHandler):
    """Answers OffsetDelete."""

    def __init__(self, group_partitions: GroupPartitions, partition_count: PartitionCount) -> None:
        super().__init__(group_partitions)
        self._partition_count = partition_count

    def handle(
        self, request: OffsetDeleteRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[None]:
        """Let the group's partition answer in any case, as its error is the response to the whole
        request.

        Very many offsets are deleted in parts; a member that joins meanwhile may keep some.
        """
        parts = yield from self._split(request)
        replies = part_replies(reply_to, len(parts), partial(_whole, parts))
        for part, reply in zip(parts, replies, strict=True):
            some = OffsetDeleteRequest(group_id=request.group_id, topics=part.known)
            self.forward(some, caller, MappedReply(reply, partial(_with_refused, part.refused)))
            yield

    def _split(self, request: OffsetDeleteRequest) -> Slices[list[_Part]]:
        parts, left = [_Part(False, [], [])], PART_PARTITIONS
        for topic, partitions, continues in cut_topics(request.topics):
            exist = self._partition_count(topic.name)
            if left <= 0:
                left = PART_PARTITIONS
                parts.append(_Part(continues, [], []))
                yield
            left -= 1 + len(partitions)
            if partitions or exist is None:
                parts[-1].refused.append(_delete_refused(topic.name, partitions))
            known = [p for p in partitions if 0 <= p.partition_index < (exist or 0)]
            if known:
                some = OffsetDeleteRequestTopic(name=topic.name, partitions=known)
                parts[-1].known.append(some)
        return parts


def _delete_refused(topic: str, partitions: Iterable[Any]) -> OffsetDeleteResponseTopic:
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    rows = [
        OffsetDeleteResponsePartition(partition_index=each.partition_index, error_code=error)
        for each in partitions
    ]
    return OffsetDeleteResponseTopic(name=topic, partitions=rows)


def _with_refused(
    refused: list[OffsetDeleteResponseTopic], reply: OffsetDeleteResponse
) -> OffsetDeleteResponse:
    return reply if reply.error_code else overlay(OffsetDeleteResponse(topics=refused), reply)


def _whole(parts: list[_Part], replies: list[OffsetDeleteResponse]) -> OffsetDeleteResponse:
    whole = OffsetDeleteResponse()
    for part, reply in zip(parts, replies, strict=True):
        topics = reply.topics
        if part.continues:
            whole.topics[-1].partitions += topics[0].partitions
            topics = topics[1:]
        whole.topics += topics
    return whole
