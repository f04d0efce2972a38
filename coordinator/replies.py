"""The replies that several decisions share. How each looks by version is said here once.

Fields that a version does not have are left out by the encoder; what a version *means* differently
is decided here. Not here: replies that only one decision gives.
"""

from groupkeeper.coordinator.causes import Who
from groupkeeper.coordinator.facts import MemberFenced
from groupkeeper.coordinator.group import Group, Member
from groupkeeper.coordinator.step import Step
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from groupkeeper.protocol.messages.sync_group import SyncGroupResponse


def join_refused(error: ErrorCode, version: int, member_id: str = "") -> JoinGroupResponse:
    """A JoinGroup error. The protocol name is null from v7 (KIP-559), empty before."""
    return JoinGroupResponse(
        error_code=error,
        generation_id=-1,
        protocol_name=None if version >= 7 else "",
        member_id=member_id,
    )


def join_reply(group: Group, member: Member, version: int) -> JoinGroupResponse:
    """The current generation for one member; the leader also gets everybody's metadata."""
    leads = member.member_id == group.leader_id
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type if version >= 7 else None,
        protocol_name=group.protocol_name,
        leader=group.leader_id or "",
        member_id=member.member_id,
        members=roll(group) if leads else [],
    )


def roll(group: Group) -> list[JoinGroupResponseMember]:
    """All members with their metadata for the elected protocol: what the leader plans with."""
    return [
        JoinGroupResponseMember(
            member_id=m.member_id,
            group_instance_id=m.instance_id,
            metadata=m.metadata(group.protocol_name),
        )
        for m in group.members.values()
    ]


def sync_reply(group: Group, member: Member) -> SyncGroupResponse:
    """The member's stored assignment."""
    return SyncGroupResponse(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )


def sync_refused(error: ErrorCode) -> SyncGroupResponse:
    """A SyncGroup error: no protocol, no assignment."""
    return SyncGroupResponse(error_code=error)


def answer_join(group: Group, member: Member, error: ErrorCode, step: Step, echo: str = "") -> None:
    """Refuse the member's waiting JoinGroup, if there is one; `echo` is the id it shows."""
    if member.awaiting_join is not None:
        reply_to = group.unpark_join(member)
        step.reply(reply_to, join_refused(error, member.join_version, echo))


def answer_sync(member: Member, error: ErrorCode, step: Step) -> None:
    """Refuse the member's waiting SyncGroup, if there is one."""
    if member.awaiting_sync is not None:
        step.reply(member.awaiting_sync, sync_refused(error))
        member.awaiting_sync = None


def check_member(group: Group, member_id: str, instance_id: str | None) -> ErrorCode:
    """May this sender speak for a member? Fenced only when somebody else holds its instance id."""
    if instance_id is None:
        known = member_id in group.members
        return ErrorCode.NONE if known else ErrorCode.UNKNOWN_MEMBER_ID
    holder = group.instances.get(instance_id)
    if holder is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if holder == member_id else ErrorCode.FENCED_INSTANCE_ID


def note_fenced(group: Group, error: ErrorCode, who: Who, api: str, step: Step) -> None:
    """Note who was refused because somebody else holds its instance id now."""
    if error is ErrorCode.FENCED_INSTANCE_ID:
        current = group.instances[who.instance or ""]
        step.note(MemberFenced(*group.fact_head, who=who, api=api, current_member=current))
