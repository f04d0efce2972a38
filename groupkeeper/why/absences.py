"""Advice about members that left, went silent or came back, and about outages of the coordinator.

Settings come from `proposals`, and only as far as the `gate` admits them.
"""

from groupkeeper.history.fields import Part, number
from groupkeeper.history.rounds import Round
from groupkeeper.protocol.embedded import CONNECT
from groupkeeper.why.gate import Audience, SettingChange, first_passing, judge
from groupkeeper.why.proposals import (
    keep_place,
    longer_poll,
    longer_wait,
    more_heartbeats,
    outlast_outage,
    outlast_pause,
    reserve_place,
    smaller_batches,
    sooner_end,
)
from groupkeeper.why.sessions import (
    SESSION_TIMEOUT_MS,
    came_anew,
    outlasted_ms,
    session_above,
    stalled_ms,
)
from groupkeeper.why.texts import joined_text, person, span, time_text

PAUSED = "find what paused the process or cut its network."
PROCESS_LESS = "Let the application process less between two calls of poll."


def proposed(current: Round, change: SettingChange) -> str:
    """Return the sentence of the gate about a change."""
    return judge(change, Audience.of(current)).text


def kept_place(current: Round, away_ms: int) -> str:
    """Return the sentence about an instance id, and a session that outlasts an absence."""
    about = current.removed[0]["who"] if current.removed else (current.cause or {}).get("who")
    is_static = bool((about or {}).get("instance"))
    text = proposed(current, keep_place(current, away_ms, is_static=is_static))
    reserved = judge(reserve_place(current, away_ms), Audience.of(current))
    return joined_text(text, f"Or s{reserved.text[1:]}" if reserved.passes else "")


def member_joined_again(current: Round, away_ms: int) -> str:
    """Advise about a member that came back as a new one."""
    if current.away_connection == "open":
        text = f"It was paused or cut off for {span(away_ms)}: {PAUSED}"
        return joined_text(text, proposed(current, outlast_pause(current, away_ms)))
    return joined_text(f"It was away for {span(away_ms)}.", kept_place(current, away_ms))


def static_member_joined(current: Round, evidence: Part) -> str:
    if current.away_ms is not None:
        text = f"Its place was given up before it came back after {span(current.away_ms)}."
        return joined_text(text, kept_place(current, current.away_ms))
    known = current.session_timeout_ms
    session = f"its session.timeout.ms ({known})" if known else "its session.timeout.ms"
    return (
        f"Nothing is wrong at its first start; from now on a restart within {session} needs no "
        "rebalance, and its partitions wait for it meanwhile."
    )


def member_left(current: Round, evidence: Part) -> str:
    if current.returned_ms is None:
        return joined_text("Nothing is wrong if it was meant to stop.", _of_connect(current))
    poll = "" if (current.cause or {}).get("likely") else _perhaps_polled_late(current)
    text = f"It came back after {span(current.returned_ms)}."
    return joined_text(text, kept_place(current, current.returned_ms), poll)


def _perhaps_polled_late(current: Round) -> str:
    """Mention late polls: librdkafka and others send LeaveGroup without a reason for them."""
    if current.protocol_type == CONNECT:
        return ""
    known = current.rebalance_timeout_ms
    limit = f" ({known} for this member)" if known else ""
    return (
        "If it was not restarted, its log says whether its application called poll later than "
        f"max.poll.interval.ms{limit} allows."
    )


def _of_connect(current: Round) -> str:
    """Say when Kafka Connect gives the tasks of a lost worker to others (KIP-415)."""
    if current.protocol_type != CONNECT or current.protocol not in ("compatible", "sessioned"):
        return ""
    return (
        "Kafka Connect gives the tasks of a lost worker to others after "
        "scheduled.rebalance.max.delay.ms (300000 unless set)."
    )


def rolling_restart(current: Round, evidence: Part) -> str:
    times, within = number(evidence, "instances") or 2, number(evidence, "within_ms") or 0
    text = f"{times} members were restarted within {span(within)}."
    away_ms = current.returned_ms or current.away_ms
    return joined_text(text, "" if away_ms is None else kept_place(current, away_ms))


def removed_by_admin(current: Round, evidence: Part) -> str:
    text = f"Ask those who run {person((current.cause or {}).get('who'))}."
    if current.returned_ms is None:
        return text
    back = f"It came back after {span(current.returned_ms)}."
    return joined_text(text, back, kept_place(current, current.returned_ms))


def session_expired(current: Round, evidence: Part) -> str:
    session = number(evidence, "session_timeout_ms") or current.session_timeout_ms
    late = stalled_ms(evidence)
    if late is not None:
        return (
            f"Find what stopped the coordinator or its machine for {span(late)}; the session of "
            f"the member ({session} ms) can stay."
        )
    connection = evidence.get("connection", "unknown")
    back = current.returned_ms
    if back is not None:
        text = f"It was back {span(back)} after its last request"
        if connection == "open":
            pause = proposed(current, outlast_pause(current, back))
            return joined_text(f"{text}: {PAUSED}", pause)
        return joined_text(f"{text}.", kept_place(current, back))
    interval = number(evidence, "heartbeat_interval_ms")
    if interval is not None and session and interval > session // 2:
        text = f"Its heartbeats came every {span(interval)}, with a session of {span(session)}."
        return joined_text(text, proposed(current, more_heartbeats(session)))
    if connection == "open":
        return f"F{PAUSED[1:]}"
    if connection == "unknown":
        text = "Find what ended or paused the process, or cut its network."
        return joined_text(text, _of_connect(current))
    return joined_text(_ended(current, evidence, session), _of_connect(current))


def _ended(current: Round, evidence: Part, session: int | None) -> str:
    """Advise about a process that ended, as its connection was closed, and did not come back."""
    who = (current.cause or {}).get("who") or {}
    silent = number(evidence, "silent_ms") or session or 0
    at_ms = current.started_at_ms and current.started_at_ms - silent
    host = f" on {who['host'].lstrip('/')}" if who.get("host") else ""
    when = f"soon after {time_text(at_ms)}"
    search = f"look for a crash or a kill{host} {when}."
    if evidence.get("connection") is None:
        search = (
            f"look whether it ended{host}; or it gave up its place before {time_text(at_ms)}, "
            "while the coordinator was away."
        )
    if not who.get("instance"):
        return f"L{search[1:]}"
    return (  # a static member sends no LeaveGroup when it is closed (KIP-345)
        "Nothing is wrong if it was stopped: a member with a group.instance.id does not leave when "
        f"it is closed, its session ends after {span(session or SESSION_TIMEOUT_MS)}; `groupkeeper "
        f"groups remove-members` removes it at once. If it was not stopped, {search}"
    )


def after_outage(current: Round) -> str:
    """Advise after an outage longer than sessions, in which clients gave up their memberships."""
    outage, session_ms = current.outage, outlasted_ms(current)
    assert outage is not None and session_ms is not None
    session = span(session_ms)
    away = f"The coordinator was away for {span(outage.ms)}, longer than the session of {session}"
    if not came_anew(current):
        why = f"{away}: the client gave its place up, or its process ended meanwhile"
    elif outage.is_exact:
        why = f"{away}, so clients gave their places up and joined anew"
    else:
        why = (
            "Clients joined anew: if they were not restarted, the coordinator was away for longer "
            f"than their session of {session}, and they gave their places up"
        )
    start = f"Start the coordinator within {session} to avoid it."
    if not outage.is_exact:  # shorter than what is known
        return f"{why}. {start}"
    longer = outlast_outage(current, max(session_ms, session_above(outage.ms)))
    verdict = judge(longer, Audience.of(current))
    return joined_text(f"{why}.", start, verdict.text if verdict.passes else "")


def join_timeout(current: Round, evidence: Part) -> str:
    allowed = number(evidence, "rebalance_timeout_ms") or number(evidence, "waited_ms")
    text = "Find what ended or paused the process."
    if allowed is None:
        return text
    verdict = judge(sooner_end(current, allowed), Audience.of(current))
    why = (
        f"A session that ends before the rebalance timeout ({span(allowed)}) removes such a member "
        "sooner, and one that only pauses as well."
    )
    return joined_text(text, f"{why} {verdict.text}" if verdict.passes else "")


def slow_member(current: Round, evidence: Part) -> str:
    allowed = number(evidence, "rebalance_timeout_ms") or current.rebalance_timeout_ms
    within = f" within {span(allowed)}" if allowed else " in time"
    text = f"Its heartbeats came, but its application did not come back to poll{within}."
    longest = max(allowed or 0, current.returned_ms or 0)
    changes = [smaller_batches()]
    if longest:
        changes = [longer_wait(current, longest), *changes]
    return joined_text(text, _smaller(current, changes))


def max_poll_exceeded(current: Round, evidence: Part) -> str:
    allowed = number(evidence, "rebalance_timeout_ms") or current.rebalance_timeout_ms
    idle = number(evidence, "idle_ms") or 0
    known = f" ({allowed} for this member)" if allowed else ""
    was_closed = idle and not evidence.get("same_connection")
    batch = "If it was not closed, a" if was_closed else "A"
    text = f"{batch} batch took longer than max.poll.interval.ms{known}."
    longest = max(allowed or 0, idle, current.returned_ms or 0)
    changes = [smaller_batches()]
    if current.returned_ms is not None:
        changes = [longer_poll(current, longest), *changes]
    return joined_text(text, _smaller(current, changes))


def _smaller(current: Round, changes: list[SettingChange]) -> str:
    verdict = first_passing(changes, Audience.of(current))
    return verdict.text if verdict.passes else PROCESS_LESS
