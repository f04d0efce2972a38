"""Sessions of members: the time of the last request, and the evidence when a member goes silent.

A session is a timer. Every request of a member restarts it, so the deadline also says when the last
request came, and a heartbeat writes nothing more. The coordinator itself restarts sessions, too;
then the time of the last request is kept in the member.
"""

from typing import Any

from groupkeeper.coordinator import likely
from groupkeeper.coordinator.caller import Peer
from groupkeeper.coordinator.causes import Cause
from groupkeeper.coordinator.deadlines import Timer, TimerKind
from groupkeeper.coordinator.facts import MembersNotBack
from groupkeeper.coordinator.group import Group
from groupkeeper.coordinator.member import Member
from groupkeeper.coordinator.soft_state import Late, Returning, Seat
from groupkeeper.coordinator.stalls import evidence_of
from groupkeeper.coordinator.step import Step
from groupkeeper.protocol.embedded import count_assigned
from groupkeeper.protocol.group_events import CauseCode

SILENT_CODES = (CauseCode.SESSION_EXPIRED, CauseCode.JOIN_TIMEOUT, CauseCode.SYNC_TIMEOUT)
"""Causes of removing a silent member."""


def session_timer(group: Group, member: Member) -> Timer:
    return Timer(TimerKind.SESSION, group.group_id, member.member_id)


def heard(group: Group, member: Member, peer: Peer, step: Step) -> None:
    """Note a request of the member, and restart its session."""
    timer = Timer(TimerKind.SESSION, group.group_id, member.member_id)
    member.peer, member.heard_ms = peer, step.now  # not by calls: every commit comes here
    step.deadlines.set(timer, step.now + member.session_timeout_ms)
    if group.returning is not None:
        came_back(group, member.member_id, step)


def contacted(group: Group, member: Member, peer: Peer, step: Step) -> None:
    """Note a request of the member that does not restart its session."""
    member.peer, member.heard_ms = peer, step.now
    if group.returning is not None:
        came_back(group, member.member_id, step)


def restart_session(group: Group, member: Member, step: Step, waited: bool = False) -> None:
    """Restart the session without a request. `waited`: a request of the member has waited until
    now, and counts as if it came now.
    """
    timer = Timer(TimerKind.SESSION, group.group_id, member.member_id)  # of all, after a phase
    if waited:
        answered(member, step)
    else:
        member.heard_ms = last_heard(member, step.deadlines.due.get(timer), step.now)
        if member.peer is None:  # loaded, and not heard of since
            member.beats_since_ms = member.beat_ms = step.now
    member.restarted_ms = step.now
    step.deadlines.set(timer, step.now + member.session_timeout_ms)


def postpone(member: Member, timer: Timer, ends_ms: int, step: Step) -> None:
    """Let the session, whose timer was taken from the deadlines, end later; its last request stays
    what it was.
    """
    member.heard_ms = last_heard(member, step.deadlines.popped_due, step.now)
    member.restarted_ms = ends_ms - member.session_timeout_ms
    step.deadlines.set(timer, ends_ms)


def answered(member: Member, step: Step) -> None:
    """Count the member's heartbeats anew after the answer to its JoinGroup or SyncGroup."""
    member.heard_ms = member.beat_ms = step.now
    member.beats_before += member.beats
    member.beats, member.beats_since_ms = 0, step.now


def rhythm(member: Member) -> tuple[int, int]:
    """Return the heartbeats since the member joined or was loaded, and the longest gap in ms."""
    return member.beats_before + member.beats, max(member.gap_ms, member.longest_gap_ms)


def rhythm_of_late(member: Member) -> tuple[int, int]:
    """Return the same heartbeats as `rhythm`, and the longest gap in ms since the last call."""
    gap_ms = member.gap_ms
    member.longest_gap_ms, member.gap_ms = max(gap_ms, member.longest_gap_ms), 0
    return member.beats_before + member.beats, gap_ms


def last_heard(member: Member, due: int | None, now: int) -> int:
    """Return the time of the member's last request. `due`: the deadline of its session, or None."""
    began = -1 if due is None else due - member.session_timeout_ms
    if began == member.restarted_ms or began > now:  # later than now: it has another timeout since
        return member.heard_ms
    return max(member.heard_ms, began)


def heard_at(group: Group, member: Member, step: Step) -> int:
    """Return the time of the member's last request, whose session runs or waits."""
    due = step.deadlines.due.get(session_timer(group, member))
    return last_heard(member, due, step.now)


def keep_alive(group: Group, member: Member, interval_ms: int, step: Step) -> None:
    """Restart the session as if the member had sent a heartbeat every `interval_ms` (at least 1)
    since its last request. Used after a jump of the clock, during which no request could come.
    """
    timer = session_timer(group, member)
    due = step.deadlines.due.get(timer)
    if due is None or member.waits:  # there is none, or it does not end
        return
    heard_ms = last_heard(member, due, step.now)
    beats = (step.now - heard_ms) // interval_ms
    if beats > 0:
        member.beats += beats
        member.heard_ms = heard_ms + beats * interval_ms
        member.beat_ms = max(member.beat_ms, member.heard_ms)
        step.deadlines.set(timer, max(due, member.heard_ms + member.session_timeout_ms))


def forget_a_session(group: Group, member: Member, step: Step) -> None:
    """Set the time of the member's last request to a whole session ago."""
    shift_ms = step.now - member.session_timeout_ms - heard_at(group, member, step)
    member.heard_ms = step.now - member.session_timeout_ms
    member.beats_since_ms += shift_ms
    member.beat_ms += shift_ms


# -- evidence ------------------------------------------------------------------------------------


def silence(member: Member, heard_ms: int, step: Step) -> dict[str, Any]:
    """Return the evidence about a member whose last request came at that time."""
    evidence: dict[str, Any] = {
        "silent_ms": step.now - heard_ms,
        "session_timeout_ms": member.session_timeout_ms,
        "heartbeats": member.beats,
        "connection": likely.connection(member.peer.link if member.peer else None),
    }
    interval_ms = heartbeat_interval(member, heard_ms)
    if interval_ms is not None:
        evidence["heartbeat_interval_ms"] = interval_ms
    return evidence


def heartbeat_interval(member: Member, heard_ms: int) -> int | None:
    """Return the mean interval of heartbeats in ms until `heard_ms`; None without heartbeats."""
    return (heard_ms - member.beats_since_ms) // member.beats if member.beats else None


def expired(member: Member, due: int, step: Step) -> Cause:
    """Return the cause of a removal because the session ended, at `due`."""
    heard_ms = last_heard(member, due, step.now)
    evidence = silence(member, heard_ms, step)
    # Not heard of since a load: it may have been gone before, or have given up meanwhile.
    guess = likely.CRASH_OR_NETWORK if member.peer is not None else None
    stall = step.stalls.at(step.now) if member.gave_up else step.stalls.since(heard_ms, step.now)
    if stall is not None:
        evidence |= evidence_of(stall, step.now)
        if member.gave_up or stall.duration_ms >= member.session_timeout_ms:
            guess = likely.COORDINATOR_STALLED  # its client gave up, or had to
    return Cause(CauseCode.SESSION_EXPIRED, member.who, likely=guess, evidence=evidence)


def late(group: Group, member: Member, phase: Late, step: Step) -> Cause:
    """Return the cause of a removal because a request that the group waited for did not come."""
    heard_ms = heard_at(group, member, step)
    evidence = silence(member, heard_ms, step)
    evidence["waited_ms"] = step.now - phase.began_ms
    evidence["rebalance_timeout_ms"] = phase.rebalance_timeout_ms
    beating = heard_ms > phase.began_ms and evidence["connection"] != "closed"
    beating = beating and likely.runs(step.now - heard_ms, heartbeat_interval(member, heard_ms))
    guess = likely.SLOW_MEMBER if beating else likely.CRASH_OR_NETWORK if member.peer else None
    stall = step.stalls.since(phase.began_ms, step.now)
    if stall is not None:
        evidence |= evidence_of(stall, step.now)
        guess = likely.COORDINATOR_STALLED if member.gave_up else guess
    return Cause(phase.code, member.who, likely=guess, evidence=evidence)


def seat_over(member: Member, seat: Seat, step: Step) -> Cause:
    """Return the cause of a removal because nobody took the member's seat while it was reserved."""
    evidence = {
        "silent_ms": step.now - member.heard_ms,
        "session_timeout_ms": member.session_timeout_ms,
        "reserved_ms": step.now - seat.since_ms,
        "lost_by": str(seat.code),
        "partitions": count_assigned(member.assignment),
    }
    return Cause(CauseCode.SEAT_EXPIRED, member.who, evidence=evidence)


# -- after a load --------------------------------------------------------------------------------


def await_return(group: Group) -> None:
    """After a load, begin to wait for a first request of each member."""
    if len(group.members) > len(group.seats):
        group.returning = Returning(dict.fromkeys(group.members))
        for member_id in group.seats:
            del group.returning.unheard[member_id]


def came_back(group: Group, member_id: str, step: Step) -> None:
    """Stop waiting for a first request of the member."""
    returning = group.returning
    if returning is None or member_id not in returning.unheard:
        return
    del returning.unheard[member_id]
    if not returning.unheard:
        group.returning = None
        if returning.lost:
            step.note(MembersNotBack(*group.fact_head, absent=returning.lost))


def gone(group: Group, member: Member, cause: Cause, step: Step) -> None:
    """Note the removal of a member."""
    returning = group.returning
    if returning is not None and member.member_id in returning.unheard:
        if cause.code in SILENT_CODES:
            returning.lost.append(member.who)
        came_back(group, member.member_id, step)


def await_no_sync(group: Group, member: Member, step: Step) -> None:
    """Note that a member has synced, or is lost. The last one ends the sync timer."""
    if member.member_id in group.pending_sync:
        del group.pending_sync[member.member_id]
        if not group.pending_sync:
            step.deadlines.cancel(Timer(TimerKind.SYNC, group.group_id))
