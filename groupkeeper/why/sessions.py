"""Advice about session timeouts, for members that went silent or returned."""

from typing import Final

from groupkeeper.history.fields import Part, number
from groupkeeper.history.returns import is_same
from groupkeeper.history.rounds import Round
from groupkeeper.why.texts import above, setting, span, time_text

SESSION_TIMEOUT_MS: Final = 45_000
"""Default `session.timeout.ms` of Kafka's Java consumer and most other clients."""
LONGEST_SESSION_MS: Final = 1_800_000
"""Longest session timeout to suggest, whatever the coordinator accepts."""
STALL_MS: Final = 5_000
"""Delay of a session's expiry from which the coordinator, not the member, is blamed."""


def keep_place(current: Round, away_ms: int) -> str:
    """Suggest settings to keep a member's place for `away_ms`, never a shorter session timeout."""
    who = (current.cause or {}).get("who") or {}
    now_ms = current.session_timeout_ms or current.limits.min_ms
    first = "" if who.get("instance") else "give each member a group.instance.id, and "
    wanted = session_above(away_ms)
    if current.session_timeout_ms and now_ms >= wanted:
        return f"{first}keep {setting('session.timeout.ms', now_ms)}"
    return f"{first}set {session_setting(current, max(now_ms, wanted))}"


def outlast_pause(current: Round, away_ms: int) -> str:
    """Suggest settings for a member that was paused or disconnected for `away_ms`."""
    wanted = max(current.session_timeout_ms or current.limits.min_ms, session_above(away_ms))
    return (
        f"set {session_setting(current, wanted)}, or find what paused the process or cut its "
        "network."
    )


def stalled_ms(evidence: Part) -> int | None:
    """Return the delay with which the coordinator expired a session; None below `STALL_MS`."""
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
        f"Set {session_setting(current, wanted)} and "
        f"{setting('heartbeat.interval.ms', _third(wanted))} at most, or find what paused the "
        "process or cut its network."
    )


def outlasted_ms(current: Round) -> int | None:
    """Return the longest session timeout, below the coordinator's outage, of members that did not
    return after it. If the outage is not known exactly, their clients must have joined again.
    """
    outage = current.outage
    if outage is None or not (outage.is_exact or came_anew(current)):
        return None
    sessions = [number(_evidence(each), "session_timeout_ms") for each in unheard(current)]
    return max((each for each in sessions if each is not None and each < outage.ms), default=None)


def came_anew(current: Round) -> bool:
    """Whether the client of a member that did not return after the load joined in this round."""
    return any(
        is_same(gone["who"], come["who"]) for gone in unheard(current) for come in current.added
    )


def unheard(current: Round) -> list[Part]:
    """Return the removed members that had sent nothing since the coordinator was loaded."""
    return [each for each in current.removed if _evidence(each).get("connection", "") is None]


def _evidence(removed: Part) -> Part:
    found: Part = removed.get("cause", {}).get("evidence", {})
    return found


def after_outage(current: Round) -> str:
    """Advise after an outage longer than sessions, in which clients gave up their memberships."""
    outage, session_ms = current.outage, outlasted_ms(current)
    assert outage is not None and session_ms is not None
    longer = session_setting(current, max(session_ms, session_above(outage.ms)))
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
    return f"{why}. Set {longer}, or start the coordinator within {session}."


def _static_gone(session_ms: int, search: str) -> str:
    """Advise about a static member, which sends no LeaveGroup when closed (KIP-345)."""
    return (
        "Nothing is wrong if it was stopped: a member with a group.instance.id does not leave when "
        f"it is closed, its session ends after {setting('session.timeout.ms', session_ms)}; "
        f"`groupkeeper groups remove-members` removes it at once. If it was not stopped, {search}."
    )


def session_above(ms: int) -> int:
    """Return a session timeout with a margin above a measured time."""
    return min(LONGEST_SESSION_MS, above(ms))


def session_setting(current: Round, wanted_ms: int) -> str:
    """Return `session.timeout.ms=...`, after the coordinator's limit if that must change first."""
    text, limits = setting("session.timeout.ms", wanted_ms), current.limits
    if limits.min_ms <= wanted_ms <= limits.max_ms:
        return text
    which, now_ms = ("max", limits.max_ms) if wanted_ms > limits.max_ms else ("min", limits.min_ms)
    first = setting(f"group.{which}.session.timeout.ms", wanted_ms)
    return f"{first} of the coordinator, which has {now_ms}, and then {text}"


def usual_session(current: Round) -> str:
    """Return the default `session.timeout.ms`, or the nearest value within the limits."""
    limits = current.limits
    accepted = min(max(SESSION_TIMEOUT_MS, limits.min_ms), limits.max_ms)
    return setting("session.timeout.ms", accepted)


def shorter_session(current: Round, limit_ms: int) -> str:
    """Return `session.timeout.ms` at half of a time, or the coordinator's minimum."""
    least = current.limits.min_ms
    return session_setting(current, max(limit_ms // 2, min(least, limit_ms - 1), 1))


def _third(session_ms: int) -> int:
    """Return a third of a session timeout, in whole tenths of a second, as heartbeat interval."""
    return session_ms // 300 * 100 or max(1, session_ms // 3)
