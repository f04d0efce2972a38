"""Lists, describes and changes the consumer groups of a cluster, many groups per request.

Source: Kafka's admin client (`listGroups`, `DescribeConsumerGroupsHandler` for both protocols,
`listConsumerGroupOffsets`, `deleteConsumerGroups`, `removeMembersFromConsumerGroup`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from groupkeeper.client.client import CallFailed, Client
from groupkeeper.client.consumer_group_describe import (
    ConsumerAssignment,
    ConsumerGroupDescribeRequest,
    DescribedConsumerGroup,
)
from groupkeeper.client.coordinators import ask_coordinators, chunks
from groupkeeper.protocol.embedded import CONSUMER, decode_assignment
from groupkeeper.protocol.errors import DecodeError, ErrorCode
from groupkeeper.protocol.messages.delete_groups import DeleteGroupsRequest
from groupkeeper.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
)
from groupkeeper.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from groupkeeper.protocol.messages.list_groups import ListedGroup, ListGroupsRequest
from groupkeeper.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from groupkeeper.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
)

Partition = tuple[str, int]
"""(topic, partition)."""
_Assignment = Mapping[str, Sequence[int]]
"""Partitions by topic."""
GROUP_TOPIC: Final = "__consumer_offsets"
DEAD, EMPTY, STABLE = "Dead", "Empty", "Stable"
GROUPS_PER_ANSWER: Final = 100
"""Maximum groups per DescribeGroups or OffsetFetch, whose responses hold all members or offsets."""
REASON_LENGTH: Final = 255
"""Maximum length of a reason in characters: Kafka's `JoinGroupRequest.maybeTruncateReason`."""


@dataclass(slots=True, frozen=True)
class DescribedMember:
    """A member of a group. `assignment` is None if it cannot be decoded.

    Only groups of the new protocol (KIP-848) have epochs and a target assignment (`target`).
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: _Assignment | None
    epoch: int | None = None
    target: _Assignment | None = None

    @property
    def partitions(self) -> list[Partition]:
        return [(topic, each) for topic, some in (self.assignment or {}).items() for each in some]


@dataclass(slots=True, frozen=True)
class GroupDescription:
    """A group as described by its coordinator; `state` is Dead if it does not exist."""

    group_id: str
    coordinator: int
    state: str
    protocol_type: str
    protocol: str
    members: Sequence[DescribedMember]
    epoch: int | None = None
    assignment_epoch: int | None = None


@dataclass(slots=True, frozen=True)
class Committed:
    """A committed offset; the leader epoch is -1 if unknown."""

    offset: int
    leader_epoch: int


async def list_groups(
    client: Client, states: Sequence[str] = (), types: Sequence[str] = ()
) -> list[ListedGroup]:
    """Return the groups of all nodes, sorted by id. Raises CallFailed, also if a node does not
    support the filters.

    Groups in `unserved_partitions` are missing. Nodes that are loading groups are retried, as in
    KafkaAdminClient.
    """
    request = ListGroupsRequest(states_filter=[*states], types_filter=[*types])
    answers = await client.call_each(request)
    found = {each.group_id: each for answer in answers.values() for each in answer.groups}
    return [found[name] for name in sorted(found)]


async def unserved_partitions(client: Client) -> tuple[list[int], int]:
    """Return the partitions of `__consumer_offsets` without a leader, whose groups are not listed,
    and the total number of partitions. Raises CallFailed.
    """
    wanted = [MetadataRequestTopic(name=GROUP_TOPIC)]
    answer = await client.call(MetadataRequest(topics=wanted, allow_auto_topic_creation=False))
    partitions = [each for topic in answer.topics for each in topic.partitions]
    missing = sorted(each.partition_index for each in partitions if each.leader_id < 0)
    return missing, len(partitions)


# Any: requests and rows of each caller's API.
async def _ask_about(
    client: Client,
    group_ids: Sequence[str],
    request: Callable[[list[str]], Any],
    rows: Callable[[Any], Sequence[Any]],
) -> dict[str, tuple[int, Any]]:
    """Return (coordinator, row of the response) by group, with several groups per request."""

    async def ask(node: int, ids: list[str]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for some in chunks(ids, GROUPS_PER_ANSWER):
            answer = await client.call(request(some), node=node)
            found |= {each.group_id: each for each in rows(answer)}
        return found

    return await ask_coordinators(client, group_ids, ask)


async def describe_groups(client: Client, group_ids: Sequence[str]) -> dict[str, GroupDescription]:
    """Return descriptions by id, in the given order. Raises CallFailed, also for group errors."""
    told = await _ask_about(
        client,
        group_ids,
        lambda some: DescribeGroupsRequest(groups=some),
        lambda answer: answer.groups,
    )
    found = {each: _group(*told[each]) for each in dict.fromkeys(group_ids)}
    by_node: dict[int, list[str]] = {}
    for name, group in found.items():
        if group.state == DEAD:
            by_node.setdefault(group.coordinator, []).append(name)
    for node, names in by_node.items():
        found |= await _describe_consumer_groups(client, node, names)
    return found


async def _describe_consumer_groups(
    client: Client, node: int, group_ids: Sequence[str]
) -> dict[str, GroupDescription]:
    """Return those groups that use the new protocol (KIP-848); none if the node lacks it."""
    found: dict[str, GroupDescription] = {}
    for some in chunks(group_ids, GROUPS_PER_ANSWER):
        request = ConsumerGroupDescribeRequest(group_ids=some)
        try:
            answer = await client.call(request, node=node)
        except CallFailed as failure:
            if failure.error is not ErrorCode.UNSUPPORTED_VERSION:
                raise
            return {}
        found |= {
            each.group_id: _consumer_group(node, each)
            for each in answer.groups
            if not each.error_code
        }
    return found


def _consumer_group(node: int, told: DescribedConsumerGroup) -> GroupDescription:
    members = [
        DescribedMember(
            each.member_id,
            each.instance_id,
            each.client_id,
            each.client_host,
            _topics(each.assignment),
            each.member_epoch,
            _topics(each.target_assignment),
        )
        for each in told.members
    ]
    return GroupDescription(
        told.group_id,
        node,
        told.group_state,
        CONSUMER,
        told.assignor_name,
        members,
        told.group_epoch,
        told.assignment_epoch,
    )


def _topics(told: ConsumerAssignment | None) -> _Assignment:
    topics = [] if told is None else told.topic_partitions
    return {each.topic_name: sorted(each.partitions) for each in topics}


def _group(node: int, told: DescribedGroup) -> GroupDescription:
    is_missing = told.error_code == ErrorCode.GROUP_ID_NOT_FOUND  # since version 6
    if told.error_code and not is_missing:
        detail = told.error_message or f"group '{told.group_id}'"
        raise CallFailed("DescribeGroups", node, ErrorCode(told.error_code), detail)
    is_consumers = told.protocol_type == CONSUMER
    return GroupDescription(
        told.group_id,
        node,
        DEAD if is_missing else told.group_state,
        told.protocol_type,
        told.protocol_data,
        [_member(each, is_consumers=is_consumers) for each in told.members],
    )


def _member(told: DescribedGroupMember, *, is_consumers: bool) -> DescribedMember:
    """Convert a member; an assignment that cannot be decoded becomes None."""
    assignment: dict[str, list[int]] | None = None
    if is_consumers:
        assignment = {}
        if told.member_assignment:
            try:
                topics = decode_assignment(bytes(told.member_assignment)).assigned_partitions
                assignment = {each.topic: sorted(each.partitions) for each in topics}
            except DecodeError:
                assignment = None
    return DescribedMember(
        told.member_id, told.group_instance_id, told.client_id, told.client_host, assignment
    )


async def committed_offsets(
    client: Client, group_ids: Sequence[str]
) -> dict[str, dict[Partition, Committed]]:
    """Return all committed offsets by group and partition; none for a group that does not exist.
    Raises CallFailed, also for a group's error.
    """

    async def ask(node: int, ids: list[str]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for some in chunks(ids, GROUPS_PER_ANSWER):
            groups = [OffsetFetchRequestGroup(group_id=each, topics=None) for each in some]
            try:
                answer = await client.call(OffsetFetchRequest(groups=groups), node=node)
            except CallFailed as failure:
                if failure.error is not ErrorCode.UNSUPPORTED_VERSION:
                    raise
                found |= {each: await _fetch_one(client, node, each) for each in some}
            else:
                found |= {each.group_id: each for each in answer.groups}
        return found

    told = await ask_coordinators(client, group_ids, ask)
    return {each: _offsets(each, *told[each]) for each in dict.fromkeys(group_ids)}


async def _fetch_one(client: Client, node: int, group_id: str) -> Any:
    """Fetch the offsets of one group, for Redpanda and Kafka before 3.0 (version 7)."""
    try:
        return await client.call(OffsetFetchRequest(group_id=group_id, topics=None), node=node)
    except CallFailed as failure:  # make it an error of the group's row, as in version 8
        if failure.node is None or failure.error is ErrorCode.UNSUPPORTED_VERSION:
            raise
        return OffsetFetchResponseGroup(group_id=group_id, error_code=failure.error)


def _offsets(group_id: str, node: int, told: Any) -> dict[Partition, Committed]:
    if told.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return {}
    if told.error_code:
        code = ErrorCode(told.error_code)
        raise CallFailed("OffsetFetch", node, code, f"group '{group_id}'")
    return {
        (topic.name, each.partition_index): Committed(
            each.committed_offset, each.committed_leader_epoch
        )
        for topic in told.topics
        for each in topic.partitions
        if each.committed_offset >= 0 and not each.error_code
    }


def by_topic(partitions: Iterable[Partition]) -> dict[str, list[int]]:
    """Return sorted partitions by topic, sorted by name."""
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        topics.setdefault(topic, []).append(number)
    return topics


async def delete_groups(client: Client, group_ids: Sequence[str]) -> dict[str, ErrorCode]:
    """Delete groups, and return the error code of each. Raises CallFailed."""
    told = await _ask_about(
        client,
        group_ids,
        lambda some: DeleteGroupsRequest(groups_names=some),
        lambda answer: answer.results,
    )
    return {each: ErrorCode(told[each][1].error_code) for each in dict.fromkeys(group_ids)}


async def remove_members(
    client: Client, group_id: str, members: Sequence[DescribedMember], reason: str | None
) -> list[ErrorCode]:
    """Remove members with one LeaveGroup (KIP-345); return the error code of each, in order.

    A static member that was replaced since its description is not removed: FENCED_INSTANCE_ID.
    Raises CallFailed, with UNSUPPORTED_VERSION if the coordinator does not support a list of
    members, or a reason (KIP-800).
    """
    leaving = [
        MemberIdentity(
            member_id=each.member_id,
            group_instance_id=each.instance_id,
            reason=None if reason is None else reason[:REASON_LENGTH],
        )
        for each in members
    ]
    request = LeaveGroupRequest(group_id=group_id, members=leaving)

    async def ask(node: int, _: list[str]) -> dict[str, Any]:
        return {group_id: await client.call(request, node=node)}

    _, response = (await ask_coordinators(client, [group_id], ask))[group_id]
    return [ErrorCode(each.error_code) for each in response.members]
