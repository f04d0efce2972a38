"""Reconstructs the lives of a group's clients from the sessions of its members: when each process
started, paused and ended. These do not depend on settings; the coordinator's reactions do.

A client is an instance id or, without one, a client id and host; several alike at the same time are
several clients. A session that ended with the connection still open, and whose client came back,
was a pause of a living process. Every other new session is a new process.

The usual behaviour of the clients is measured on the recorded rounds: how fast they rejoin, how
long the leader takes, and who was slow when.
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
"""Defaults of Kafka's Java consumer, used where the log has no value."""

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
    """None: it lasted until the end of the log."""
    leaves: bool = False
    """The process ends with a LeaveGroup, unless it is a static member."""
    is_removed: bool = False
    """An administrator removes it."""
    session_timeout_ms: int = SESSION_TIMEOUT_MS
    rebalance_timeout_ms: int = REBALANCE_TIMEOUT_MS
    pauses: list[tuple[int, int]] = field(default_factory=list)
    """(from, until) of times without requests, after which the same process continued."""


def lives_of(
    sessions: Iterable[HistoryRow],
    begin_ms: int,
    end_ms: int,
    members: Iterable[HistoryRow] = (),
    rounds: Sequence[tuple[int, int]] = (),
) -> list[Life]:
    """Return the lives of one group's clients, by start. `sessions` and `members` are its rows in
    these tables, the latter for timeouts; `rounds` are (start, end) of its rebalances.

    A session without a known beginning starts at `begin_ms`; an open one lasts until `end_ms`.
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
    """Return whether a session is open or has a known end."""
    return session["until"] is not None or session["ended_by"] is None


@dataclass(slots=True)
class _Slot:
    """One of several clients that look alike."""

    number: int
    life: Life | None = None
    member: str = ""
    free_ms: int | None = 0
    """When the client was last heard of; None while it is alive."""
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
    """Add the longest silence within a session as a pause. Its time is not stored: it is placed in
    the middle of the longest quiet time, because the coordinator restarts the count when it answers
    a join.

    A gap as long as the session timeout is ignored: commits kept the session alive, or there was no
    coordinator. Even a shortened gap would expire in a shorter session.
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
    """Return the longest part of a time without a rebalance; `rounds` are in order."""
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
    """Return the slot of the replaced member, or the one that became free last."""
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
    """Return the name of a client; `number` distinguishes clients that look alike."""
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
INITIAL_DELAY_MS: Final = 3_000
"""`group.initial.rebalance.delay.ms` of a coordinator with Kafka's defaults."""
SLOW_MS: Final = 1_000
"""A client that joins this much later than all others was busy."""
_OUTSIDE: Final = {
    "subscription_changed": "the client changed its subscription",
    "leader_rejoined": "the leader saw partitions come or go",
}
"""Causes that do not depend on settings."""


@dataclass(frozen=True, slots=True)
class Behaviour:
    """Durations in milliseconds. `busy`: client -> times in which it did not poll. `changes`: times
    at which a client requested a rebalance, under any settings.
    """

    heartbeat_ms: int = HEARTBEAT_MS
    rejoin_ms: int = 0
    leader_ms: int = 5
    partitions: int = 1
    initial_delay_ms: int = INITIAL_DELAY_MS
    is_cooperative: bool = False
    busy: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    changes: tuple[tuple[int, str], ...] = ()

    def free_at(self, client: str, now: int) -> int:
        """Return when the client polls again."""
        spans = self.busy.get(client, [])
        index = bisect_right(spans, (now, 2**63)) - 1
        return max(now, spans[index][1]) if index >= 0 else now


def behaviour_of(rounds: Iterable[HistoryRow], lives: Iterable[Life]) -> Behaviour:
    """Measure the behaviour of one group's clients, from its rows in table `rounds`."""
    rows = [row for row in rounds if row["started"] is not None]
    quick = [
        row["join_ms"]
        for row in rows
        if row["join_ms"] is not None
        and row["ended_by"] == "all_joined"
        and row["from_state"] == "Stable"
        and row["members"] != 1  # it has nobody to wait for
        and (row["held_ms"] or 0) < SLOW_MS
    ]
    first = [
        row["join_ms"]
        for row in rows
        if row["join_ms"] is not None and row["from_state"] == "Empty"
    ]
    leaders = [row["leader_ms"] for row in rows if row["leader_ms"] is not None]
    partitions = [row["partitions"] for row in rows if row["partitions"]]
    cooperative = [row["is_cooperative"] for row in rows if row["is_cooperative"] is not None]
    by_member = {life.client: life for life in lives}
    # The last of several members rejoins about one heartbeat interval after the start.
    usual_ms = int(median(quick)) if quick else HEARTBEAT_MS
    return Behaviour(
        heartbeat_ms=max(1, min(HEARTBEAT_MS, usual_ms)),
        rejoin_ms=max(0, usual_ms - HEARTBEAT_MS),
        leader_ms=int(median(leaders)) if leaders else 5,
        partitions=max(partitions, default=1),
        initial_delay_ms=min([INITIAL_DELAY_MS, *first]),
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
    """Return the client in the columns `by_*` or `last_*`; the first of several that look alike."""
    name = client_name(*(row[f"{which}_{part}"] for part in ("instance", "client_id", "host")))
    return name if name in known else None
