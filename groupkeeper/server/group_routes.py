"""The group APIs: which partition answers, and what is settled before a group is asked.

A request for one group goes to its partition as it is. A request for several, or for all, is split
into one per partition. Topics and partitions that do not exist are set aside
from commits and deletions first, as Kafka's front end does; no group is asked about those.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from coordinator.caller import Caller
from coordinator.offsets import commit_refused
from groupkeeper.exchange import Handler, ReplyTo, Response
from groupkeeper.server.gather import Gather
from groupkeeper.server.host import PartitionHost
from groupkeeper.server.hosts import Hosts
from groupkeeper.server.offset_fetch import flat_reply, groups_asked
from groupkeeper.server.topic_check import (
    PartitionCount,
    all_known,
    answerable,
    known_of,
    overlay,
)
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)


@dataclass(slots=True)
class GroupRoutes:
    """Handlers of the group APIs, over the partitions of this process."""

    hosts: Hosts
    partition_count: PartitionCount

    def table(self) -> dict[int, Handler]:
        """API key to handler."""
        return {
            8: self.offset_commit,
            9: self.offset_fetch,
            11: self.one_group,
            12: self.one_group,
            13: self.one_group,
            14: self.one_group,
            15: self.describe_groups,
            16: self.list_groups,
            42: self.delete_groups,
            47: self.offset_delete,
        }

    def one_group(self, request: Any, caller: Caller, reply_to: ReplyTo) -> None:
        """JoinGroup, SyncGroup, Heartbeat, LeaveGroup: the group's partition decides."""
        self.hosts.of(request.group_id).call(request, caller, reply_to)

    def offset_commit(
        self, request: OffsetCommitRequest, caller: Caller, reply_to: ReplyTo
    ) -> Response | None:
        """What does not exist is refused here; with nothing left, the group is not even asked."""
        count = self.partition_count
        if all_known(request.topics, count) and caller.api_version > 0 and request.topics:
            self.one_group(request, caller, reply_to)
            return None
        request.topics = answerable(request.topics, count)
        everything = commit_refused(request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        known = known_of(request.topics, count)
        if not known:
            return everything
        if caller.api_version == 0:  # offsets in ZooKeeper, which is gone
            return commit_refused(request, ErrorCode.UNSUPPORTED_VERSION)
        request.topics = known

        def merge(replies: list[OffsetCommitResponse]) -> OffsetCommitResponse:
            return overlay(everything, replies[0])

        self.one_group(request, caller, Gather(reply_to, 1, merge).part(0))
        return None

    def offset_delete(
        self, request: OffsetDeleteRequest, caller: Caller, reply_to: ReplyTo
    ) -> None:
        """As for commits, but the group is asked in any case: its error discards the rest."""
        request.topics = answerable(request.topics, self.partition_count)
        everything = _delete_refused(request)
        request.topics = known_of(request.topics, self.partition_count)

        def merge(replies: list[OffsetDeleteResponse]) -> OffsetDeleteResponse:
            reply = replies[0]
            return reply if reply.error_code else overlay(everything, reply)

        self.one_group(request, caller, Gather(reply_to, 1, merge).part(0))

    def offset_fetch(
        self, request: OffsetFetchRequest, caller: Caller, reply_to: ReplyTo
    ) -> Response | None:
        """One group up to v7, several from v8 on (KIP-709); the core knows the newer form."""
        version, stable = caller.api_version, request.require_stable
        groups = groups_asked(request, version)

        def whole(results: list[OffsetFetchResponseGroup]) -> OffsetFetchResponse:
            if version < 8:
                return flat_reply(request, version, results[0])
            return OffsetFetchResponse(groups=results)

        several = Several(
            [group.group_id for group in groups],
            lambda places: OffsetFetchRequest(
                groups=[groups[at] for at in places], require_stable=stable
            ),
            lambda reply: reply.groups,
            whole,
        )
        return self._ask(several, caller, reply_to)

    def describe_groups(
        self, request: DescribeGroupsRequest, caller: Caller, reply_to: ReplyTo
    ) -> Response | None:
        """As many results as ids, in the order asked."""
        ids, operations = request.groups, request.include_authorized_operations
        several = Several(
            ids,
            lambda places: DescribeGroupsRequest(
                groups=[ids[at] for at in places], include_authorized_operations=operations
            ),
            lambda reply: reply.groups,
            lambda results: DescribeGroupsResponse(groups=results),
        )
        return self._ask(several, caller, reply_to)

    def delete_groups(
        self, request: DeleteGroupsRequest, caller: Caller, reply_to: ReplyTo
    ) -> Response | None:
        """An id that comes twice is answered once."""
        ids = list(dict.fromkeys(request.groups_names))
        several = Several(
            ids,
            lambda places: DeleteGroupsRequest(groups_names=[ids[at] for at in places]),
            lambda reply: reply.results,
            lambda results: DeleteGroupsResponse(results=results),
        )
        return self._ask(several, caller, reply_to)

    def list_groups(self, request: ListGroupsRequest, caller: Caller, reply_to: ReplyTo) -> None:
        """Every partition is asked; one that cannot answer makes the list an error, not short."""

        def merge(replies: list[ListGroupsResponse]) -> ListGroupsResponse:
            failed = next((r for r in replies if r.error_code), None)
            return failed or ListGroupsResponse(groups=list(chain(*(r.groups for r in replies))))

        gather = Gather(reply_to, len(self.hosts), merge)
        for index, host in enumerate(self.hosts):
            host.call(request, caller, gather.part(index))

    def _ask(self, several: "Several", caller: Caller, reply_to: ReplyTo) -> Response | None:
        """Ask every partition once for all of its groups."""
        places: dict[PartitionHost, list[int]] = {}
        for at, group_id in enumerate(several.group_ids):
            places.setdefault(self.hosts.of(group_id), []).append(at)
        if not places:
            return several.whole([])

        def merge(replies: list[Any]) -> Response:
            results: list[Any] = [None] * len(several.group_ids)
            for positions, reply in zip(places.values(), replies, strict=True):
                for at, result in zip(positions, several.results(reply), strict=True):
                    results[at] = result
            return several.whole(results)

        gather = Gather(reply_to, len(places), merge)
        for index, (host, positions) in enumerate(places.items()):
            host.call(several.part(positions), caller, gather.part(index))
        return None


@dataclass(slots=True)
class Several:
    """A request for several groups, which may live in several partitions."""

    group_ids: Sequence[str]
    part: Callable[[list[int]], Any]
    """The request for the groups at some positions."""
    results: Callable[[Any], Sequence[Any]]
    """What a reply says of each of its groups."""
    whole: Callable[[list[Any]], Response]
    """The answer with one result per group, in the order asked."""


def _delete_refused(request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    topics = [
        OffsetDeleteResponseTopic(
            name=topic.name,
            partitions=[
                OffsetDeleteResponsePartition(partition_index=p.partition_index, error_code=error)
                for p in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return OffsetDeleteResponse(topics=topics)
