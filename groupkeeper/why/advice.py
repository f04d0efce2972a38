"""Advice after a round: what to look for or to change, from the evidence.

`ADVICE` has a function for each cause code, and for each likely reason behind a cause. A setting is
named only if the `gate` admits it. The general advice without numbers is in
`protocol.group_event_words`.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from groupkeeper.history.fields import Part, number
from groupkeeper.history.rounds import Round
from groupkeeper.history.unread import keeps_partitions
from groupkeeper.why import absences
from groupkeeper.why.absences import PROCESS_LESS, proposed
from groupkeeper.why.client_settings import LARGEST_GROUP, LARGEST_RECORD, STRATEGY, lacking
from groupkeeper.why.gate import Audience, SettingChange, judge
from groupkeeper.why.inferred import inferred_advice
from groupkeeper.why.proposals import PROMPT_MS, incremental, smaller_batches
from groupkeeper.why.sessions import late_expiries, outlasted_ms
from groupkeeper.why.texts import count, hosts_text, joined_text, name_of, span

MESSAGE_MAX_BYTES: Final = 1_048_588
"""Default of the coordinator."""
LATE_MS: Final = 2 * PROMPT_MS
"""Rejoin time from which the advice mentions the last member."""
TOGETHER_MS: Final = 60_000
"""Members that join an empty group within this time were probably started together."""
_AFTER_OUTAGE: Final = frozenset({"session_expired", "member_joined", "static_member_joined"})
"""Causes of rounds after clients gave up their memberships during an outage of the coordinator."""
_JOINS: Final = _AFTER_OUTAGE - {"session_expired"}
GRACE: Final = "classic.scheduled.rebalance.max.delay.ms"
NOTHING_WRONG: Final = "Nothing is wrong; no setting avoids it."
STALLED: Final = (
    "Find what stopped the coordinator, its disk or its machine; no setting of the consumers is "
    "wrong."
)


def advice(current: Round) -> str:
    """Return one or a few sentences about the cause, and about members that delayed the round."""
    if current.source:
        return inferred_advice(current)
    code, likely = (current.cause or {}).get("code"), (current.cause or {}).get("likely")
    was_loaded = (current.cause or {}).get("evidence", {}).get("stalled") == "load"
    blamed = likely == "coordinator_stalled" and not was_loaded
    if blamed or (code in _JOINS and late_expiries(current)):
        return STALLED
    for each in current.removed:
        if current.missing and each.get("cause", {}).get("code") == "join_timeout":
            return _of_missing(current, each)
    if code in _AFTER_OUTAGE and outlasted_ms(current) is not None:
        return absences.after_outage(current)
    if code in _JOINS and current.away_ms is None:
        for each in current.removed:
            if each.get("cause", {}).get("code") == "session_expired":
                return _of_waited_for(current, each)
    return joined_text(_of_cause(current), _of_lateness(current))


def _of_missing(current: Round, removed: Part) -> str:
    """Advise about a member that the others waited for, which matters more than the cause."""
    text = _of_cause(replace(current, cause=removed["cause"]))
    return f"About {name_of(removed['who'])}: {text[0].lower()}{text[1:]}"


def _of_waited_for(current: Round, removed: Part) -> str:
    """Advise about a member of which only the end of its session told that it was gone."""
    waited = number(removed["cause"].get("evidence") or {}, "silent_ms")
    after = f", {span(waited)} after its last request" if waited else ""
    text = f"The others waited for {name_of(removed['who'])} until its session ended{after}."
    lost = replace(current, cause=removed["cause"], started_at_ms=removed["at_ms"])
    return joined_text(text, _of_cause(lost))


def _of_cause(current: Round) -> str:
    cause = current.cause
    if cause is None:
        return "Read further back, with an earlier --since, to see what triggered it."
    code, likely = cause.get("code"), cause.get("likely")
    give = ADVICE.get(f"{code}/{likely}") or ADVICE.get(str(likely)) or ADVICE.get(str(code))
    if give is None:
        return f"The cause {code} is newer than this command: update it to learn more."
    return give(current, cause.get("evidence") or {})


def _of_lateness(current: Round) -> str:
    last = current.last
    if last is None or len(current.joined) < 2 or last["after_ms"] < LATE_MS:
        return ""
    code = (current.cause or {}).get("code")
    if current.from_state == "Empty" and code in ("member_joined", "static_member_joined"):
        return ""  # group.initial.rebalance.delay.ms, not a late member
    return late_for_polls(Audience.of(current), last["after_ms"])


def late_for_polls(audience: Audience, after_ms: int) -> str:
    """Advise about a member that the others waited for in the join phase."""
    verdict = judge(smaller_batches(after_ms), audience)
    return joined_text(
        f"The last member rejoined after {span(after_ms)}: its application probably came back to "
        "poll late.",
        verdict.text if verdict.passes else PROCESS_LESS,
    )


# -- one function for each cause code or likely reason ---------------------------------------------


def _member_joined(current: Round, evidence: Part) -> str:
    if evidence.get("same_connection"):
        return (
            "It was not restarted: its application unsubscribed and subscribed again. "
            "Consumer.assign and pause need no rebalance."
        )
    if current.away_ms is not None:
        return absences.member_joined_again(current, current.away_ms)
    since = current.repeats_since_ms or 0
    if current.repeats > 1 and current.repeats_from == "Empty" and since <= TOGETHER_MS // 2:
        return (
            f"It is rebalance {current.repeats} in a row for a new member, {span(since)} after "
            "the group was empty. Nothing is wrong if members were started one by one."
        )
    if current.from_state == "Empty":
        spread = current.last["after_ms"] if current.last else 0
        last = f"; the last one came after {span(spread)}" if spread else ""
        return f"Nothing is wrong: a group that was empty waits for more members{last}."
    rounds = "it costs a rebalance"
    if current.repeats > 1:
        rounds = f"this is number {current.repeats} in a row, within {span(since)}"
    text = f"Nothing is wrong if a member was added: {rounds}."
    if keeps_partitions(current) or not current.moved or not current.partitions:
        return text
    verdict = judge(incremental(current), Audience.of(current))
    if not verdict.passes:
        return text
    return joined_text(
        text,
        f"All partitions stood still, and {current.moved} of {current.partitions} moved.",
        verdict.text,
    )


def _returned_changed(current: Round, evidence: Part) -> str:
    about = Audience.of(current)
    if lacking(STRATEGY, about.protocol_type, about.protocol):
        return "Members run different versions or configurations: the client's log says which."
    return (
        f"All members need the same {STRATEGY}"
        + (f" (the group now has {current.protocol})" if current.protocol else "")
        + "; while assignors are exchanged, members are rolled twice: first with both in the list."
    )


def _returned_unready(current: Round, evidence: Part) -> str:
    return "Restart members one after the other, each when the group is Stable again."


def _refreshed(current: Round, evidence: Part) -> str:
    start = "Nothing is wrong if topics or partitions were added or the application changed"
    if current.repeats == 1:
        return f"{start}."
    since = current.repeats_since_ms or 0
    return (
        f"{start}; this is number {current.repeats} of its kind in a row, within {span(since)}: "
        "look for topics that come and go under a pattern."
    )


def _rejoined(current: Round, evidence: Part) -> str:
    return "The client's own log says why it rejoined."


def _partitions_revoked(current: Round, evidence: Part) -> str:
    revoked = evidence.get("revoked")
    amount = len(revoked) if isinstance(revoked, list | dict) else number(evidence, "revoked")
    what = count(amount, "partition") if amount else "partitions"
    return (
        "Nothing is wrong: members that keep their partitions need a second rebalance to give "
        f"{what} to others."
    )


def _sync_timeout(current: Round, evidence: Part) -> str:
    return "Find what stopped the process between joining and its assignment."


def _pending_expired(current: Round, evidence: Part) -> str:
    return (
        "Find out whether the client ended in its first seconds, or cannot reach the coordinator."
    )


def _group_shrunk(current: Round, evidence: Part) -> str:
    wanted = current.members or (number(evidence, "limit") or 0) + 1
    text = proposed(current, SettingChange(((LARGEST_GROUP, wanted),))).removesuffix(".")
    most = number(evidence, "limit") or wanted - 1
    return f"{text}, or run no more than {count(most, 'member')}."


def _assignment_lost(current: Round, evidence: Part) -> str:
    limit = number(evidence, "limit") or MESSAGE_MAX_BYTES
    text = proposed(current, SettingChange(((LARGEST_RECORD, 2 * limit),))).removesuffix(".")
    return f"{text}, or split the group in 2: the leader's assignments are too large to be stored."


def _expected_missing(current: Round, evidence: Part) -> str:
    return "Start those that are missing, or remove their ids from classic.expected.instance.ids."


def _seat_expired(current: Round, evidence: Part) -> str:
    session_ms, back_ms = number(evidence, "session_timeout_ms"), current.returned_ms
    if back_ms is None:
        reserved = span(number(evidence, "reserved_ms") or 0)
        return (
            f"Nothing is wrong if it ended for good: {GRACE} of the group, {reserved}, is how long "
            "its partitions stood still for nothing after the loss was noticed."
        )
    needed_ms = max(0, back_ms - (session_ms or 0))
    return (
        f"It came back {span(back_ms)} after its last request: {GRACE} of the group would have had "
        f"to be longer than {needed_ms} to keep its partitions for it."
    )


def _duel(current: Round, evidence: Part) -> str:
    two = f" ({hosts_text(evidence)})" if hosts_text(evidence) else ""
    times = number(evidence, "replacements") or 2
    within = number(evidence, "within_ms")
    return (
        f"Two running clients{two} have one group.instance.id and replaced each other {times} times"
        f"{' within ' + span(within) if within is not None else ''}: give each client a "
        "group.instance.id of its own, 2 ids for 2 clients."
    )


def _no_setting(current: Round, evidence: Part) -> str:
    return NOTHING_WRONG


def _of_itself(current: Round, evidence: Part) -> str:
    return "Nothing is wrong with the client; no setting avoids it."


def _of_client(current: Round, evidence: Part) -> str:
    return "Nothing is wrong if it was meant: the client's own log says what changed."


def _probing(current: Round, evidence: Part) -> str:
    return (
        "Nothing is wrong: Kafka Streams probes until its tasks are where they should be "
        "(probing.rebalance.interval.ms)."
    )


def _taken_over(current: Round, evidence: Part) -> str:
    return (
        "Nothing is wrong if the old client was about to end; if both run, give each client a "
        "group.instance.id of its own."
    )


ADVICE: Final[Mapping[str, Callable[[Round, Part], str]]] = {
    "member_joined": _member_joined,
    "static_member_joined": absences.static_member_joined,
    "static_member_returned_changed": _returned_changed,
    "static_member_returned_unready": _returned_unready,
    "subscription_changed": _refreshed,
    "leader_rejoined": _rejoined,
    "member_rejoined": _rejoined,
    "member_left": absences.member_left,
    "member_removed_by_admin": absences.removed_by_admin,
    "session_expired": absences.session_expired,
    "session_expired/crash_or_network": absences.session_expired,
    "join_timeout": absences.join_timeout,
    "join_timeout/crash_or_network": absences.join_timeout,
    "sync_timeout": _sync_timeout,
    "sync_timeout/crash_or_network": _sync_timeout,
    "sync_timeout/slow_member": _sync_timeout,
    "pending_member_expired": _pending_expired,
    "group_shrunk": _group_shrunk,
    "assignment_lost": _assignment_lost,
    "metadata_changed": _of_client,
    "rejoined_after_load": _of_itself,
    "operator": _no_setting,
    "seat_expired": _seat_expired,
    "seat_revoked": _partitions_revoked,
    "window_over": _no_setting,
    "expected_complete": _no_setting,
    "expected_missing": _expected_missing,
    "topics_changed": _no_setting,
    "policy_changed": _no_setting,
    "max_poll_exceeded": absences.max_poll_exceeded,
    "member_left/shutdown": absences.member_left,
    "crash_or_network": absences.session_expired,
    "slow_member": absences.slow_member,
    "coordinator_stalled": lambda current, evidence: (
        NOTHING_WRONG if evidence.get("stalled") == "load" else STALLED
    ),
    "partitions_changed": _refreshed,
    "rebalance_enforced": _of_client,
    "probing_rebalance": _probing,
    "partitions_revoked": _partitions_revoked,
    "config_changed": _of_client,
    "taken_over": _taken_over,
    "duel": _duel,
    "rolling_restart": absences.rolling_restart,
}
"""Functions by "code/likely", likely reason, or cause code; looked up in this order."""
