"""A rebalance, one row: the table `rounds`."""

from typing import Final

from groupkeeper.analytics.history.event_rows import member_columns, text
from groupkeeper.analytics.history.rows import Row
from groupkeeper.analytics.history.schemas import EVENTS
from groupkeeper.why.fields import Part, number
from groupkeeper.why.rounds import UNDER_WAY, Round

EAGER: Final = frozenset({"range", "roundrobin", "sticky"})
"""Assignors whose members give all partitions up before they rejoin, in all known clients."""
COOPERATIVE: Final = "cooperative"
"""Part of the name of assignors whose members keep their partitions meanwhile (KIP-429)."""


def is_cooperative(current: Round) -> bool | None:
    """Whether members kept partitions while they rejoined; None if nothing says it."""
    causes = (current.cause or {}, *current.more_causes)
    if COOPERATIVE in (current.protocol or ""):
        return True
    if any("revoked" in (cause.get("evidence") or {}) for cause in causes):
        return True
    return False if current.protocol in EAGER else None


def round_row(partition: int, offset: int, current: Round, unowned_ms: int | None) -> Row:
    """Of the table `rounds`. `offset`: of the last event of it."""
    cause = current.cause or {}
    by = member_columns(cause.get("who"))
    last = member_columns((current.last or {}).get("who"))
    joined = None if current.arrived is None else len(current.joined) == current.arrived
    return {
        "group": current.group,
        "partition": partition,
        "offset": offset,
        "epoch": current.epoch,
        "round": current.round,
        "generation": current.generation,
        "started": current.started_at_ms,
        "ended": None if current.outcome == UNDER_WAY else current.ended_at_ms,
        "outcome": current.outcome,
        "cause": cause.get("code") or "unknown",
        "likely": cause.get("likely"),
        "reason": cause.get("reason"),
        "more_causes": list(
            dict.fromkeys(each["code"] for each in current.more_causes if each.get("code"))
        ),
        **{f"by_{name}": value for name, value in by.items()},
        "from_state": current.from_state,
        "protocol": current.protocol,
        "is_cooperative": is_cooperative(current),
        "members": current.arrived,
        "joined": len(current.added),
        "removed": len(current.removed),
        "replaced": len(current.replaced),
        "missing": [each["member"] for each in current.missing],
        "ended_by": current.ended_by,
        "join_ms": current.join_ms,
        "leader_ms": current.leader_ms,
        "duration_ms": current.duration_ms,
        "last_member": text((current.last or {}).get("member")),
        "last_instance": text((current.last or {}).get("instance")),
        "last_client_id": last["client_id"],
        "last_host": last["host"],
        "held_ms": _held_ms(current.joined) if joined else None,
        "partitions": current.partitions,
        "moved": current.moved,
        "unowned_ms": unowned_ms,
        "away_ms": current.away_ms,
        "source": EVENTS,
        "confidence": 1.0,
    }


def _held_ms(joined: list[Part]) -> int | None:
    """How much later the last one joined than the one before it."""
    if len(joined) < 2:
        return None
    before, last = (number(each, "after_ms") for each in joined[-2:])
    return None if before is None or last is None or last < before else last - before
