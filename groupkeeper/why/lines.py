"""Describes each event outside rounds in one line."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from groupkeeper.history.fields import Part
from groupkeeper.history.rounds import Outage, Round
from groupkeeper.protocol.group_events import Event
from groupkeeper.why.inferred import sure_text
from groupkeeper.why.outcomes import outage_text
from groupkeeper.why.texts import (
    count,
    hosts_text,
    name_of,
    partitions_text,
    person,
    short_id,
    some_of,
    span,
    time_text,
)
from groupkeeper.why.words import STALLS, cause_text

GRACE_SETTING: Final = "classic.scheduled.rebalance.max.delay.ms"

OFFSETS_SHOWN: Final = 4
"""Maximum number of offsets shown for a reset."""


def line(event: Event) -> str:
    """Return the event's time and sentence, and how sure it is if it is inferred."""
    tell = _LINES.get(event.type)
    text = event.type if tell is None else tell(event.fields)
    if event.fields.get("source"):
        text += f" ({sure_text(event.fields)})"
    return f"{time_text(event.at_ms)}  {text}"


def _fenced(fields: Part) -> str:
    holder = short_id(fields.get("current_member") or "")
    host = (fields.get("current_host") or "").lstrip("/")
    text = (
        f"{person(fields.get('who'))} was fenced: its {fields.get('api', 'request')} was refused, "
        f"as {holder or 'another member'}{' on ' + host if host else ''} has its group.instance.id"
    )
    return text + guess_text(fields)


def _replaced(fields: Part) -> str:
    how = "without a rebalance" if fields.get("quick") else "with a rebalance"
    away = fields.get("away_ms")
    after = f" after {span(away)}" if away is not None else ""
    old = short_id(fields.get("old_member") or "")
    who, evidence = person(fields.get("who")), fields.get("evidence") or {}
    if evidence.get("reserved_ms") is not None:
        return _seat_taken(fields, who, old, evidence)
    if fields.get("source"):  # records do not show whether the old client ended
        seen = f", {span(away)} after its last commit" if away is not None else ""
        return (
            f"{who} took the place of {old}{seen}, {how}: a restart, or a second client with its "
            "instance id"
        )
    if evidence.get("old_connection") == "open" or fields.get("likely") == "taken_over":
        where = f" on {str(evidence['old_host']).lstrip('/')}" if evidence.get("old_host") else ""
        heard = f" and which had been heard from {span(away)} before" if away is not None else ""
        return (
            f"{who} took the place of {old}{where}, whose connection was still open{heard}, {how}: "
            f"probably another client, not a restart{guess_text(fields)}"
        )
    return f"{who} restarted{after} and took the place of {old}, {how}{guess_text(fields)}"


def _seat_taken(fields: Part, who: str, old: str, evidence: Part) -> str:
    away = fields.get("away_ms")
    after = f" {span(away)} after its last request" if away is not None else ""
    held = count(evidence.get("partitions") or 0, "partition")
    if not fields.get("quick"):
        return f"{who} took the place of {old}{after}, with a rebalance"
    early = "" if evidence["reserved_ms"] else ", whose connection was closed,"
    still = f" and got its {held}, which had stood still for {span(away)}" if away else ""
    return f"{who} took the place of {old}{early}{after}{still}: no rebalance, nobody else stopped"


def _seat_reserved(fields: Part) -> str:
    cause = fields.get("cause") or {}
    evidence = cause.get("evidence") or {}
    silent, places = evidence.get("silent_ms"), fields.get("partitions")
    held = "partitions"
    if places is not None:
        held = count(sum(map(len, places.values())), "partition")
    how = "left" if cause.get("code") == "member_left" else "was lost"
    since = f": its last heartbeat came {span(silent)} before" if silent else ""
    kept = f" for {span(fields['reserved_ms'])}" if fields.get("reserved_ms") is not None else ""
    return (
        f"{person(fields.get('who'))} {how}{since}. Its {held} are reserved{kept}, and nobody else "
        f"stops ({GRACE_SETTING} of the group)"
    )


def _deferred(fields: Part) -> str:
    who, policy = person(fields.get("who")), fields.get("policy") or "a policy"
    for_ms = fields.get("for_ms")
    if policy == "classic.remote.assignor":
        return f"{who} joined, and the server gives it partitions: no rebalance ({policy})"
    if for_ms is None:
        return f"{who} joined and stands by: no rebalance ({policy} of the group)"
    return (
        f"{who} joined and gets no partitions for {span(for_ms)}, or until more newcomers came: no "
        f"rebalance so far ({policy} of the group)"
    )


def _activated(fields: Part) -> str:
    places, silent = fields.get("partitions"), fields.get("silent_ms")
    held = "partitions"
    if places is not None:
        held = count(sum(map(len, places.values())), "partition")
    still = f", which had stood still for {span(silent)}" if silent else ""
    old = short_id(fields.get("old_member") or "")
    return (
        f"{person(fields.get('who'))}, which stood by, got the {held} of "
        f"{old or 'another member'}{still}: no rebalance, nobody else stopped"
    )


def _assignment_changed(fields: Part) -> str:
    members = fields.get("assignment") or []
    names = some_of(
        f"{name_of(each)} now has {partitions_text(each.get('partitions') or {}) or 'none'}"
        for each in members
    )
    return f"the server moved partitions without a rebalance: {names or 'unknown'}"


def _policy_refused(fields: Part) -> str:
    names, protocol = some_of(fields.get("policies") or ["policies"]), fields.get("protocol")
    of = f" of {protocol}" if protocol else ""
    return (
        f"{names} of the group do nothing: the assignor{of} keeps data of its own in assignments, "
        "or the members are no consumers"
    )


def _configs_changed(fields: Part) -> str:
    before, after = fields.get("before") or {}, fields.get("after") or {}
    changed = [
        f"{name}: {before.get(name, 'not set')} -> {after.get(name, 'not set')}"
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    ]
    return f"{person(fields.get('who'))} changed configs of the group ({some_of(changed)})"


def guess_text(fields: Part) -> str:
    """Return what probably is behind a replacement or a fencing, after a semicolon."""
    where = hosts_text(fields.get("evidence") or {})
    if fields.get("likely") == "duel":
        return (
            f"; two running clients{' on ' + where if where else ''} have one group.instance.id: "
            "give each client its own, 2 ids for 2 clients"
        )
    if fields.get("likely") == "rolling_restart":
        return "; members are probably being restarted one after the other"
    return ""


def _refused(fields: Part) -> str:
    first, last = fields.get("first_ms"), fields.get("last_ms")
    times = fields.get("count") or 1
    within = f" within {span(last - first)}" if first and last and last > first else ""
    return (
        f"{count(times, 'request')} ({fields.get('api', 'unknown')}) of "
        f"{person(fields.get('who'))} refused with {fields.get('error', 'an error')}{within}"
    )


def _reset(fields: Part) -> str:
    partitions = fields.get("partitions") or []
    before, after = fields.get("from") or [], fields.get("to") or []
    shown = [
        f"{number}: {'none' if old is None else old} -> {new}"
        for number, old, new in zip(partitions, before, after, strict=False)
    ]
    return (
        f"{person(fields.get('who'))}, which is not a member, set offsets of "
        f"{fields.get('topic', 'a topic')} ({some_of(shown, OFFSETS_SHOWN)})"
    )


def _expired(fields: Part) -> str:
    return (
        f"{count(fields.get('count') or 0, 'offset')} expired "
        f"({partitions_text(fields.get('partitions') or {})}): offsets.retention.minutes of the "
        "coordinator has passed"
    )


def _offsets_deleted(fields: Part) -> str:
    why = {
        "request": f"by {person(fields.get('who'))}",
        "group_deleted": "with the group",
        "topic_deleted": "with their topic",
    }.get(fields.get("why") or "", "")
    where = partitions_text(fields.get("partitions") or {})
    return f"{count(fields.get('count') or 0, 'offset')} deleted {why} ({where})"


def _loaded(fields: Part) -> str:
    groups, members = fields.get("groups") or 0, fields.get("members") or 0
    return (
        f"the coordinator loaded {count(groups, 'group')} with {count(members, 'member')} in "
        f"{span(fields.get('duration_ms') or 0)}, after a start or a failure; sessions "
        f"restarted{_outage(fields)}"
    )


def _outage(fields: Part) -> str:
    outage = fields.get("outage")
    return f"; before, {outage_text(Outage(**outage))}" if outage else ""


def _stalled(fields: Part) -> str:
    what, jump = fields.get("what") or "something", fields.get("jump_ms")
    if jump is not None:
        way = "forward" if jump >= 0 else "back"
        return (
            f"the wall clock of the coordinator was moved {way} by {span(abs(jump))}, or its "
            "machine was suspended"
        )
    why = STALLS.get(what, f"{what} stood still")
    took = span(fields.get("duration_ms") or 0)
    return f"the coordinator had not answered for {took}: {why}"


def _not_back(fields: Part) -> str:
    absent = fields.get("absent") or []
    verb = "has" if len(absent) == 1 else "have"
    return (
        f"{some_of(person(each) for each in absent)} {verb} not been heard from since the "
        "coordinator was loaded"
    )


def _removed(fields: Part) -> str:
    cause = fields.get("cause") or {}
    about = Round("", 0, 0, 0)
    about.removed = [{"who": fields.get("who") or {}}]
    return cause_text(cause, about).removesuffix(".")


def _emptied(fields: Part) -> str:
    return f"the group is empty. {_removed(fields)}"


def _group_deleted(fields: Part) -> str:
    why = {
        "request": f"by {person(fields.get('who'))}",
        "expired": "as it had no members, and its last offset has expired",
        "unused": "as it had no members and no offsets",
    }.get(fields.get("why") or "", "")
    return f"the group was deleted {why}".rstrip()


def _converted(fields: Part) -> str:
    old, new = fields.get("from_type") or "another", fields.get("to_type") or "another"
    return f"the group was converted from the {old} to the {new} type; its offsets stayed"


def _dropped(fields: Part) -> str:
    types = fields.get("types") or {}
    which = some_of(f"{each} of {name}" for name, each in types.items())
    whose = f" about {name_of(fields['who'])}" if fields.get("who") else ""
    total = fields.get("count") or 0
    return f"{count(total, 'event')}{whose} left out because of a limit ({which})"


def _history_lost(fields: Part) -> str:
    first, until = fields.get("from_offset"), fields.get("to_offset")
    where = f" between offsets {first} and {until}" if isinstance(first, int) else ""
    why = fields.get("why") or "the records were not there any more"
    return f"history is lost{where} of the offsets log: {why}"


# Any: JSON.
_LINES: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    "member_fenced": _fenced,
    "member_replaced": _replaced,
    "member_removed": _removed,
    "seat_reserved": _seat_reserved,
    "configs_changed": _configs_changed,
    "rebalance_deferred": _deferred,
    "standby_activated": _activated,
    "policy_refused": _policy_refused,
    "assignment_changed": _assignment_changed,
    "member_joined": lambda fields: f"{person(fields.get('who'))} joined",
    "requests_refused": _refused,
    "offsets_reset": _reset,
    "offsets_expired": _expired,
    "offsets_deleted": _offsets_deleted,
    "coordinator_loaded": _loaded,
    "coordinator_closed": lambda fields: (
        f"the coordinator closed: {fields.get('why') or 'unknown'}"
    ),
    "coordinator_stalled": _stalled,
    "not_back": _not_back,
    "group_emptied": _emptied,
    "group_deleted": _group_deleted,
    "group_converted": _converted,
    "events_dropped": _dropped,
    "history_lost": _history_lost,
}
"""Functions by event type. Events of other types belong to rounds."""
