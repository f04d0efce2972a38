"""DescribeTopicPartitions: topics by name and their partitions by index, a page at a time.

Unlike Metadata, it creates no topics. Source: Kafka's
`DescribeTopicPartitionsRequestHandler`; KIP-966.
"""

import heapq
from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

from groupkeeper.apis.metadata import NO_LEADER, TOPIC_OPERATIONS, Unserved
from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo, Response
from groupkeeper.node import Node
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from groupkeeper.refused_rows import refused
from groupkeeper.topics.catalog import Topic
from groupkeeper.topics.names import GROUP_TOPIC, check_name
from groupkeeper.topics.refusals import Refusal
from groupkeeper.topics.slices import Pace, counts, each
from groupkeeper.topics.topics import Topics
from groupkeeper.turns import Slices

MAX_PAGE: Final = 2000
"""Largest page, whatever the client requests (Kafka's `max.request.partition.size.limit`)."""


_UNKNOWN: Final = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

_RUN: Final = 2000
"""Names sorted in one slice."""


class DescribeTopicPartitionsHandler:
    """Answers DescribeTopicPartitions."""

    def __init__(self, topics: Topics, node: Node, unserved: Unserved) -> None:
        self._admin = topics.admin
        self._unserved = unserved
        self._node_id = node.node_id

    def handle(
        self, request: DescribeTopicPartitionsRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[Response]:
        wanted = list((yield from counts(request.topics, lambda topic: topic.name)))
        cursor = request.cursor
        if cursor is not None and not _within(cursor, wanted):
            error = ErrorCode.INVALID_REQUEST
            return (yield from refused(request, caller.api_version, error))
        ordered = yield from _sorted(wanted or list(self._admin.catalog.by_name))
        if cursor is not None:
            del ordered[: bisect_left(ordered, cursor.topic_name)]
        limit = max(1, min(request.response_partition_limit, MAX_PAGE))
        return (yield from self._page(ordered, cursor, limit))

    def _page(
        self, ordered: Iterable[str], cursor: Cursor | None, limit: int
    ) -> Slices[DescribeTopicPartitionsResponse]:
        """Return `limit` partitions of topics in this order; unknown topics count as none."""
        page = DescribeTopicPartitionsResponse()
        pace = Pace()
        for name in ordered:
            if limit == 0:
                page.next_cursor = Cursor(topic_name=name)
                break
            topic = self._admin.catalog.by_name.get(name)
            if topic is None:
                page.topics.append(self._unknown(name))
                if pace.spent():
                    yield
                continue
            first = 0 if cursor is None or cursor.topic_name != name else cursor.partition_index
            indexes = range(first, topic.partition_count)
            page.topics.append(self._topic(topic, indexes[:limit]))
            if pace.spent(len(indexes[:limit])):
                yield
            if len(indexes) > limit:
                page.next_cursor = Cursor(topic_name=name, partition_index=indexes[limit])
                break
            limit -= len(indexes)
        return page

    def _topic(self, topic: Topic, indexes: range) -> DescribeTopicPartitionsResponseTopic:
        node_id = self._node_id
        unserved = self._unserved() if topic.name == GROUP_TOPIC else ()
        return DescribeTopicPartitionsResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=topic.internal,
            partitions=[
                DescribeTopicPartitionsResponsePartition(
                    error_code=ErrorCode.LEADER_NOT_AVAILABLE if index in unserved else 0,
                    partition_index=index,
                    leader_id=NO_LEADER if index in unserved else node_id,
                    leader_epoch=self._admin.leader_epoch(topic, index),
                    replica_nodes=[node_id],
                    isr_nodes=[] if index in unserved else [node_id],
                    eligible_leader_replicas=[],
                    last_known_elr=[],
                )
                for index in indexes
            ],
            topic_authorized_operations=TOPIC_OPERATIONS,
        )

    def _unknown(self, name: str) -> DescribeTopicPartitionsResponseTopic:
        refusal = check_name(name) or _UNKNOWN
        return DescribeTopicPartitionsResponseTopic(
            name=name, error_code=refusal.error, topic_authorized_operations=TOPIC_OPERATIONS
        )


def _within(cursor: Cursor, wanted: list[str]) -> bool:
    """Whether a page can begin there; if all topics are requested, its topic may be deleted."""
    known = not wanted or cursor.topic_name in wanted
    return known and cursor.partition_index >= 0


def _sorted(names: list[str]) -> Slices[list[str]]:
    """Sort names in slices: runs are sorted one by one, then merged."""
    runs = []
    for at in range(0, len(names), _RUN):
        if at:
            yield
        runs.append(sorted(names[at : at + _RUN]))
    return (yield from each(heapq.merge(*runs), str))
