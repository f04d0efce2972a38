"""A static member comes back: JoinGroup without a member id, with an instance id that is known.

KIP-345 as Kafka implements it: the member keeps its place under a new id, and from that instant
the old id is fenced. In a Stable group this costs no rebalance while the elected protocol stays;
in CompletingRebalance it always does, because the leader may be planning for the old id
(KAFKA-9801). Returning with the id it holds is an ordinary rejoin and not handled here.
"""

from dataclasses import replace as copied

from protocol.records.consumer_offsets import MemberMetadata

from coordinator.causes import CauseCode
from coordinator.deadlines import Timer, TimerKind
from coordinator.facts import MemberReplaced
from coordinator.group import Group, GroupState, Member
from coordinator.joining import Joining, park
from coordinator.rebalance import complete_if_all_joined, prepare
from coordinator.records import group_key, group_value, member_metadata
from coordinator.replies import answer_join, answer_sync, join_refused, joined, roll
from coordinator.step import Step
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupResponse


def replace(group: Group, joining: Joining, step: Step) -> None:
    """The instance's new incarnation takes the member over."""
    instance_id = joining.request.group_instance_id or ""
    member = group.members[group.instances[instance_id]]
    old_id, new_id = member.member_id, step.new_member_id(instance_id)
    stable = group.state is GroupState.STABLE
    value = _record_of_replacement(group, member, new_id, joining) if stable else b""
    if len(value) > step.config.message_max_bytes:
        step.reply(joining.reply_to, _too_large(group, joining))
        return
    led = group.leader_id == old_id
    _take_over(group, member, new_id, step)
    if stable and _elects_the_same(group, member, joining):
        group.update(member, joining.protocols, joining.timeouts)
        step.append(group_key(group.group_id), value)
        version = joining.caller.api_version
        step.reply(joining.reply_to, _quick_answer(group, member, old_id if led else None, version))
        _note(group, member, old_id, True, step)
        return
    _note(group, member, old_id, False, step)
    preparing = group.state is GroupState.PREPARING_REBALANCE
    park(group, member, joining, step)
    if preparing:
        complete_if_all_joined(group, step)
        return
    code = CauseCode.STATIC_MEMBER_RETURNED_UNREADY
    if stable:
        code = CauseCode.STATIC_MEMBER_RETURNED_CHANGED
    prepare(group, joining.cause(code, new_id), step)


def _take_over(group: Group, member: Member, new_id: str, step: Step) -> None:
    """Fence the old incarnation, at once also in what it has waiting."""
    old_id = member.member_id
    answer_join(group, member, ErrorCode.FENCED_INSTANCE_ID, step, old_id)
    answer_sync(member, ErrorCode.FENCED_INSTANCE_ID, step)
    for kind in (TimerKind.SESSION, TimerKind.NEW_MEMBER):
        step.deadlines.cancel(Timer(kind, group.group_id, old_id))
    member.is_new = False
    group.rename(member, new_id)
    # The first session still has the old length; the request's holds from the next re-arming.
    timer = Timer(TimerKind.SESSION, group.group_id, new_id)
    step.deadlines.set(timer, step.now + member.session_timeout_ms)


def _elects_the_same(group: Group, member: Member, joining: Joining) -> bool:
    """Would the group elect today's protocol if the member's list were the request's?"""
    before, timeouts = member.protocols, (member.session_timeout_ms, member.rebalance_timeout_ms)
    group.update(member, joining.protocols, timeouts)
    elected = group.elect()
    group.update(member, before, timeouts)
    return elected == group.protocol_name


def _record_of_replacement(group: Group, member: Member, new_id: str, joining: Joining) -> bytes:
    """The group record as it will be. Made first: one that is too large must change nothing."""
    session_ms, rebalance_ms = joining.timeouts
    new = copied(
        member,
        member_id=new_id,
        protocols=joining.protocols,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=rebalance_ms,
    )
    members: list[MemberMetadata] = [
        member_metadata(new if each is member else each, group.protocol_name)
        for each in group.members.values()
    ]
    leader = new_id if group.leader_id == member.member_id else group.leader_id
    return group_value(copied(group, leader_id=leader), members)


def _quick_answer(
    group: Group, member: Member, led_as: str | None, version: int
) -> JoinGroupResponse:
    """The current generation, at once.

    A leader that came back is told so from v9 (KIP-814: watch topics, do not assign). Older
    clients are shown their *old* id as leader, so that they do not send a plan nobody wants.
    """
    response = joined(group, member)
    if led_as is None:
        return response
    if version >= 9:
        response.skip_assignment = True
        response.members = roll(group)
    else:
        response.leader = led_as
        response.members = []
    return response


def _too_large(group: Group, joining: Joining) -> JoinGroupResponse:
    """Kafka's answer when the group record exceeds the largest message (KAFKA-10284)."""
    error, version = ErrorCode.UNKNOWN_SERVER_ERROR, joining.caller.api_version
    response = join_refused(error, version)
    response.generation_id = group.generation
    response.protocol_type = group.protocol_type
    response.protocol_name = group.protocol_name
    response.leader = group.leader_id or ""
    return response


def _note(group: Group, member: Member, old_id: str, quick: bool, step: Step) -> None:
    step.note(
        MemberReplaced(group.group_id, group.generation, group.state, member.who, old_id, quick)
    )
