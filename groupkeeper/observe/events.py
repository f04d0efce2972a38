"""Converts facts of the core to the events that are stored in `__group_events`.

Pure, for any thread: takes a fact, and returns an event without the parts added by the log (seq,
epoch and node). Parsing of client bytes (assignments, offsets) happens here and not in the step
that noted the fact. Limits, personal data, and summing up frequent facts are handled elsewhere.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from groupkeeper.coordinator.causes import Cause, Who
from groupkeeper.coordinator.facts import (
    AssignmentChanged,
    ConfigsChanged,
    CoordinatorStalled,
    Fact,
    GroupCreated,
    GroupDeleted,
    GroupEmptied,
    MemberFenced,
    MemberJoined,
    MemberRejoined,
    MemberRemoved,
    MemberReplaced,
    MembersNotBack,
    NotedFact,
    OffsetsCommitted,
    OffsetsRemoved,
    OffsetsReset,
    PendingMemberDropped,
    PolicyRefused,
    RebalanceAbandoned,
    RebalanceCauseAdded,
    RebalanceCompleted,
    RebalanceDeferred,
    RebalanceJoined,
    RebalanceStarted,
    RequestRefused,
    SeatReserved,
    StandbyActivated,
)
from groupkeeper.coordinator.records import offset_in
from groupkeeper.observe.assigned import assigned_of, kept, moves
from groupkeeper.protocol.embedded import read_assigned
from groupkeeper.protocol.group_events import SHORTENED, Event

REASON_BYTES: Final = 1024
"""Maximum bytes of a client's reason in an event."""
TEXT_BYTES: Final = 512
"""Maximum bytes of a name chosen by a client: ids and software."""
SHORT: Final = TEXT_BYTES // 4
"""Number of characters that fit into `TEXT_BYTES` whatever they are."""

_Fields = dict[str, Any]


def event_of(noted: NotedFact) -> Event | None:
    """Return the event of a fact, with seq, epoch and node -1; None if its kind has none.

    A commit and a stale request become an event each, which the writer adds up.
    """
    fact = noted.fact
    row = _ROWS.get(type(fact))
    if row is None:
        return None
    kind, make = row
    fields = make(fact)
    if type(fact) is OffsetsRemoved and fact.why == "expired":
        kind = EXPIRED
    elif type(fact) is RequestRefused:
        fields["first_ms"] = fields["last_ms"] = noted.wall
    elif type(fact) is CoordinatorStalled:
        fields["from_ms"] = noted.wall - fact.duration_ms
    # By position, which takes half the time.
    state = fact.generation, fact.state, fact.round
    return Event(-1, -1, -1, noted.wall, noted.now, fact.group or None, kind, *state, fields)


def is_told(fact: Fact) -> bool:
    """Return whether a fact may be stored. Not for groups that never had a member or a record: any
    client could create them endlessly.
    """
    return fact.is_event and not (isinstance(fact, PendingMemberDropped) and not fact.of_used)


def type_of(fact: str) -> str:
    """Return the event type for a class of facts, given by name; or that name, if it has none."""
    return _TYPES.get(fact, fact)


# -- parts ---------------------------------------------------------------------------------------


def who_of(who: Who | None) -> _Fields | None:
    """Return the fields of a member or client, see `WHO` in `protocol.group_events`."""
    if who is None:
        return None
    software, member, client_id = None, who.member, who.client_id
    if who.software_name:
        software = {"name": _cut(who.software_name), "version": _cut(who.software_version)}
    return {
        # Skips the call of `_cut` for short names: this runs for nearly every event.
        "member": member if len(member) <= SHORT else _cut(member),
        "instance": None if who.instance is None else _cut(who.instance),
        "client_id": client_id if len(client_id) <= SHORT else _cut(client_id),
        "host": who.host.removeprefix("/") or None,
        "software": software,
        "api_version": who.api_version,
        "principal": _cut(who.principal) if who.principal else None,
    }


def cause_of(cause: Cause) -> _Fields:
    """Return the fields of a cause, see `CAUSE` in `protocol.group_events`."""
    reason = cause.reason or ""
    short = _cut(reason, REASON_BYTES)
    return {
        "code": str(cause.code),
        "who": who_of(cause.who),
        "reason": short or None,
        "reason_cut": short != reason,
        "likely": cause.likely,
        "evidence": dict(cause.evidence),
    }


def _cut(text: str, most: int = TEXT_BYTES) -> str:
    """Shorten a text to at most `most` bytes in UTF-8."""
    if len(text) * 4 <= most:
        return text
    data = text.encode("utf-8", "backslashreplace")
    return text if len(data) <= most else data[:most].decode("utf-8", "ignore")


# -- one function for each kind of fact ------------------------------------------------------------


def _started(fact: RebalanceStarted) -> _Fields:
    return {
        "cause": cause_of(fact.cause),
        "from_state": str(fact.from_state),
        "members": fact.members,
        "expected": list(fact.expected),
        "deadline_ms": fact.deadline_ms,
    }


def _joined(fact: RebalanceJoined) -> _Fields:
    return {
        "leader": fact.leader,
        "protocol_type": fact.protocol_type,
        "protocol": fact.protocol,
        "duration_ms": fact.duration_ms,
        "joined": [
            {"member": member, "instance": instance, "after_ms": after_ms}
            for member, instance, after_ms in fact.joined
        ],
        "missing": [
            {"member": member, "instance": instance, "removed": removed}
            for member, instance, removed in fact.missing
        ],
        "ended_by": fact.ended_by,
        "last": fact.joined[-1][0] if fact.joined else None,
    }


def _completed(fact: RebalanceCompleted) -> _Fields:
    assigned = assigned_of(fact)
    moved, unassigned_ms = moves(fact, assigned)
    assignment = None
    if assigned is not None:
        assignment = [
            {"member": member, "instance": instance, "partitions": assigned[member]}
            for member, instance, _ in fact.assignments
        ]
    return {
        "leader_ms": fact.leader_ms,
        "duration_ms": fact.duration_ms,
        "assignment": assignment,
        "moved": moved,
        "unassigned_ms": unassigned_ms,
        "kept": kept(fact),
    }


def _replaced(fact: MemberReplaced) -> _Fields:
    return {
        "who": who_of(fact.who),
        "old_member": fact.old_member,
        "quick": fact.quick,
        "away_ms": fact.away_ms,
        "likely": fact.likely,
        "evidence": dict(fact.evidence),
        **_timeouts(fact.timeouts),
        **_rhythm(fact.rhythm),
    }


def _fenced(fact: MemberFenced) -> _Fields:
    return {
        "who": who_of(fact.who),
        "api": fact.api,
        "current_member": fact.current_member,
        "current_host": fact.current_host.removeprefix("/") or None,
        "likely": fact.likely,
        "evidence": dict(fact.evidence),
    }


def _removed(fact: MemberRemoved | PendingMemberDropped) -> _Fields:
    rhythm = fact.rhythm if isinstance(fact, MemberRemoved) else None
    return {"who": who_of(fact.who), "cause": cause_of(fact.cause), **_rhythm(rhythm)}


def _reserved(fact: SeatReserved) -> _Fields:
    return {
        "who": who_of(fact.who),
        "cause": cause_of(fact.cause),
        "partitions": read_assigned(fact.assignment),
        "reserved_ms": fact.until_ms,
        **_rhythm(fact.rhythm),
    }


def _deferred(fact: RebalanceDeferred) -> _Fields:
    return {
        "who": who_of(fact.who),
        "cause": cause_of(fact.cause),
        "policy": fact.policy,
        "for_ms": fact.for_ms,
    }


def _activated(fact: StandbyActivated) -> _Fields:
    return {
        "who": who_of(fact.who),
        "old_member": fact.old_member,
        "silent_ms": fact.silent_ms,
        "partitions": read_assigned(fact.assignment),
        "cause": cause_of(fact.cause),
    }


def _assignment_changed(fact: AssignmentChanged) -> _Fields:
    return {
        "assignment": [
            {"member": member, "instance": instance, "partitions": read_assigned(share) or {}}
            for member, instance, share in fact.assignments
        ]
    }


def _policy_refused(fact: PolicyRefused) -> _Fields:
    return {"policies": list(fact.policies), "protocol": fact.protocol}


def _configs_changed(fact: ConfigsChanged) -> _Fields:
    return {"who": who_of(fact.who), "before": dict(fact.before), "after": dict(fact.after)}


def _timeouts(timeouts: tuple[int, int] | None) -> _Fields:
    session_ms, rebalance_ms = timeouts or (None, None)
    return {"session_timeout_ms": session_ms, "rebalance_timeout_ms": rebalance_ms}


def _rhythm(rhythm: tuple[int, int] | None) -> _Fields:
    heartbeats, longest_gap_ms = rhythm or (None, None)
    return {"heartbeats": heartbeats, "longest_gap_ms": longest_gap_ms}


def _offsets_removed(fact: OffsetsRemoved) -> _Fields:
    partitions = {topic: list(each) for topic, each in fact.partitions.items()}
    fields: _Fields = {"count": fact.offsets, "partitions": partitions}
    return fields if fact.why == "expired" else fields | {"why": fact.why, "who": who_of(fact.who)}


def _offsets_reset(fact: OffsetsReset) -> _Fields:
    fields: _Fields = {
        "who": who_of(fact.who),
        "topic": fact.topic,
        "partitions": [partition for partition, _, _ in fact.offsets],
        "from": [None if before is None else offset_in(before) for _, before, _ in fact.offsets],
        "to": [offset_in(now) for _, _, now in fact.offsets],
    }
    if fact.count > len(fact.offsets):
        fields[SHORTENED] = dict.fromkeys(("partitions", "from", "to"), fact.count)
    return fields


def _deleted(fact: GroupDeleted) -> _Fields:
    return {"why": fact.why, "who": who_of(fact.who)}


def _commits(fact: OffsetsCommitted) -> _Fields:
    partitions = dict[str, list[int]]()
    for topic, accepted in fact.partitions:
        partitions.setdefault(topic, []).extend(accepted)
    who = Who.calling(fact.caller, fact.member, fact.instance)
    counted = _rhythm(fact.rhythm)
    return {"who": who_of(who), "requests": 1, "partitions": partitions, **counted}


def _refused(fact: RequestRefused) -> _Fields:
    """Return the fields without the times, which `event_of` adds."""
    return {"who": who_of(fact.who), "api": fact.api, "error": fact.error, "count": 1}


def _stalled(fact: CoordinatorStalled) -> _Fields:
    """Return the fields without `from_ms`, which `event_of` adds."""
    return {"what": fact.what, "duration_ms": fact.duration_ms, "jump_ms": fact.jump_ms}


def _member_joined(fact: MemberJoined) -> _Fields:
    kind = "dynamic" if fact.who.instance is None else "static"
    return {"who": who_of(fact.who), "kind": kind, **_timeouts(fact.timeouts)}


def _rejoined(fact: MemberRejoined) -> _Fields:
    changed = list(fact.changed)
    return {"who": who_of(fact.who), "changed": changed, **_timeouts(fact.timeouts)}


EXPIRED: Final = "offsets_expired"

_ROWS: Final[Mapping[type[Fact], tuple[str, Callable[[Any], _Fields]]]] = {
    RebalanceStarted: ("rebalance_started", _started),
    RebalanceCauseAdded: ("rebalance_cause_added", lambda fact: {"cause": cause_of(fact.cause)}),
    RebalanceJoined: ("rebalance_joined", _joined),
    RebalanceCompleted: ("rebalance_completed", _completed),
    RebalanceAbandoned: ("rebalance_abandoned", lambda fact: {"why": fact.why}),
    MemberJoined: ("member_joined", _member_joined),
    MemberRejoined: ("member_rejoined", _rejoined),
    MemberReplaced: ("member_replaced", _replaced),
    MemberFenced: ("member_fenced", _fenced),
    MemberRemoved: ("member_removed", _removed),
    PendingMemberDropped: ("member_removed", _removed),
    SeatReserved: ("seat_reserved", _reserved),
    ConfigsChanged: ("configs_changed", _configs_changed),
    RebalanceDeferred: ("rebalance_deferred", _deferred),
    StandbyActivated: ("standby_activated", _activated),
    PolicyRefused: ("policy_refused", _policy_refused),
    AssignmentChanged: ("assignment_changed", _assignment_changed),
    MembersNotBack: ("not_back", lambda fact: {"absent": [who_of(each) for each in fact.absent]}),
    RequestRefused: ("requests_refused", _refused),
    OffsetsCommitted: ("commits", _commits),
    GroupCreated: ("group_created", lambda fact: {"who": who_of(fact.who)}),
    GroupEmptied: ("group_emptied", lambda fact: {"cause": cause_of(fact.cause)}),
    GroupDeleted: ("group_deleted", _deleted),
    OffsetsRemoved: ("offsets_deleted", _offsets_removed),
    OffsetsReset: ("offsets_reset", _offsets_reset),
    CoordinatorStalled: ("coordinator_stalled", _stalled),
}
"""Kind of fact -> type of its event, and the function that makes the fields from such a fact."""

_TYPES: Final = {kind.__name__: name for kind, (name, _) in _ROWS.items()}
