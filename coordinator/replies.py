"""The replies and checks that several handlers share.

The encoder leaves out fields that a version does not have; where versions differ in meaning, the
reply is made here.
"""

from collections.abc import Collection
from functools import partial
from operator import attrgetter
from typing import Protocol

from groupkeeper.coordinator.caller import Caller
from groupkeeper.coordinator.causes import Who
from groupkeeper.coordinator.facts import LimitName, LimitReached, MemberFenced, RequestRefused
from groupkeeper.coordinator.group import Group, GroupState
from groupkeeper.coordinator.member import Member, Protocols, metadata_for
from groupkeeper.coordinator.policy import FIRST
from groupkeeper.coordinator.step import Step
from groupkeeper.protocol.embedded import CONSUMER, with_owned
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.mapped import mapped
from groupkeeper.protocol.messages.join_group import (
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from groupkeeper.protocol.messages.sync_group import SyncGroupResponse


def join_refused(error: ErrorCode, version: int, member_id: str = "") -> JoinGroupResponse:
    """Make a JoinGroup error. The protocol name is null from v7 (KIP-559), empty before."""
    return JoinGroupResponse(
        error_code=error,
        generation_id=-1,
        protocol_name=None if version >= 7 else "",
        member_id=member_id,
    )


def joined_protocol(group: Group, version: int) -> str | None:
    """Return the elected protocol for a JoinGroup response: an empty name is null from v7 on.

    Source: Kafka's `JoinGroupResponse`.
    """
    return (group.protocol_name or None) if version >= 7 else group.protocol_name


def join_reply(group: Group, member: Member, version: int) -> JoinGroupResponse:
    """Make the reply with the current generation; the leader's has all members' metadata."""
    leader = group.leader_id
    members = _offered(group, ()) if member.member_id == leader else []
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type if version >= 7 else None,
        protocol_name=joined_protocol(group, version),
        leader=leader or "",
        member_id=member.member_id,
        members=members,
    )


def offered_as_held(group: Group) -> list[JoinGroupResponseMember]:
    """Return all members with metadata that says what each holds now, for a leader that compares
    the plan it would make with the one that stands.
    """
    return _offered(group, group.members)


def _offered(group: Group, as_held: Collection[str]) -> list[JoinGroupResponseMember]:
    """Return the members that get partitions, as they are now; they become rows while the answer is
    encoded. `as_held`: ids of those whose metadata has to say what they hold now.
    """
    members = list(group.members.values())
    if group.standbys:
        members = [each for each in members if each.member_id not in group.standbys]
    if group.policy is not None and group.policy.leader != FIRST:
        members.sort(key=lambda each: (each.instance_id or "", each.client_id))
    columns = [list(map(each, members)) for each in _FIELDS]
    if as_held and group.protocol_type == CONSUMER:
        columns[-1] = [
            _as_held(group, each) if each.member_id in as_held else each.protocols
            for each in members
        ]
    return mapped(partial(_row, group.protocol_name), *columns)


def _as_held(group: Group, member: Member) -> Protocols:
    name = group.protocol_name
    if name is None:
        return member.protocols
    held = (group.old_plan or {}).get(member.member_id, member.assignment)
    metadata = with_owned(member.metadata(name), held, group.planned_generation)
    return [JoinGroupRequestProtocol(name=name, metadata=metadata)]


_FIELDS = attrgetter("member_id"), attrgetter("instance_id"), attrgetter("protocols")


def _row(
    protocol: str | None, member_id: str, instance_id: str | None, protocols: Protocols
) -> JoinGroupResponseMember:
    metadata = metadata_for(protocol, protocols)
    return JoinGroupResponseMember(
        member_id=member_id, group_instance_id=instance_id, metadata=metadata
    )


def sync_reply(group: Group, member: Member) -> SyncGroupResponse:
    """Make the reply with the member's stored assignment."""
    return SyncGroupResponse(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )


def answer_join(group: Group, member: Member, error: ErrorCode, step: Step, echo: str = "") -> None:
    """Refuse the member's waiting JoinGroup, if any; `echo` is the member id in the reply."""
    if member.awaiting_join is not None:
        reply_to = group.unpark_join(member)
        step.reply(reply_to, join_refused(error, member.join_version, echo))


def answer_sync(member: Member, error: ErrorCode, step: Step) -> None:
    """Refuse the member's waiting SyncGroup, if any."""
    if member.awaiting_sync is not None:
        step.reply(member.awaiting_sync, SyncGroupResponse(error_code=error))
        member.awaiting_sync = None


class NamesMember(Protocol):
    """A request, or a part of one, that is sent in the name of a member."""

    member_id: str
    group_instance_id: str | None


class NamesMemberOfGroup(NamesMember, Protocol):
    """A request that is sent in the name of a member, with the group."""

    group_id: str


def check_member(
    group: Group, request: NamesMember, api: str, caller: Caller, step: Step
) -> ErrorCode:
    """Return the error of a sender that may not act for a member: UNKNOWN_MEMBER_ID, or
    FENCED_INSTANCE_ID when another member holds its instance id. A lost member, whose seat is
    reserved, is unknown. The error is noted as a fact.

    Source: `ClassicGroup.validateMember`.
    """
    member_id, instance_id = request.member_id, request.group_instance_id
    holder = member_id if instance_id is None else group.instances.get(instance_id)
    if holder not in group.members or holder in group.seats:
        who = Who.calling(caller, member_id, instance_id)
        error = ErrorCode.UNKNOWN_MEMBER_ID
        step.note(RequestRefused(*group.fact_head, who=who, api=api, error=error.name))
        return error
    if holder == member_id:
        return ErrorCode.NONE
    _note_fenced(group, Who.calling(caller, member_id, instance_id), api, caller, step)
    return ErrorCode.FENCED_INSTANCE_ID


def _note_fenced(group: Group, who: Who, api: str, caller: Caller, step: Step) -> None:
    instance = who.instance or ""
    holder = group.members[group.instances[instance]]
    likely, evidence = group.history().fence(step.now, instance, who.member, caller.peer)
    fact = MemberFenced(
        *group.fact_head,
        who=who,
        api=api,
        current_member=holder.member_id,
        current_host=holder.who.host,
        likely=likely,
        evidence=evidence,
    )
    step.note(fact)


def refused(
    group: Group | None,
    request: NamesMemberOfGroup,
    api: str,
    error: ErrorCode,
    caller: Caller,
    step: Step,
) -> ErrorCode:
    """Note that a stale request is refused with this error, which is returned."""
    who = Who.calling(caller, request.member_id, request.group_instance_id)
    head = (request.group_id, 0, GroupState.DEAD, 0) if group is None else group.fact_head
    step.note(RequestRefused(*head, who=who, api=api, error=error.name))
    return error


def note_limit(group: Group, limit: LimitName, most: int, who: Who, step: Step) -> None:
    """Note that a request of `who` was refused because of a limit."""
    step.note(LimitReached(*group.fact_head, limit=limit, most=most, who=who))
