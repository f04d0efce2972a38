"""Describes a round in one paragraph of plain English.

It covers the cause, the member behind it, the client's reason, late members, how long consumption
stopped, the partitions that moved, and advice (`advice`). See `lines` for events outside rounds.
"""

from collections.abc import Callable, Mapping
from typing import Final

from groupkeeper.history.causes import UNKNOWN
from groupkeeper.history.fields import Part, number
from groupkeeper.history.rounds import COMPLETED, EMPTIED, UNDER_WAY, Round
from groupkeeper.protocol.group_event_words import CODES, LIKELY
from groupkeeper.why.advice import advice
from groupkeeper.why.inferred import inferred_load, inferred_more, inferred_trigger, unknown_text
from groupkeeper.why.outcomes import late_text, leader_text, moved_text, outage_of, outcome_text
from groupkeeper.why.sessions import late_expiries, stalled_ms
from groupkeeper.why.texts import count, name_of, person, some_of, span, time_text


def headline(current: Round) -> str:
    """Return time, generation and duration of a round; its number restarts with each load."""
    took = f", {span(current.duration_ms)}" if current.duration_ms is not None else ""
    if current.outcome == EMPTIED:
        took = ": no member is left"
    to = "to" if current.leader or current.outcome in (COMPLETED, EMPTIED) else "after"
    if current.group_type is not None:
        number = f"to epoch {current.generation}"
        return f"{time_text(current.started_at_ms)}  rebalance {number}{took}"
    at_ms = current.ended_at_ms if current.source else current.started_at_ms
    return f"{time_text(at_ms)}  rebalance {to} generation {current.generation}{took}"


def paragraph(current: Round) -> str:
    """Return the round in a few sentences, ending with advice."""
    sentences = [
        trigger(current),
        _said(current.cause),
        _unknown_guess(current.cause or {}),
        _stalled(current.cause or {}),
        _more_causes(current),
        outage_of(current),
        inferred_load(current),
        _late_expiries(current),
        late_text(current),
        leader_text(current),
        outcome_text(current),
        moved_text(current),
    ]
    if current.outcome != UNDER_WAY:
        sentences.append(advice(current))
    return " ".join(filter(None, sentences))


def trigger(current: Round) -> str:
    """Return a sentence about the cause of the round."""
    if current.cause is None:
        return "The trigger happened before the events that were read."
    return inferred_trigger(current) if current.source else cause_text(current.cause, current)


def cause_text(cause: Part, current: Round) -> str:
    """Return a sentence about a cause. `current`: the round that it belongs to."""
    if "code" not in cause:
        return "The trigger was not recorded."
    if cause["code"] == UNKNOWN:
        return unknown_text(current)
    tell = _TRIGGERS.get(cause["code"])
    if tell is None:
        return f"The cause is {cause['code']}, which this command does not know."
    if isinstance(tell, str):
        return tell.format(who=_who(cause))
    return tell(cause, cause.get("evidence") or {}, current)


# -- one sentence for each code --------------------------------------------------------------------


def _who(cause: Part) -> str:
    return person(cause.get("who"))


def _member_joined(cause: Part, evidence: Part, current: Round) -> str:
    known = max(len(current.added), len(current.joined) if current.from_state == "Empty" else 0)
    others = known - 1
    more = f", and {others} more during the rebalance" if others > 0 else ""
    if evidence.get("same_connection"):
        missed = cause.get("likely") == "max_poll_exceeded"
        how = ": its application did not call poll in time" if missed else ""
        since = span(number(evidence, "away_ms") or 0)
        return f"{_who(cause)} came back on the same connection {since} after it left{how}{more}."
    where = " the empty group" if current.from_state == "Empty" else " as a new member"
    return f"{_who(cause)} joined{where}{more}.{_again(current)}"


def _static_joined(cause: Part, evidence: Part, current: Round) -> str:
    return f"{_who(cause)} joined with an instance id that the group did not have.{_again(current)}"


def _again(current: Round) -> str:
    if current.away_ms is None:
        return ""
    return f" A client of this name was lost {span(current.away_ms)} before."


def _returned(cause: Part, evidence: Part, current: Round) -> str:
    how = "restarted"
    if cause.get("likely") == "taken_over":
        how = "probably is another client, and took the place of one that still ran,"
    if cause["code"] == "static_member_returned_changed":
        return f"{_who(cause)} {how} with protocols or topics that change the group's."
    was = f" ({current.from_state})" if current.from_state else ""
    return f"{_who(cause)} {how} while the group was rebalancing{was}."


def _member_rejoined(cause: Part, evidence: Part, current: Round) -> str:
    revoked = evidence.get("revoked")
    amount = len(revoked) if isinstance(revoked, list | dict) else number(evidence, "revoked")
    text = f"{_who(cause)} rejoined with the same topics and other user data"
    if not amount:
        return f"{text}."
    guess = cause.get("likely") == "partitions_revoked"
    why = ": probably the second rebalance of an incremental assignor" if guess else ""
    return f"{text}, after it gave up {count(amount, 'partition')}{why}."


def _member_left(cause: Part, evidence: Part, current: Round) -> str:
    idle = number(evidence, "idle_ms")
    probably = "probably " if idle else ""
    how = {
        "shutdown": ": it was closed or unsubscribed",
        "max_poll_exceeded": f": its application {probably}did not call poll in time",
        "rolling_restart": ": members are probably being restarted one after the other",
    }.get(cause.get("likely") or "", "")
    since = f", {span(idle)} after its last commit" if idle else ""
    return f"{_who(cause)} left{how}{since}."


def _unknown_guess(cause: Part) -> str:
    """Name a guess that this version does not know."""
    likely = cause.get("likely")
    if not likely or likely in LIKELY:
        return ""
    return f"What probably is behind it is {likely}, which this command does not know."


def _stalled(cause: Part) -> str:
    """Describe the stall of the coordinator behind a cause."""
    evidence = cause.get("evidence") or {}
    stalled, ended = number(evidence, "stalled_ms"), number(evidence, "stall_ended_ms")
    if evidence.get("stalled") == "load" and ended is not None:
        return f"The coordinator was loaded {span(ended)} before, after a start or a failure."
    if stalled is None:
        return ""
    ago = f", until {span(ended)} before" if ended else ""
    why = STALLS.get(str(evidence.get("stalled")), "something stood still")
    return f"The coordinator did not answer for {span(stalled)}{ago}: {why}."


STALLS: Final[Mapping[str, str]] = {
    "process": "its process stood still",
    "log": "its log could not be written",
    "clock": "its wall clock was moved",
}
"""Words by what stood still, of the event `coordinator_stalled` and of evidence."""


def _removed_by_admin(cause: Part, evidence: Part, current: Round) -> str:
    names = [name_of(each["who"]) for each in current.removed]
    whom = some_of(names) if names else "a member"
    return f"{_who(cause)}, which is another client, removed {whom}."


def _session_expired(cause: Part, evidence: Part, current: Round) -> str:
    session, silent = number(evidence, "session_timeout_ms"), number(evidence, "silent_ms")
    if silent is None or session is None:
        how = _connection(cause, evidence)
        return f"{_who(cause)} was removed, as no heartbeat came in time.{how}"
    limit = f"and its session.timeout.ms is {session}"
    if evidence.get("connection", "") is None:
        loaded = "nothing came from it since the coordinator was loaded"
        return f"{_who(cause)} was removed: {loaded} {span(silent)} before, {limit}."
    late = stalled_ms(evidence)
    if late is not None:
        return (
            f"{_who(cause)} was removed: its last heartbeat came {span(silent)} before, {limit}. "
            f"The coordinator noticed {span(late)} late: it or its machine stood still."
        )
    return (
        f"{_who(cause)} was removed: its last heartbeat came {span(silent)} before, {limit}."
        f"{_beats(evidence)}{_connection(cause, evidence)}"
    )


def _waited(cause: Part, evidence: Part, current: Round) -> str:
    what = "did not rejoin"
    if cause["code"] == "sync_timeout":
        what = "joined, but did not ask for its assignment"
    waited, allowed = number(evidence, "waited_ms"), number(evidence, "rebalance_timeout_ms")
    within = f" within {span(waited)}" if waited is not None else " in time"
    limit = f" (the rebalance timeout is {allowed})" if allowed is not None else ""
    silent = number(evidence, "silent_ms")
    heard = f" Its last request came {span(silent)} before." if silent is not None else ""
    return (
        f"{_who(cause)} was removed: it {what}{within}{limit}.{heard}"
        f"{_beats(evidence)}{_connection(cause, evidence)}"
    )


def _beats(evidence: Part) -> str:
    beats, interval = number(evidence, "heartbeats"), number(evidence, "heartbeat_interval_ms")
    if beats == 0:
        return " It sent no heartbeat in this generation."
    if beats is None or interval is None:
        return ""
    if beats == 1:
        return f" It sent 1 heartbeat before, after {span(interval)}."
    return f" Before, {beats} heartbeats came every {span(interval)}."


def _connection(cause: Part, evidence: Part) -> str:
    """Return what the connection of a member says, unless the coordinator stood still."""
    if cause.get("likely") == "coordinator_stalled":
        return ""
    known = evidence.get("connection")
    return {
        "open": (
            " Its connection was still open: probably the process stood still, or its network was"
            " cut."
        ),
        "closed": " Its connection was closed: probably the process ended, or was cut off.",
    }.get(known if isinstance(known, str) else "", "")


def _pending_expired(cause: Part, evidence: Part, current: Round) -> str:
    session = number(evidence, "session_timeout_ms")
    within = f" within {span(session)}" if session is not None else " in time"
    return f"{_who(cause)} got a member id and did not join with it{within}."


def _group_shrunk(cause: Part, evidence: Part, current: Round) -> str:
    limit = number(evidence, "limit")
    has = "more members than" if current.members is None else f"{current.members} members, and"
    most = f" is {limit}" if limit is not None and current.members is not None else ""
    return f"The group was loaded with {has} group.max.size{most}."


def _assignment_lost(cause: Part, evidence: Part, current: Round) -> str:
    limit = number(evidence, "limit")
    most = f" (at most {limit} bytes)" if limit is not None else ""
    return f"The leader's assignments could not be stored: they were too large{most}."


def _operator(cause: Part, evidence: Part, current: Round) -> str:
    return f"An operator forced it{': ' + _who(cause) if cause.get('who') else ''}."


def _seat_expired(cause: Part, evidence: Part, current: Round) -> str:
    silent, reserved = number(evidence, "silent_ms"), number(evidence, "reserved_ms")
    how = "left" if evidence.get("lost_by") == "member_left" else "was lost"
    held = count(number(evidence, "partitions") or 0, "partition")
    kept = f", {span(reserved)} of it reserved" if reserved is not None else ""
    still = f": its {held} stood still for {span(silent)}{kept}" if silent is not None else ""
    return f"{_who(cause)} {how}, and nobody came back for it{still}."


def _seat_revoked(cause: Part, evidence: Part, current: Round) -> str:
    amount = number(evidence, "revoked") or 0
    whom = "a lost member, whose place is reserved"
    if cause.get("who"):
        whom = f"the process before {_who(cause)}, which did not live to give them up"
    return (
        f"The last rebalance took {count(amount, 'partition')} from {whom}; this one gives them to "
        "others."
    )


def _window_over(cause: Part, evidence: Part, current: Round) -> str:
    newcomers, waited = number(evidence, "newcomers"), number(evidence, "waited_ms")
    who = count(newcomers, "newcomer") if newcomers is not None else "Newcomers"
    after = f" after {span(waited)}" if waited is not None else ""
    return f"{who} got partitions{after}, together."


def _expected(cause: Part, evidence: Part, current: Round) -> str:
    waited, missing = number(evidence, "waited_ms"), evidence.get("missing")
    after = f" after {span(waited)}" if waited is not None else ""
    if cause["code"] == "expected_complete":
        return f"All members that were expected had come{after}, and got partitions together."
    named = missing if isinstance(missing, list) else []
    amount = number(evidence, "count") or len(named)
    who = some_of(map(str, named), number=amount) if named else "Not all"
    came = "had not come" if named else "of those that were expected had come"
    return f"{who} {came}{after}; the other members got partitions."


def _topics_changed(cause: Part, evidence: Part, current: Round) -> str:
    before, now = number(evidence, "partitions_before"), number(evidence, "partitions_now")
    topic = evidence.get("topic") or "a topic"
    if before is None or now is None:
        return f"The coordinator noticed that {topic} has changed."
    return f"{topic} has {count(now, 'partition')}, not {before}, which the coordinator noticed."


def _policy_changed(cause: Part, evidence: Part, current: Round) -> str:
    active, wanted = number(evidence, "active"), number(evidence, "wanted")
    if active is None or wanted is None:
        return "A config of the group was changed."
    get = "gets" if wanted == 1 else "get"
    now = f"{count(wanted, 'member')} {get} partitions, not {active}"
    return f"A config of the group was changed: {now}."


_TRIGGERS: Final[Mapping[str, str | Callable[[Part, Part, Round], str]]] = {
    "member_joined": _member_joined,
    "static_member_joined": _static_joined,
    "static_member_returned_changed": _returned,
    "static_member_returned_unready": _returned,
    "subscription_changed": "{who} rejoined with other topics or protocols.",
    "leader_rejoined": "The leader {who} rejoined unchanged.",
    "member_rejoined": _member_rejoined,
    "metadata_changed": "{who} rejoined with other metadata.",
    "rejoined_after_load": (
        "{who} rejoined for the first time since the coordinator was loaded, unchanged as far as "
        "is stored: only the elected protocol of a member is, so it looked like a change."
    ),
    "member_left": _member_left,
    "member_removed_by_admin": _removed_by_admin,
    "session_expired": _session_expired,
    "join_timeout": _waited,
    "sync_timeout": _waited,
    "pending_member_expired": _pending_expired,
    "group_shrunk": _group_shrunk,
    "assignment_lost": _assignment_lost,
    "operator": _operator,
    "seat_expired": _seat_expired,
    "seat_revoked": _seat_revoked,
    "window_over": _window_over,
    "expected_complete": _expected,
    "expected_missing": _expected,
    "topics_changed": _topics_changed,
    "policy_changed": _policy_changed,
}
"""Sentences by cause code."""


# -- the rest of the paragraph ---------------------------------------------------------------------


JOIN_AGAIN: Final = "need to re-join with the given member-id"
"""Java's words in the second JoinGroup of each new member (KIP-394), which give no reason."""


def _said(cause: Part | None) -> str:
    reason = (cause or {}).get("reason")
    if not reason or reason.startswith(JOIN_AGAIN):
        return ""
    words = " ".join("".join(each if each.isprintable() else " " for each in reason).split())
    return f'It said: "{words}{"..." if cause and cause.get("reason_cut") else ""}".'


def _more_causes(current: Round) -> str:
    """Name further causes, except joins that the first sentence has counted."""
    if current.source:
        return inferred_more(current)
    first = (current.cause or {}).get("code")
    counted = first if first == "member_joined" else None
    texts = [
        f"{name_of(each.get('who') or {})} {_briefly(each.get('code'))}"
        for each in current.more_causes
        if each.get("code") != counted
    ]
    return f"Meanwhile {some_of(dict.fromkeys(texts))}." if texts else ""


def _briefly(code: str | None) -> str | None:
    word = CODES.get(code or "")
    return word.briefly or code if word else code


def _late_expiries(current: Round) -> str:
    """Describe sessions that ended late, beside another cause: the coordinator stood still."""
    late, first = late_expiries(current), (current.cause or {}).get("code")
    if not late or first == "session_expired" or _stalled(current.cause or {}):
        return ""
    return (
        f"The coordinator noticed the end of {count(len(late), 'session')} up to "
        f"{span(max(late))} late: it or its machine stood still."
    )
