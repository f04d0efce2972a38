"""Advice after a round: which setting to change, and to which value, computed from the evidence.

`ADVICE` has a function for each cause code, and for each likely reason behind a cause. The general
advice without numbers is in `protocol.group_event_words`.
"""

from collections.abc import Callable, Mapping
from typing import Final

from groupkeeper.history.fields import Part, number
from groupkeeper.history.rounds import Round
from groupkeeper.why.sessions import (
    SESSION_TIMEOUT_MS,
    after_outage,
    keep_place,
    outlast_pause,
    outlasted_ms,
    session_above,
    session_expired,
    session_setting,
    shorter_session,
    usual_session,
)
from groupkeeper.why.texts import above, count, hosts_text, name_of, person, setting, span

# Defaults of Kafka's Java consumer; most are also those of other clients.
MAX_POLL_INTERVAL_MS: Final = 300_000
MAX_POLL_RECORDS: Final = 500
METADATA_MAX_AGE_MS: Final = 300_000
# Defaults of the coordinator.
INITIAL_DELAY_MS: Final = 3_000
MESSAGE_MAX_BYTES: Final = 1_048_588

HEARTBEAT_INTERVAL_MS: Final = 3_000
PROMPT_MS: Final = 5_000
"""Time within which a polling member rejoins after its heartbeat reports the rebalance."""
LATE_MS: Final = 2 * PROMPT_MS
"""Rejoin time from which the advice mentions the last member."""
TOGETHER_MS: Final = 60_000
"""Members that join an empty group within this time were probably started together."""
_AFTER_OUTAGE: Final = frozenset({"session_expired", "member_joined", "static_member_joined"})
"""Causes of rounds after clients gave up their memberships during an outage of the coordinator."""


def advice(current: Round) -> str:
    """Return one or two sentences about the cause, and about members that delayed the round."""
    code = (current.cause or {}).get("code")
    for each in current.removed:
        if current.missing and each.get("cause", {}).get("code") == "join_timeout":
            return _of_missing(current, each)
    if code in _AFTER_OUTAGE and outlasted_ms(current) is not None:
        return after_outage(current)
    return " ".join(filter(None, (_of_cause(current), _of_lateness(current))))


def _of_missing(current: Round, removed: Part) -> str:
    """Advise about a member that the others waited for, which matters more than the cause."""
    about = Round(current.group, current.epoch, current.round, current.generation)
    about.cause, about.returned_ms = removed["cause"], current.returned_ms
    about.limits, about.outage = current.limits, current.outage
    text = _of_cause(about)
    return f"About {name_of(removed['who'])}: {text[0].lower()}{text[1:]}"


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
    return late_for_polls(last["after_ms"])


def late_for_polls(after_ms: int) -> str:
    """Advise about a member that the others waited for in the join phase."""
    records = max(1, MAX_POLL_RECORDS * PROMPT_MS // after_ms)
    return (
        f"The last member came back to poll after {span(after_ms)}: where max.poll.records "
        f"is {MAX_POLL_RECORDS}, {setting('max.poll.records', records)} brings that to about "
        f"{span(PROMPT_MS)}."
    )


# -- one function for each cause code or likely reason ---------------------------------------------


def _member_joined(current: Round, evidence: Part) -> str:
    if evidence.get("same_connection"):
        return (
            "It was not restarted: its application unsubscribed and subscribed again. "
            "Consumer.assign and pause need no rebalance."
        )
    if current.away_ms is not None and current.away_connection == "open":
        return f"It was paused or cut off for {span(current.away_ms)}: " + outlast_pause(
            current, current.away_ms
        )
    if current.away_ms is not None:
        return (
            f"It was away for {span(current.away_ms)}: {keep_place(current, current.away_ms)}, "
            "and such a restart needs no rebalance."
        )
    since = current.repeats_since_ms or 0
    if current.repeats > 1 and current.repeats_from == "Empty" and since <= TOGETHER_MS // 2:
        delay = setting("group.initial.rebalance.delay.ms", above(since))
        return (
            f"It is rebalance {current.repeats} in a row for a new member, {span(since)} after "
            f"the group was empty: {delay} of the coordinator makes them one."
        )
    if current.from_state == "Empty":
        spread = current.last["after_ms"] if current.last else 0
        if not spread:
            return (
                "Nothing is wrong: the group was empty. For members that start together, "
                f"{setting('group.initial.rebalance.delay.ms', INITIAL_DELAY_MS)} of the "
                "coordinator, its default, makes one rebalance."
            )
        return (
            "Nothing is wrong: a group that was empty waits for more members. The last one came "
            f"after {span(spread)}: {setting('group.initial.rebalance.delay.ms', above(spread))} "
            "of the coordinator is enough for them."
        )
    rounds = "it costs a rebalance"
    if current.repeats > 1:
        rounds = f"this is number {current.repeats} in a row, within {span(since)}"
    text = f"Nothing is wrong if a member was added: {rounds}. Those that start within one "
    text += f"{setting('heartbeat.interval.ms', HEARTBEAT_INTERVAL_MS)} share it"
    if "cooperative" in (current.protocol or "") or not current.moved or not current.partitions:
        return f"{text}."
    return (
        f"{text}; with partition.assignment.strategy=cooperative-sticky for all members only "
        f"partitions that move stand still, here {current.moved} of {current.partitions}."
    )


def _static_member_joined(current: Round, evidence: Part) -> str:
    if current.away_ms is not None:
        return (
            f"Its place was given up before it came back after {span(current.away_ms)}: "
            f"{keep_place(current, current.away_ms)}, and such a restart needs no rebalance."
        )
    return (
        "Nothing is wrong at its first start; from now on a restart within session.timeout.ms "
        f"({SESSION_TIMEOUT_MS} unless set) needs no rebalance."
    )


def _returned_changed(current: Round, evidence: Part) -> str:
    return (
        "Set the same partition.assignment.strategy for all members"
        + (f" (the group now has {current.protocol})" if current.protocol else "")
        + "; while strategies are exchanged, roll the members 1 by 1."
    )


def _returned_unready(current: Round, evidence: Part) -> str:
    away = max([0, *(each.get("away_ms") or 0 for each in current.replaced)])
    return (
        "Restart members one after the other, each when the group is Stable again; "
        f"{session_setting(current, session_above(away or SESSION_TIMEOUT_MS))} keeps their "
        "places meanwhile."
    )


def _refreshed(current: Round, evidence: Part) -> str:
    start = "Nothing is wrong if topics or partitions were added or the application changed"
    if current.repeats == 1:
        return (
            f"{start}; clients look for them every metadata.max.age.ms ({METADATA_MAX_AGE_MS} "
            "unless set)."
        )
    since = current.repeats_since_ms or 0
    each = above(max(METADATA_MAX_AGE_MS, since // current.repeats), 2)
    return (
        f"{start}; this is number {current.repeats} of its kind in a row, within {span(since)}: "
        "look for topics that come and go under a pattern, or set "
        f"{setting('metadata.max.age.ms', each)}."
    )


def _member_rejoined(current: Round, evidence: Part) -> str:
    revoked = evidence.get("revoked")
    amount = len(revoked) if isinstance(revoked, list | dict) else number(evidence, "revoked")
    what = "the partitions" if amount is None else count(amount, "partition")
    return (
        f"Nothing is wrong: only {what} that moved stood still. With a group.instance.id and "
        f"{usual_session(current)} restarts need neither rebalance."
    )


def _member_left(current: Round, evidence: Part) -> str:
    if current.returned_ms is not None:
        poll = "" if (current.cause or {}).get("likely") else _perhaps_polled_late()
        return (
            f"It came back after {span(current.returned_ms)}: "
            f"{keep_place(current, current.returned_ms)}, and such a restart "
            f"needs no rebalance.{poll}"
        )
    known = current.session_timeout_ms
    session = setting("session.timeout.ms", known) if known else usual_session(current)
    return (
        "Nothing is wrong if it was meant to stop. If it is a restart, give each member a "
        f"group.instance.id: one within {session} needs no rebalance."
    )


def _perhaps_polled_late() -> str:
    """Mention late polls: librdkafka and others send LeaveGroup without a reason for them."""
    return (
        " If it was not restarted, its log says whether its application called poll too late "
        f"(max.poll.interval.ms, {MAX_POLL_INTERVAL_MS} unless set)."
    )


def _max_poll_exceeded(current: Round, evidence: Part) -> str:
    allowed = number(evidence, "rebalance_timeout_ms")
    idle = number(evidence, "idle_ms") or 0
    if allowed is None:
        known = f"{MAX_POLL_INTERVAL_MS} unless set"
        allowed = MAX_POLL_INTERVAL_MS
    else:
        known = f"{allowed} for this member"
    longest = max(allowed, idle, current.returned_ms or 0)
    was_closed = idle and not evidence.get("same_connection")
    batch = "If it was not closed, a" if was_closed else "A"
    return (
        f"{batch} batch took longer than max.poll.interval.ms ({known}): set "
        f"{setting('max.poll.interval.ms', above(longest, 1.5))}, or where max.poll.records is "
        f"{MAX_POLL_RECORDS}, {setting('max.poll.records', MAX_POLL_RECORDS // 2)}."
    )


def _removed_by_admin(current: Round, evidence: Part) -> str:
    remover = person((current.cause or {}).get("who"))
    wait = current.returned_ms
    is_static = all(each["who"].get("instance") for each in current.removed)
    place = "" if current.removed and is_static else "a group.instance.id and "
    return (
        f"Ask those who run {remover}. "
        + ("It came back after " + span(wait) + ": a" if wait is not None else "A")
        + f" member that is only restarted needs no removal with {place}"
        f"{session_setting(current, session_above(wait)) if wait else usual_session(current)}."
    )


def _join_timeout(current: Round, evidence: Part) -> str:
    allowed = number(evidence, "rebalance_timeout_ms") or number(evidence, "waited_ms")
    allowed = allowed or current.deadline_ms or MAX_POLL_INTERVAL_MS
    return (
        "Find what ended or paused the process. A session that ends before the rebalance timeout "
        f"({span(allowed)}) removes such a member sooner: set "
        f"{shorter_session(current, allowed)}."
    )


def _slow_member(current: Round, evidence: Part) -> str:
    allowed = number(evidence, "rebalance_timeout_ms") or current.deadline_ms
    allowed = allowed or MAX_POLL_INTERVAL_MS
    longest = max(allowed, current.returned_ms or 0)
    return (
        "Its heartbeats came, but its application did not come back to poll within "
        f"{span(allowed)}: set {setting('max.poll.interval.ms', above(longest, 1.5))}, or where "
        f"max.poll.records is {MAX_POLL_RECORDS}, "
        f"{setting('max.poll.records', MAX_POLL_RECORDS // 2)}."
    )


def _sync_timeout(current: Round, evidence: Part) -> str:
    allowed = number(evidence, "rebalance_timeout_ms") or MAX_POLL_INTERVAL_MS
    return (
        "Find what stopped the process between joining and its assignment; if the leader needs so "
        f"long to assign, set {setting('max.poll.interval.ms', above(allowed, 1.5))}, which is the "
        "rebalance timeout."
    )


def _pending_expired(current: Round, evidence: Part) -> str:
    session = number(evidence, "session_timeout_ms") or SESSION_TIMEOUT_MS
    return (
        "Find out whether the client ended in its first seconds, or cannot reach the coordinator. "
        f"The others waited for it: {shorter_session(current, session)} "
        "lets them wait half as long."
    )


def _group_shrunk(current: Round, evidence: Part) -> str:
    wanted = current.members or (number(evidence, "limit") or 0) + 1
    return (
        f"Set {setting('group.max.size', wanted)} of the coordinator, or run no more than "
        f"{count(number(evidence, 'limit') or wanted - 1, 'member')}."
    )


def _assignment_lost(current: Round, evidence: Part) -> str:
    limit = number(evidence, "limit") or MESSAGE_MAX_BYTES
    return (
        f"Set {setting('message.max.bytes', 2 * limit)} of the coordinator, or split the group in "
        "2: the leader's assignments are too large to be stored."
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


def _rolling_restart(current: Round, evidence: Part) -> str:
    times, within = number(evidence, "instances") or 2, number(evidence, "within_ms") or 0
    each = current.returned_ms or current.away_ms or within // max(1, times - 1)
    return (
        f"{times} members were restarted within {span(within)}: "
        f"{keep_place(current, max(each, 1))}, and such restarts need no rebalance."
    )


def _no_setting(current: Round, evidence: Part) -> str:
    return "Nothing is wrong; no setting avoids it."


def _of_itself(current: Round, evidence: Part) -> str:
    return "Nothing is wrong with the client; no setting avoids it."


def _of_client(current: Round, evidence: Part) -> str:
    return "Nothing is wrong if it was meant: the client's own log says what changed."


def _stalled(current: Round, evidence: Part) -> str:
    return (
        "Find what stopped the coordinator, its disk or its machine; no setting of the consumers is"
        " wrong."
    )


def _taken_over(current: Round, evidence: Part) -> str:
    return (
        "Nothing is wrong if the old client was about to end; if both run, give each client a "
        "group.instance.id of its own."
    )


ADVICE: Final[Mapping[str, Callable[[Round, Part], str]]] = {
    "member_joined": _member_joined,
    "static_member_joined": _static_member_joined,
    "static_member_returned_changed": _returned_changed,
    "static_member_returned_unready": _returned_unready,
    "subscription_changed": _refreshed,
    "leader_rejoined": _refreshed,
    "member_rejoined": _member_rejoined,
    "member_left": _member_left,
    "member_removed_by_admin": _removed_by_admin,
    "session_expired": session_expired,
    "session_expired/crash_or_network": session_expired,
    "join_timeout": _join_timeout,
    "join_timeout/crash_or_network": _join_timeout,
    "sync_timeout": _sync_timeout,
    "sync_timeout/crash_or_network": _sync_timeout,
    "sync_timeout/slow_member": _sync_timeout,
    "pending_member_expired": _pending_expired,
    "group_shrunk": _group_shrunk,
    "assignment_lost": _assignment_lost,
    "metadata_changed": _of_client,
    "rejoined_after_load": _of_itself,
    "operator": _no_setting,
    "policy": _no_setting,
    "max_poll_exceeded": _max_poll_exceeded,
    "member_left/shutdown": _member_left,
    "crash_or_network": session_expired,
    "slow_member": _slow_member,
    "coordinator_stalled": _stalled,
    "partitions_changed": _refreshed,
    "rebalance_enforced": _of_client,
    "probing_rebalance": _of_client,
    "partitions_revoked": _member_rejoined,
    "config_changed": _of_client,
    "taken_over": _taken_over,
    "duel": _duel,
    "rolling_restart": _rolling_restart,
}
"""Functions by "code/likely", likely reason, or cause code; looked up in this order."""
