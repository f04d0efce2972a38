"""What to change about sessions: members that were not heard of, or came back."""

from typing import Final

from groupkeeper.why.fields import Part, number
from groupkeeper.why.rounds import Round
from groupkeeper.why.texts import above, setting, span, time_text

SESSION_TIMEOUT_MS: Final = 45_000
"""`session.timeout.ms` of Kafka's Java consumer, and of most others."""
MIN_SESSION_MS: Final = 6_000
"""`group.min.session.timeout.ms` of the coordinator."""
MAX_SESSION_MS: Final = 1_800_000
"""`group.max.session.timeout.ms` of the coordinator: it accepts no more."""
STALL_MS: Final = 5_000
"""A session that ends this much too late tells about the coordinator, not about the member."""


def keep_place(current: Round, away_ms: int) -> str:
    """What to set so that a member keeps its place while it is away; never less than it has."""
    who = (current.cause or {}).get("who") or {}
    now_ms = current.session_timeout_ms or MIN_SESSION_MS
    first = "" if who.get("instance") else "give each member a group.instance.id, and "
    verb = "keep" if now_ms > away_ms and current.session_timeout_ms else "set"
    return f"{first}{verb} {setting('session.timeout.ms', max(now_ms, session_above(away_ms)))}"


def outlast_pause(current: Round, away_ms: int) -> str:
    """What to set for a member that is cut off or stands still, and is not restarted."""
    wanted = max(current.session_timeout_ms or MIN_SESSION_MS, session_above(away_ms))
    return (
        f"set {setting('session.timeout.ms', wanted)}, or find what paused the process or cut its "
        "network."
    )


def stalled_ms(evidence: Part) -> int | None:
    """How much too late the coordinator ended a session; None if it was in time."""
    session, silent = number(evidence, "session_timeout_ms"), number(evidence, "silent_ms")
    if session is None or silent is None or evidence.get("connection", "") is None:
        return None
    return silent - session if silent - session >= STALL_MS else None


def session_expired(current: Round, evidence: Part) -> str:
    session = number(evidence, "session_timeout_ms") or SESSION_TIMEOUT_MS
    silent = number(evidence, "silent_ms") or session
    late = stalled_ms(evidence)
    if late is not None:
        return (
            f"Find what stopped the coordinator or its machine for {span(late)}; "
            f"{setting('session.timeout.ms', session)} of the member can stay."
        )
    connection = evidence.get("connection", "open")
    if current.returned_ms is not None and connection == "open":
        return f"It was back {span(current.returned_ms)} after its last request: " + outlast_pause(
            current, current.returned_ms
        )
    if current.returned_ms is not None:
        return (
            f"It was back {span(current.returned_ms)} after its last request: "
            f"{keep_place(current, current.returned_ms)}, and it keeps its place "
            "meanwhile."
        )
    interval = number(evidence, "heartbeat_interval_ms")
    if interval is not None and interval > session // 2:
        return (
            f"Its heartbeats came every {span(interval)}, too seldom for a session of "
            f"{span(session)}: set {setting('heartbeat.interval.ms', _third(session))}."
        )
    if connection != "open":
        host = ((current.cause or {}).get("who") or {}).get("host")
        at_ms = current.started_at_ms and current.started_at_ms - silent
        where = f"look for a crash or a kill{' on ' + host.lstrip('/') if host else ''}"
        when = f"soon after {time_text(at_ms)}"
        if connection is None:
            when = f"before {time_text(at_ms)}, when the coordinator was loaded"
        if ((current.cause or {}).get("who") or {}).get("instance"):
            return _static_gone(session, f"{where} {when}")
        return (
            f"{where[0].upper()}{where[1:]} {when}. With a group.instance.id a restart within "
            f"{setting('session.timeout.ms', session)} needs no rebalance."
        )
    wanted = session_above(max(silent, session))
    return (
        f"Set {setting('session.timeout.ms', wanted)} and "
        f"{setting('heartbeat.interval.ms', _third(wanted))} at most, or find what paused the "
        "process or cut its network."
    )


def _static_gone(session_ms: int, search: str) -> str:
    """Closing a static member sends no LeaveGroup (KIP-345): it looks as if it had been killed."""
    return (
        "Nothing is wrong if it was stopped: a member with a group.instance.id does not leave when "
        f"it is closed, its session ends after {setting('session.timeout.ms', session_ms)}; "
        f"`groupkeeper groups remove-members` removes it at once. If it was not stopped, {search}."
    )


def session_above(ms: int) -> int:
    """A session timeout with room above a measured time, which the coordinator accepts."""
    return min(MAX_SESSION_MS, above(ms))


def _third(session_ms: int) -> int:
    """A heartbeat interval for a session: a third, in whole tenths of a second."""
    return session_ms // 300 * 100 or max(1, session_ms // 3)
