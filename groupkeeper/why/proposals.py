"""Makes the changes of settings that might have avoided a round, with their cost for the gate.

Each function knows one remedy, and estimates the cost of the same incident under it. What the
functions return is no advice yet: `gate` decides.
"""

from typing import Final

from groupkeeper.history.fields import number
from groupkeeper.history.returns import is_same
from groupkeeper.history.rounds import Round
from groupkeeper.history.unread import keeps_partitions
from groupkeeper.why.client_settings import (
    COOPERATIVE,
    GRACE,
    HEARTBEAT,
    INSTANCE,
    POLL_INTERVAL,
    POLL_RECORDS,
    RESERVE_ON,
    SESSION,
    STRATEGY,
)
from groupkeeper.why.gate import MAX_POLL_RECORDS, Cost, SettingChange
from groupkeeper.why.sessions import session_above, unheard
from groupkeeper.why.texts import above

PROMPT_MS: Final = 5_000
"""Time within which a polling member rejoins after its heartbeat reports the rebalance."""
LEAST_GRACE_MS: Final = 10_000
MOST_GRACE_MS: Final = 1_800_000
"""Bounds of a grace that is proposed; the coordinator has the upper one, too."""
EACH: Final = "one for each member"
REBALANCES: Final = 2
"""Rebalances of incremental members for one change: the first takes, the second gives."""


def keep_place(current: Round, away_ms: int, *, is_static: bool) -> SettingChange:
    """Propose an instance id, and a session that outlasts an absence; never a shorter session."""
    session_ms = _longer(current, away_ms)
    settings: tuple[tuple[str, int | str], ...] = () if is_static else ((INSTANCE, EACH),)
    if session_ms != current.session_timeout_ms:
        settings += ((SESSION, session_ms),)
    return SettingChange(settings, absence_cost(current, session_ms))


def reserve_place(current: Round, away_ms: int) -> SettingChange:
    """Propose that the coordinator keeps the partitions of lost members for an absence like this
    one. Members that leave are kept only if the lost one left.
    """
    codes = [(each.get("cause") or {}).get("code") for each in current.removed]
    has_left = "member_left" in codes if codes else current.away_connection is None
    session_ms = 0 if has_left else current.session_timeout_ms or 0
    grace_ms = min(above(max(away_ms - session_ms, LEAST_GRACE_MS), 1.5), MOST_GRACE_MS)
    settings: tuple[tuple[str, int | str], ...] = ((GRACE, grace_ms),)
    if has_left:
        settings += ((RESERVE_ON, "lost,left"),)
    return SettingChange(settings, absence_cost(current, session_ms + grace_ms))


def outlast_pause(current: Round, away_ms: int) -> SettingChange:
    """Propose a session that outlasts the pause of a process that stayed connected."""
    session_ms = _longer(current, away_ms)
    return SettingChange(((SESSION, session_ms),), absence_cost(current, session_ms))


def _longer(current: Round, away_ms: int) -> int:
    return max(current.session_timeout_ms or current.limits.min_ms, session_above(away_ms))


def absence_cost(current: Round, session_ms: int) -> Cost | None:
    """Compare the rounds of a loss and a return with partitions that wait for the members: of those
    that did not come back, until their session ends.
    """
    found = current.incident
    if found is None or found.now_ms is None or found.absent_ms is None or found.gone is None:
        return None
    return Cost(found.now_ms, found.absent_ms + found.gone * session_ms)


def outlast_outage(current: Round, session_ms: int) -> SettingChange:
    """Propose a session that outlasts an outage of the coordinator: members that were not restarted
    go on reading, those that ended keep their partitions.
    """
    ended: list[int | None] = [
        each.get("partitions")
        for each in unheard(current)
        if not any(is_same(each["who"], come["who"]) for come in current.added)
    ]
    known = [each for each in ended if each is not None]
    if current.unread_ms is None or len(known) < len(ended):
        return SettingChange(((SESSION, session_ms),))
    return SettingChange(((SESSION, session_ms),), Cost(current.unread_ms, sum(known) * session_ms))


def longer_poll(current: Round, longest_ms: int) -> SettingChange:
    """Propose a poll interval that outlasts a batch: the member keeps its partitions meanwhile."""
    wanted = above(longest_ms, 1.5)
    return SettingChange(((POLL_INTERVAL, wanted),), absence_cost(current, wanted))


def longer_wait(current: Round, longest_ms: int) -> SettingChange:
    """Propose a poll interval, which is the rebalance timeout, that outlasts the batch for which a
    join phase waited: members that do not keep their partitions wait as long.
    """
    settings = ((POLL_INTERVAL, above(longest_ms, 1.5)),)
    back_ms, incident = current.returned_ms, current.incident
    if back_ms is None or incident is None or incident.now_ms is None or not current.partitions:
        return SettingChange(settings)
    held = sum(each.get("partitions") or 0 for each in current.removed)
    waiting = held if keeps_partitions(current) else current.partitions
    return SettingChange(settings, Cost(incident.now_ms, waiting * back_ms))


def smaller_batches(after_ms: int | None = None) -> SettingChange:
    """Propose fewer records for each poll: half the default, or as many as take `PROMPT_MS`."""
    records = MAX_POLL_RECORDS // 2
    if after_ms is not None:
        records = max(1, MAX_POLL_RECORDS * PROMPT_MS // after_ms)
    return SettingChange(((POLL_RECORDS, records),))


def sooner_end(current: Round, allowed_ms: int) -> SettingChange:
    """Propose a session of half the time that the others waited for a member that was gone."""
    least = current.limits.min_ms
    session_ms = max(allowed_ms // 2, min(least, allowed_ms - 1), 1)
    settings = ((SESSION, session_ms), (HEARTBEAT, third(session_ms)))
    evidence = (current.cause or {}).get("evidence") or {}
    waited = number(evidence, "waited_ms")
    if current.unread_ms is None or not current.partitions or waited is None:
        return SettingChange(settings)
    held = sum(each.get("partitions") or 0 for each in current.removed)
    waiting = held if keeps_partitions(current) else current.partitions
    saved = waiting * max(0, waited - session_ms)
    return SettingChange(settings, Cost(current.unread_ms, max(0, current.unread_ms - saved)))


def more_heartbeats(session_ms: int) -> SettingChange:
    """Propose a third of the session as heartbeat interval."""
    return SettingChange(((HEARTBEAT, third(session_ms)),))


def incremental(current: Round) -> SettingChange:
    """Propose the assignor with which only partitions that move stand still, in two rebalances."""
    settings = ((STRATEGY, COOPERATIVE),)
    if current.unread_ms is None or current.moved is None or current.duration_ms is None:
        return SettingChange(settings)
    then_ms = current.moved * REBALANCES * current.duration_ms
    return SettingChange(settings, Cost(current.unread_ms, then_ms))


def third(session_ms: int) -> int:
    """Return a third of a session timeout, in whole tenths of a second, as heartbeat interval."""
    return session_ms // 300 * 100 or max(1, session_ms // 3)
