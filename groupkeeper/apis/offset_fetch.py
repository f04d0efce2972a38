"""OffsetFetch, in two forms: one group up to version 7, a list of groups from 8 on (KIP-709).

The core answers the newer form. Errors are per group from version 8 on, per response in versions 2
to 7, and per partition before. Source: Kafka's `KafkaApis.handleOffsetFetchRequest`.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from groupkeeper.apis.gather import MappedReply
from groupkeeper.apis.group_handler import GroupHandler
from groupkeeper.apis.groups_request import PER_GROUP, BatchedApi, GroupsRequest
from groupkeeper.coordinator.caller import Caller
from groupkeeper.coordinator.offsets import merge_parts, offset_bytes
from groupkeeper.exchange import ReplyTo, Response
from groupkeeper.groups.driver import PartitionDriver
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.mapped import mapped
from groupkeeper.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from groupkeeper.topics.limits import PARTITIONS_MOST, TOPICS_MOST
from groupkeeper.turns import Slices

MAX_TOPICS_ASKED: Final = TOPICS_MOST
"""How many topics of one group an OffsetFetch may name; more are INVALID_REQUEST."""
MAX_PARTITIONS_ASKED: Final = PARTITIONS_MOST
"""How many partitions of one group an OffsetFetch may name; more are INVALID_REQUEST."""
PART_TOPICS: Final = 1_000
"""How many topics of one group are looked up in one step."""


class OffsetFetchHandler(GroupHandler):
    """Answers OffsetFetch."""

    def handle(
        self, request: OffsetFetchRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[Response | None]:
        version = caller.api_version
        api = OffsetFetch(groups_asked(request, version), request.require_stable)
        groups_request = GroupsRequest(api, self._group_partitions, caller)
        if version >= 8:
            return (yield from groups_request.ask(reply_to))

        def flat(response: Any) -> OffsetFetchResponse:
            [group] = response.groups
            return flat_reply(request, version, group)

        response = yield from groups_request.ask(MappedReply(reply_to, flat))
        return None if response is None else flat(response)


@dataclass(slots=True)
class OffsetFetch(BatchedApi):
    """Splits OffsetFetch into batches."""

    items: list[OffsetFetchRequestGroup]
    require_stable: bool
    repeats: bool = True
    name: str = "OffsetFetch"

    def key(self, at: int) -> Hashable:
        """Return a key for requests for all offsets of a group; other requests are not compared."""
        item = self.items[at]
        return item.group_id if item.topics is None else at

    def group_id(self, item: OffsetFetchRequestGroup) -> str:
        return item.group_id

    def excess(self, item: OffsetFetchRequestGroup) -> tuple[str, int] | None:
        topics = item.topics or ()
        if len(topics) > MAX_TOPICS_ASKED:
            return "max_topics_asked", MAX_TOPICS_ASKED
        if sum(len(topic.partition_indexes) for topic in topics) > MAX_PARTITIONS_ASKED:
            return "max_partitions_asked", MAX_PARTITIONS_ASKED
        return None

    def weight(self, item: OffsetFetchRequestGroup, driver: PartitionDriver) -> int:
        """Return the work; a partition counts a thirtieth of a topic."""
        sizes: Iterable[int]
        if item.topics is not None:
            sizes = (len(topic.partition_indexes) for topic in item.topics)
        else:
            group = driver.peek(item.group_id)
            sizes = () if group is None else map(len, group.offsets.values())
        return sum(1 + size // 30 for size in sizes)

    def parts(self, item: OffsetFetchRequestGroup) -> Sequence[OffsetFetchRequestGroup]:
        """Cut the topics into parts; a later part may have offsets committed meanwhile."""
        topics, most = item.topics, PART_TOPICS
        if topics is None or len(topics) <= most:
            return (item,)
        return [
            OffsetFetchRequestGroup(group_id=item.group_id, topics=topics[at : at + most])
            for at in range(0, len(topics), most)
        ]

    def joined(self, results: Sequence[OffsetFetchResponseGroup]) -> OffsetFetchResponseGroup:
        return merge_parts(results)

    def request(self, items: list[OffsetFetchRequestGroup]) -> OffsetFetchRequest:
        return OffsetFetchRequest(groups=items, require_stable=self.require_stable)

    def results(self, reply: OffsetFetchResponse) -> Sequence[OffsetFetchResponseGroup]:
        return reply.groups

    def size(self, result: OffsetFetchResponseGroup, driver: PartitionDriver) -> int:
        return PER_GROUP + len(result.group_id) + offset_bytes(result)

    def refused(self, error: ErrorCode, item: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
        return OffsetFetchResponseGroup(group_id=item.group_id, error_code=error)

    def whole(self, results: list[OffsetFetchResponseGroup]) -> OffsetFetchResponse:
        return OffsetFetchResponse(groups=results)


def groups_asked(request: OffsetFetchRequest, version: int) -> list[OffsetFetchRequestGroup]:
    """Return the groups of a request, in the newer form."""
    if version >= 8:
        return request.groups
    return [OffsetFetchRequestGroup(group_id=request.group_id, topics=request.topics)]


def flat_reply(
    request: OffsetFetchRequest, version: int, group: OffsetFetchResponseGroup
) -> OffsetFetchResponse:
    """Make the older form of one group's answer."""
    if version == 0:  # offsets in ZooKeeper
        return _on_every_partition(request, ErrorCode.UNSUPPORTED_VERSION)
    if group.error_code and version == 1:
        return _on_every_partition(request, group.error_code)
    if group.error_code:
        return OffsetFetchResponse(error_code=group.error_code)
    return OffsetFetchResponse(topics=group.topics)


def _on_every_partition(request: OffsetFetchRequest, error: int) -> OffsetFetchResponse:
    refused = partial(_refused, error)
    return OffsetFetchResponse(topics=mapped(refused, request.topics or []))


def _refused(error: int, topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    def row(index: int) -> OffsetFetchResponsePartitions:
        return OffsetFetchResponsePartitions(
            partition_index=index, committed_offset=-1, error_code=error
        )

    return OffsetFetchResponseTopics(
        name=topic.name, partitions=mapped(row, topic.partition_indexes)
    )
