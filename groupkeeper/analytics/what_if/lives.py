"""What the clients of a group did, from the sessions of its members: who started, paused and ended
when. That does not depend on settings; what the coordinator made of it does.

A client is an instance id, or else a client id and host; of several at a time that look alike, each
is one. A session that ended with the connection still open, and whose client came back, was a
pause: its process lived on. Every other new session is a new process.

How the clients of a group usually behave is measured on its recorded rounds: how fast they come
back to a rebalance, how long the leader takes, who was slow when.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final

# Any: a row of a table, as pyarrow gives it.
HistoryRow = Mapping[str, Any]

SESSION_TIMEOUT_MS: Final = 45_000
REBALANCE_TIMEOUT_MS: Final = 300_000
"""Defaults of Kafka's Java consumer, where the log does not tell."""

_TIMED_OUT: Final = ("session_expired", "join_timeout", "sync_timeout", "pending_member_expired")


@dataclass(slots=True)
class Life:
    """One process of a client, from its first to its last request; times are Unix milliseconds."""

    client: str
    instance: str | None
    client_id: str
    host: str
    start_ms: int
    end_ms: int | None = None
    """None: it was still there at the end."""
    leaves: bool = False
    """It says that it leaves; a static member would not."""
    is_removed: bool = False
    """Somebody else removes it."""
    session_timeout_ms: int = SESSION_TIMEOUT_MS
    rebalance_timeout_ms: int = REBALANCE_TIMEOUT_MS
    pauses: list[tuple[int, int]] = field(default_factory=list)
    """From when to when no request came, before the same process went on."""


def lives_of(
    sessions: Iterable[HistoryRow],
    begin_ms: int,
    end_ms: int,
    members: Iterable[HistoryRow] = (),
    rounds: Sequence[tuple[int, int]] = (),
) -> list[Life]:
    """The lives behind the rows of one group in table `sessions`, by their start; `members` are its
    rows in that table, which tell timeouts; `rounds` is when each rebalance began and ended.

    A session whose beginning was not read began at `begin_ms`; one that is open was heard of at
    `end_ms`.
    """
    timeouts = {
        row["member"]: (row["session_timeout_ms"], row["rebalance_timeout_ms"]) for row in members
    }
    rows = sorted(
        filter(_is_timed, sessions), key=lambda row: (_ms(row["from"], begin_ms), row["member"])
    )
    slots: dict[tuple[str, ...], list[_Slot]] = defaultdict(list)
    found: list[Life] = []
    for row in rows:
        start_ms = _ms(row["from"], begin_ms)
        slot = _slot_for(slots[_key(row)], row, start_ms)
        before = slot.life
        if before is not None and slot.paused and before.end_ms is not None:
            before.pauses.append((before.end_ms, start_ms))
            life = before
        else:
            life = _begun(row, start_ms, slot.number, timeouts.get(row["member"], (None, None)))
            found.append(life)
            if before is not None and row["old_member"] and row["away_ms"] is not None:
                before.end_ms = start_ms - row["away_ms"]
                before.leaves = before.is_removed = False
        slot.take(life, row)
        _add_longest(life, row, _ms(row["until"], end_ms), rounds)
    return found


def _is_timed(session: HistoryRow) -> bool:
    """Whether a session goes on, or it is known when it ended."""
    return session["until"] is not None or session["ended_by"] is None


@dataclass(slots=True)
class _Slot:
    """One of the clients that look alike."""

    number: int
    life: Life | None = None
    member: str = ""
    free_ms: int | None = 0
    """When its client was last heard of; None while it lasts."""
    paused: bool = False

    def take(self, life: Life, row: HistoryRow) -> None:
        until_ms = _ms(row["until"], None)
        self.life, self.member, self.free_ms, self.paused = life, row["member"], None, False
        life.end_ms, life.leaves, life.is_removed = until_ms, False, False
        if until_ms is None:
            return
        if row["ended_by"] in _TIMED_OUT:
            life.end_ms = max(life.start_ms, until_ms - (row["silent_ms"] or 0))
            self.paused = row["connection"] == "open"
        else:
            life.is_removed = row["ended_by"] == "member_removed_by_admin"
            life.leaves = not life.is_removed and row["ended_by"] != "replaced"
        self.free_ms = life.end_ms


def _add_longest(
    life: Life, row: HistoryRow, until_ms: int, rounds: Sequence[tuple[int, int]]
) -> None:
    """The longest silence of a session that outlived it. When it was is not stored: half-way in the
    longest time without a rebalance, because the coordinator counts anew when it answers a join.

    A gap as long as the session timeout says nothing about the client: its commits kept the
    session, or no coordinator was there. Cut to less it would still expire in a shorter session.
    """
    gap_ms = row["longest_gap_ms"]
    if gap_ms and gap_ms < life.session_timeout_ms:
        low, high = _longest_quiet(_ms(row["from"], life.start_ms), until_ms, rounds)
        begin_ms = max(life.start_ms, (low + high - gap_ms) // 2)
        if begin_ms + gap_ms <= until_ms:
            life.pauses.append((begin_ms, begin_ms + gap_ms))


def _longest_quiet(
    from_ms: int, until_ms: int, rounds: Sequence[tuple[int, int]]
) -> tuple[int, int]:
    """The longest part of a time without a rebalance; `rounds` are in order."""
    low, longest = from_ms, (from_ms, from_ms)
    first = max(0, bisect_right(rounds, (from_ms, from_ms)) - 1)
    last = bisect_right(rounds, (until_ms, until_ms))
    for began_ms, ended_ms in (*rounds[first:last], (until_ms, until_ms)):
        longest = max(longest, (low, began_ms), key=lambda ends: ends[1] - ends[0])
        low = max(low, ended_ms)
    return longest


def _key(row: HistoryRow) -> tuple[str, ...]:
    if row["instance"]:
        return (row["instance"],)
    return row["client_id"] or "", row["host"] or ""


def _slot_for(slots: list[_Slot], row: HistoryRow, start_ms: int) -> _Slot:
    """That of the member it replaced, or of the one that was free last."""
    for slot in slots:
        if row["old_member"] and slot.member == row["old_member"]:
            return slot
    free = [each for each in slots if each.free_ms is not None and each.free_ms <= start_ms]
    if free:
        return max(free, key=lambda each: each.free_ms or 0)
    slots.append(_Slot(len(slots)))
    return slots[-1]


def client_name(
    instance: str | None, client_id: str | None, host: str | None, number: int = 0
) -> str:
    """`number` tells clients apart that look alike."""
    return instance or f"{client_id or ''}{host or ''}#{number}"


def _begun(
    row: HistoryRow, start_ms: int, number: int, told: tuple[int | None, int | None]
) -> Life:
    return Life(
        client=client_name(row["instance"], row["client_id"], row["host"], number),
        instance=row["instance"],
        client_id=row["client_id"] or "",
        host=row["host"] or "",
        start_ms=start_ms,
        session_timeout_ms=row["session_timeout_ms"] or told[0] or SESSION_TIMEOUT_MS,
        rebalance_timeout_ms=row["rebalance_timeout_ms"] or told[1] or REBALANCE_TIMEOUT_MS,
    )


def _ms(value: Any, missing: int | None) -> Any:
    return missing if value is None else value


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


def behaviour_of(rounds: Iterable[HistoryRow], lives: Iterable[Life]) -> Behaviour:
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


def _busy(rows: Iterable[HistoryRow], known: dict[str, Life]) -> dict[str, list[tuple[int, int]]]:
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for row in rows:
        name = _client(row, "last", known)
        if name and (row["held_ms"] or 0) >= SLOW_MS and row["join_ms"]:
            found[name].append((row["started"], row["started"] + row["join_ms"]))
    return dict(found)


def _client(row: HistoryRow, which: str, known: dict[str, Life]) -> str | None:
    """The client of `by_*` or `last_*`; of several that look alike, the first."""
    name = client_name(*(row[f"{which}_{part}"] for part in ("instance", "client_id", "host")))
    return name if name in known else None
