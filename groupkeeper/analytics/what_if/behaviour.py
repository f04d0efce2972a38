"""How the clients of a group usually behave, measured on its recorded rounds: how fast they come
back to a rebalance, how long the leader takes, who was slow when.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from groupkeeper.analytics.what_if.lives import Life, Row, client_name

HEARTBEAT_MS: Final = 3_000
"""`heartbeat.interval.ms` of Kafka's Java consumer."""
SLOW_MS: Final = 1_000
"""Who joins so much later than all others was busy."""
_OUTSIDE: Final = {
    "subscription_changed": "the client changed its subscription",
    "leader_rejoined": "the leader saw partitions come or go",
}
"""Causes that no setting changes."""


@dataclass(frozen=True, slots=True)
class Behaviour:
    """Durations in milliseconds. `busy`: client -> times in which it did not come back to poll.
    `changes`: times at which a client asked for a rebalance, whatever the settings were.
    """

    heartbeat_ms: int = HEARTBEAT_MS
    rejoin_ms: int = 0
    leader_ms: int = 5
    partitions: int = 1
    is_cooperative: bool = False
    busy: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    changes: tuple[tuple[int, str], ...] = ()

    def free_at(self, client: str, now: int) -> int:
        """When the client comes back to poll."""
        spans = self.busy.get(client, [])
        index = bisect_right(spans, (now, 2**63)) - 1
        return max(now, spans[index][1]) if index >= 0 else now


def behaviour_of(rounds: Iterable[Row], lives: Iterable[Life]) -> Behaviour:
    """Of one group, from its rows in table `rounds`."""
    rows = [row for row in rounds if row["started"] is not None]
    quick = [
        row["join_ms"]
        for row in rows
        if row["join_ms"] is not None
        and row["ended_by"] == "all_joined"
        and row["from_state"] == "Stable"
        and (row["held_ms"] or 0) < SLOW_MS
    ]
    leaders = [row["leader_ms"] for row in rows if row["leader_ms"] is not None]
    partitions = [row["partitions"] for row in rows if row["partitions"]]
    cooperative = [row["is_cooperative"] for row in rows if row["is_cooperative"] is not None]
    by_member = {life.client: life for life in lives}
    return Behaviour(
        rejoin_ms=max(0, int(median(quick)) - HEARTBEAT_MS) if quick else 0,
        leader_ms=int(median(leaders)) if leaders else 5,
        partitions=max(partitions, default=1),
        is_cooperative=bool(cooperative and cooperative[-1]),
        busy=_busy(rows, by_member),
        changes=tuple(
            (row["started"], name)
            for row in rows
            if row["cause"] in _OUTSIDE and (name := _client(row, "by", by_member))
        ),
    )


def _busy(rows: Iterable[Row], known: dict[str, Life]) -> dict[str, list[tuple[int, int]]]:
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for row in rows:
        name = _client(row, "last", known)
        if name and (row["held_ms"] or 0) >= SLOW_MS and row["join_ms"]:
            found[name].append((row["started"], row["started"] + row["join_ms"]))
    return dict(found)


def _client(row: Row, which: str, known: dict[str, Life]) -> str | None:
    """The client of `by_*` or `last_*`; of several that look alike, the first."""
    name = client_name(*(row[f"{which}_{part}"] for part in ("instance", "client_id", "host")))
    return name if name in known else None
