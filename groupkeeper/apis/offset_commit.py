"""OffsetCommit: refuses unknown topics and partitions, and lets the group commit the rest.

Source: Kafka's `KafkaApis.handleOffsetCommitRequest`.
"""

from typing import Any

from groupkeeper.apis.gather import PART_PARTITIONS, cut_topics
from groupkeeper.apis.group_handler import GroupHandler
from groupkeeper.coordinator.caller import Caller
from groupkeeper.coordinator.commit import PreparedCommit, commit_refused
from groupkeeper.exchange import ReplyTo, Response
from groupkeeper.groups.group_partitions import GroupPartitions
from groupkeeper.groups.topic_check import PartitionCount, all_known
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
)
from groupkeeper.turns import Slices


class OffsetCommitHandler(GroupHandler):
    """Answers OffsetCommit."""

    def __init__(self, group_partitions: GroupPartitions, partition_count: PartitionCount) -> None:
        super().__init__(group_partitions)
        self._partition_count = partition_count

    def handle(
        self, request: OffsetCommitRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[Response | None] | None:
        """Refuse unknown topics and partitions; the group's partition handles the rest, if any."""
        known = all_known(request.topics, self._partition_count, PART_PARTITIONS)
        if known and caller.api_version > 0 and request.topics:
            self.forward(request, caller, reply_to)
            return None
        return self._commit(request, caller, reply_to)

    def _commit(
        self, request: OffsetCommitRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[Response | None]:
        driver, deleted = (
            self._group_partitions.of(request.group_id),
            self._group_partitions.deleted_topics,
        )
        began, gone = deleted.now(), set[str]()
        while True:
            commit = driver.prepare(request)
            found = yield from self._add_all(commit, gone)
            gone = deleted.since(began)
            # Repeated at most once per topic: endless deletions do not hold up a commit.
            if not gone or gone.isdisjoint(name for name, _ in commit.assessed.offsets):
                break
        answer = commit.assessed.response
        if not found:
            return answer
        if caller.api_version == 0:  # offsets in ZooKeeper
            everything: Any = OffsetCommitRequest(topics=answer.topics)  # type: ignore[arg-type]
            return commit_refused(everything, ErrorCode.UNSUPPORTED_VERSION)
        driver.call(commit, caller, reply_to)
        return None

    def _add_all(self, commit: PreparedCommit, gone: set[str]) -> Slices[int]:
        """Prepare a commit except for topics in `gone`; count the partitions that exist."""
        found, left = 0, PART_PARTITIONS
        for topic, partitions, continues in cut_topics(commit.request.topics):
            exist = None if topic.name in gone else self._partition_count(topic.name)
            if partitions or exist is None:  # a topic without partitions gets no result
                some = OffsetCommitRequestTopic(name=topic.name, partitions=partitions)
                found += commit.add(some, exist or 0, continues)
            left -= 1 + len(partitions)
            if left <= 0:
                left = PART_PARTITIONS
                yield
        return found
