"""Describes the present state of a group: the members it waits for, and the next timer. Read only.

For people and pages: costs nothing unless requested, and goes through the members in slices. Times
are relative to the moment of the request, in ms; so is the state, while members and their timers
are those of their slice.
"""

from collections.abc import Generator
from typing import Any, Final

from groupkeeper.coordinator.causes import Cause, Who
from groupkeeper.coordinator.deadlines import Deadlines, Timer, TimerKind
from groupkeeper.coordinator.group import Group, GroupState
from groupkeeper.coordinator.likely import connection
from groupkeeper.coordinator.liveness import last_heard, session_timer
from groupkeeper.coordinator.member import Member

MEMBERS_IN_A_SLICE: Final = 200
"""How many members a slice describes, in about half a millisecond."""
IDS_SHOWN: Final = 200
"""How many pending ids are shown, and how many ids that the group waits for; their whole number is
beside them."""

# Any: JSON.
View = dict[str, Any]


def live_view(
    group: Group, deadlines: Deadlines, now: int, wall: int
) -> Generator[None, None, View]:
    """Return the group as a JSON object, in slices; `docs/http.md` has its fields. Members that
    join or leave between two slices may be missing.
    """
    view = _head(group, now, wall)
    rows: list[View] = []
    late: list[str] = []
    phase = _of_phase(group, deadlines)
    seats = _running([Timer(TimerKind.SEATS, group.group_id)], deadlines) if group.seats else []
    window = _running([Timer(TimerKind.WINDOW, group.group_id)], deadlines)
    due = phase + seats + window
    leader = _awaited_leader(group)
    joining = group.state is GroupState.PREPARING_REBALANCE
    for number, member in enumerate(list(group.members.values())):
        if number % MEMBERS_IN_A_SLICE == MEMBERS_IN_A_SLICE - 1:
            yield
        rows.append(_row(group, member, deadlines, now))
        due = _sooner(due + _of_member(group, member, deadlines))
        is_awaited = member.awaiting_join is None and member.member_id not in group.seats
        if is_awaited and group.state is GroupState.PREPARING_REBALANCE:
            late.append(member.member_id)
    pending = list(group.pending)
    for start in range(0, len(pending), MEMBERS_IN_A_SLICE):
        yield
        timers = [_pending(group, each) for each in pending[start : start + MEMBERS_IN_A_SLICE]]
        due = _sooner(due + _running(timers, deadlines))
    waiting = [*late, *pending] if joining else leader
    view["members"] = rows
    view["seats_end_in_ms"] = max(0, seats[0][0] - now) if seats else None
    view["pending"] = [
        {"member": each, "expires_in_ms": _left(deadlines, _pending(group, each), now)}
        for each in pending[:IDS_SHOWN]
    ]
    view["pending_count"] = len(pending)
    view["waiting_for"] = waiting[:IDS_SHOWN]
    view["waiting_for_count"] = len(waiting)
    view["phase_timer"] = _first(phase, now)
    view["next_timer"] = _first(due, now)
    return view


def longest_silence(
    group: Group, deadlines: Deadlines, now: int
) -> Generator[None, None, int | None]:
    """Return the longest time (ms) for which a static member has sent no request, in slices: the
    group waits for it until its session ends. None without static members. A member whose request
    waits is not silent.
    """
    longest = None
    for number, member_id in enumerate([*group.instances.values()]):
        if number % MEMBERS_IN_A_SLICE == MEMBERS_IN_A_SLICE - 1:
            yield
        member = group.members.get(member_id)
        if member is None:  # gone between two slices
            continue
        due = deadlines.due.get(session_timer(group, member))
        silent = 0 if member.waits else max(0, now - last_heard(member, due, now))
        longest = max(longest or 0, silent)
    return longest


def _head(group: Group, now: int, wall: int) -> View:
    return {
        "group": group.group_id,
        "state": str(group.state),
        "state_ms": _state_ms(group, wall),
        "generation": group.generation,
        "round": group.round,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol_name,
        "leader": group.leader_id,
        "rebalance": _rebalance(group, now),
    }


def _state_ms(group: Group, wall: int) -> int | None:
    """Return the time in the present state; None if the records of the group do not say."""
    since = group.state_timestamp_ms
    return None if since == -1 else max(0, wall - since)


def _row(group: Group, member: Member, deadlines: Deadlines, now: int) -> View:
    heard_ms = last_heard(member, deadlines.due.get(session_timer(group, member)), now)
    returning, seat = group.returning, group.seats.get(member.member_id)
    return _who(member.who) | {
        "session_timeout_ms": member.session_timeout_ms,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "is_new": member.is_new,
        "joined": member.awaiting_join is not None,
        "synced": member.member_id not in group.pending_sync,
        "heard": returning is None or member.member_id not in returning.unheard,
        "heard_ms_ago": max(0, now - heard_ms),
        "connection": connection(member.peer.link if member.peer else None),
        "reserved_ms": None if seat is None else max(0, now - seat.since_ms),
        "standby": member.member_id in group.standbys,
    }


def _awaited_leader(group: Group) -> list[str]:
    """Return, in the sync phase, the id of the leader that the phase waits for."""
    is_awaited = group.state is GroupState.COMPLETING_REBALANCE and group.leader_id is not None
    return [group.leader_id or ""] if is_awaited else []


def _rebalance(group: Group, now: int) -> View | None:
    """Describe the rebalance under way."""
    phase = {GroupState.PREPARING_REBALANCE: "join", GroupState.COMPLETING_REBALANCE: "sync"}.get(
        group.state
    )
    if phase is None or group.rebalance is None:
        return None
    return {
        "phase": phase,
        "since_ms": now - group.rebalance.started_ms,
        "initial_delay": group.rebalance.initial_delay,
        "cause": _cause(group.rebalance.cause),
    }


def _cause(cause: Cause) -> View:
    return {
        "code": str(cause.code),
        "who": None if cause.who is None else _who(cause.who),
        "reason": cause.reason,
        "likely": cause.likely,
        "evidence": dict(cause.evidence),
    }


def _who(who: Who) -> View:
    software = None
    if who.software_name:
        software = {"name": who.software_name, "version": who.software_version}
    return {
        "member": who.member,
        "instance": who.instance,
        "client_id": who.client_id,
        "host": who.host.removeprefix("/"),
        "software": software,
    }


# -- timers ----------------------------------------------------------------------------------------


Due = list[tuple[int, str, str | None]]
"""Due times of timers, their names, and members."""


def _first(due: Due, now: int) -> View | None:
    if not due:
        return None
    [(at, name, member_id)] = _sooner(due)
    return {"name": name, "member": member_id, "in_ms": max(0, at - now)}


def _sooner(due: Due) -> Due:
    """Return the timer that is due first, if any runs."""
    return [min(due, key=lambda each: each[0])] if due else []


def _of_phase(group: Group, deadlines: Deadlines) -> Due:
    """Return the timer that ends the phase."""
    kinds = (TimerKind.JOIN, TimerKind.INITIAL_DELAY, TimerKind.SYNC)
    return _running([Timer(kind, group.group_id) for kind in kinds], deadlines)


def _of_member(group: Group, member: Member, deadlines: Deadlines) -> Due:
    """Return the member's timers, without its session while a request waits."""
    timers = [Timer(TimerKind.NEW_MEMBER, group.group_id, member.member_id)]
    if not member.waits:
        timers.append(session_timer(group, member))
    return _running(timers, deadlines)


def _running(timers: list[Timer], deadlines: Deadlines) -> Due:
    return [
        (at, str(each.kind), each.member_id or None)
        for each in timers
        if (at := deadlines.due.get(each)) is not None
    ]


def _pending(group: Group, member_id: str) -> Timer:
    return Timer(TimerKind.PENDING_MEMBER, group.group_id, member_id)


def _left(deadlines: Deadlines, timer: Timer, now: int) -> int | None:
    at = deadlines.due.get(timer)
    return None if at is None else max(0, at - now)
