"""Finds out about members that went silent or returned: how late, and after which outages."""

from typing import Final

from groupkeeper.history.fields import Part, number
from groupkeeper.history.returns import is_same
from groupkeeper.history.rounds import Round
from groupkeeper.why.texts import above

SESSION_TIMEOUT_MS: Final = 45_000
"""Default `session.timeout.ms` of Kafka's Java consumer and most other clients."""
LONGEST_SESSION_MS: Final = 1_800_000
"""Longest session timeout to suggest, whatever the coordinator accepts."""
STALL_MS: Final = 5_000
"""Delay of a session's expiry from which the coordinator, not the member, is blamed."""


def stalled_ms(evidence: Part) -> int | None:
    """Return the delay with which the coordinator expired a session; None below `STALL_MS`."""
    session, silent = number(evidence, "session_timeout_ms"), number(evidence, "silent_ms")
    if session is None or silent is None or evidence.get("connection", "") is None:
        return None
    return silent - session if silent - session >= STALL_MS else None


def late_expiries(current: Round) -> list[int]:
    """Return the delays with which the coordinator expired sessions in a round, above `STALL_MS`:
    then clients that join as new members have given up on it.
    """
    delays = (stalled_ms(_evidence(each)) for each in current.removed)
    return [each for each in delays if each is not None]


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


def session_above(ms: int) -> int:
    """Return a session timeout with a margin above a measured time."""
    return min(LONGEST_SESSION_MS, above(ms))
