"""Makes up to clients for the times in which the coordinator could not answer: prolongs timers, and
finds the memberships that clients gave up.

A session, or the time for a member id that was handed out (KIP-394), begins anew at the end of a
stall, as after a load: the client may have waited for an answer since just after its begin. Time
for joining and for assignments goes on with what was left of it. Apache Kafka does neither.
"""

from typing import Any

from groupkeeper.coordinator.caller import Peer
from groupkeeper.coordinator.clients import MembersByClient
from groupkeeper.coordinator.deadlines import Timer, TimerKind
from groupkeeper.coordinator.facts import CoordinatorStalled
from groupkeeper.coordinator.group import Group
from groupkeeper.coordinator.groups import Groups
from groupkeeper.coordinator.liveness import heard_at, postpone, session_timer
from groupkeeper.coordinator.member import Member
from groupkeeper.coordinator.seats import AFTER_LOAD_MS
from groupkeeper.coordinator.stalls import RECONNECT_MS, Stall, evidence_of
from groupkeeper.coordinator.step import Step


def prolong(groups: Groups, timer: Timer, step: Step) -> bool:
    """Set a timer of `WAITS_FOR_CLIENTS`, just taken from the deadlines, to a later time if the
    coordinator stalled while it ran. Returns False if it is over.
    """
    stall, due = step.stalls.at(step.now), step.deadlines.popped_due
    if stall is None or due <= stall.began:
        return False
    group = groups[timer.group_id]
    match timer.kind:
        case TimerKind.SESSION:
            return _session(group.members[timer.member_id], timer, stall, step)
        case TimerKind.PENDING_MEMBER:
            timeout_ms = group.pending[timer.member_id].session_timeout_ms
            ends_ms = _end(stall, due - timeout_ms, timeout_ms, step)
            if ends_ms is not None:
                step.deadlines.set(timer, ends_ms)
            return ends_ms is not None
        case TimerKind.SEATS | TimerKind.ASKED:
            ends_ms = stall.look_at if stall.lasts else stall.ended + AFTER_LOAD_MS
            if ends_ms > step.now:
                step.deadlines.set(timer, ends_ms)
            return ends_ms > step.now
        case _:
            return _phase(group, timer, stall, step)


def note_stall(stall: Stall, step: Step, jump_ms: int | None = None) -> None:
    """Note a time in which the coordinator did not answer, which has just ended. `jump_ms`: how far
    the wall clock was moved, which prolongs nothing.
    """
    if jump_ms is None:
        step.stalls.end(stall)
    if len(step.deadlines.due) > 1:  # the check for old offsets, and timers of members
        head = "", 0, "", 0
        step.note(CoordinatorStalled(*head, stall.what, stall.duration_ms, jump_ms))


def _end(stall: Stall, began_ms: int, timeout_ms: int, step: Step) -> int | None:
    """Return when a time that began then ends; None if it is over."""
    if stall.lasts:
        return stall.look_at
    ends_ms = stall.ended + timeout_ms
    return ends_ms if began_ms < stall.ended and ends_ms > step.now else None


def _session(member: Member, timer: Timer, stall: Stall, step: Step) -> bool:
    if member.waits or member.gave_up:
        return False
    session_ms, peer = member.session_timeout_ms, member.peer
    is_closed = peer is not None and peer.link.closed
    allowed_ms = min(session_ms, RECONNECT_MS) if is_closed else session_ms
    ends_ms = _end(stall, step.deadlines.popped_due - session_ms, allowed_ms, step)
    if ends_ms is not None:
        postpone(member, timer, ends_ms, step)
    return ends_ms is not None


def _phase(group: Group, timer: Timer, stall: Stall, step: Step) -> bool:
    rebalance = group.rebalance
    if rebalance is None or rebalance.late is not None:
        return False
    began_ms = rebalance.started_ms if timer.kind is TimerKind.JOIN else rebalance.joined_ms
    if began_ms >= stall.ended:
        return False
    if rebalance.held is None or rebalance.held[0] != stall.began:
        left_ms = step.deadlines.popped_due - max(began_ms, stall.began)
        rebalance.held = stall.began, left_ms
    ends_ms = stall.look_at if stall.lasts else stall.ended + rebalance.held[1]
    if ends_ms <= step.now:
        return False
    step.deadlines.set(timer, ends_ms)
    return True


# -- memberships that were given up ----------------------------------------------------------------


def _is_of(member: Member, peer: Peer) -> bool:
    """Whether a membership is of the client that joins anew: over the same connection, or under the
    same name from the same host, where its connection is closed, or unknown since a load.
    """
    known = member.peer
    if known is None:
        return (member.client_id, member.client_host) == (peer.client_id, peer.host)
    is_alike = (known.client_id, known.host) == (peer.client_id, peer.host)
    return known.link is peer.link or (known.link.closed and is_alike)


def _find(group: Group, peer: Peer, session_ms: int, step: Step) -> tuple[Member, Stall] | None:
    """Return the membership that the client gave up, and the stall behind that."""

    def behind(member: Member) -> Stall | None:
        return step.stalls.behind(heard_at(group, member, step), session_ms, step.now)

    def is_past(member: Member) -> bool:
        is_gone = member.gave_up or group.members.get(member.member_id) is not member
        is_gone = is_gone or member.member_id in group.seats  # without a session that could end
        return is_gone or behind(member) is None  # it was heard of since

    clients = step.stalls.clients
    if group.group_id not in clients:
        clients[group.group_id] = MembersByClient(group.members.values())
    for member in clients[group.group_id].of(peer, is_past):
        stall = behind(member)
        if stall is not None and not member.waits and _is_of(member, peer):
            return member, stall
    return None


def give_up(group: Group, peer: Peer, session_ms: int, step: Step) -> dict[str, Any] | None:
    """If a client that joins anew has just given up its membership, as the coordinator did not
    answer, return the evidence, and let that membership end when it would have ended without the
    stall. None: it has not. `session_ms`: the client's session timeout.
    """
    if step.stalls.behind(0, session_ms, step.now) is None:  # nearly always
        return None
    found = _find(group, peer, session_ms, step)
    if found is None:
        return None
    member, stall = found
    member.gave_up = True
    timer, heard_ms = session_timer(group, member), heard_at(group, member, step)
    step.deadlines.set(timer, max(heard_ms + member.session_timeout_ms, step.now))
    return evidence_of(stall, step.now)
