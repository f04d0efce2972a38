"""Reconstructs the lives of a group's clients from the sessions of its members: when each process
started, paused and ended. These do not depend on settings; the coordinator's reactions do.

A client is an instance id or, without one, a client id and host; several alike at the same time are
several clients. A session that ended with the connection still open, and whose client came back,
was a pause of a living process. Every other new session is a new process.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

# Any: a row of a table, as pyarrow gives it.
HistoryRow = Mapping[str, Any]

SESSION_TIMEOUT_MS: Final = 45_000
REBALANCE_TIMEOUT_MS: Final = 300_000
"""Defaults of Kafka's Java consumer, used where the log has no value."""
_LEFT: Final = "member_left"

_TIMED_OUT: Final = (
    *("session_expired", "join_timeout", "sync_timeout", "pending_member_expired", "seat_expired"),
)


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
    is_cut_off: bool = False
    """Its host vanishes at the end: the coordinator is not told that the connection is gone."""
    silent_ms: int = 0
    """How long nothing had come from it when it ended without a LeaveGroup, or paused: a log tells
    the last heartbeat, and what happens to a process happens somewhere between two of them."""
    beat_offset_ms: int = 0
    """When it sends heartbeats: so long after its start, and at each interval from then on."""


def lives_of(
    sessions: Iterable[HistoryRow],
    begin_ms: int,
    end_ms: int,
    members: Iterable[HistoryRow] = (),
    rounds: Sequence[tuple[int, int]] = (),
    heartbeat_ms: int = 0,
) -> list[Life]:
    """Return the lives of one group's clients, by start. `sessions` and `members` are its rows in
    these tables, the latter for timeouts; `rounds` are (start, end) of its rebalances. Processes
    end, and pause, half of `heartbeat_ms` after their last request.

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
            life.silent_ms = heartbeat_ms // 2
            found.append(life)
            if before is not None:
                _end_before(before, row, start_ms, slot.has_left)
        slot.take(life, row)
        _add_longest(life, row, _ms(row["until"], end_ms), rounds)
    return found


def _end_before(life: Life, row: HistoryRow, start_ms: int, has_left: bool) -> None:
    """End the life before that of a session: at its start at the latest."""
    if row["old_member"] and row["away_ms"] is not None and not has_left:
        life.end_ms = start_ms - row["away_ms"] + life.silent_ms
        life.leaves = life.is_removed = False
    if life.end_ms is not None:
        life.end_ms = min(life.end_ms, start_ms)


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
    has_left: bool = False
    """Its place was kept although it had left."""

    def take(self, life: Life, row: HistoryRow) -> None:
        until_ms = _ms(row["until"], None)
        self.life, self.member, self.free_ms, self.paused = life, row["member"], None, False
        self.has_left = row.get("lost_by") == _LEFT
        life.end_ms, life.leaves, life.is_removed, life.is_cut_off = until_ms, False, False, False
        if until_ms is None:
            return
        self.free_ms = until_ms
        if row["ended_by"] in _TIMED_OUT:
            self.free_ms = max(life.start_ms, until_ms - (row["silent_ms"] or 0))
            life.end_ms = min(until_ms, self.free_ms + life.silent_ms)
            self.paused = life.is_cut_off = row["connection"] == "open"
        elif self.has_left:
            self.free_ms = life.end_ms = until_ms - (row["silent_ms"] or 0)
            life.leaves = True
        else:
            life.is_removed = row["ended_by"] == "member_removed_by_admin"
            life.leaves = not life.is_removed and row["ended_by"] != "replaced"


def _add_longest(
    life: Life, row: HistoryRow, until_ms: int, rounds: Sequence[tuple[int, int]]
) -> None:
    """Add the longest silence within a session as a pause. Its time is not stored: it is placed in
    the middle of the longest quiet time, because the coordinator restarts the count when it answers
    a join.

    A gap as long as the session timeout is ignored: commits kept the session alive, or there was no
    coordinator. Even a shortened gap would expire in a shorter session. Of less than two intervals
    it is none: no heartbeat is missing.
    """
    gap_ms = row["longest_gap_ms"]
    if gap_ms and 4 * life.silent_ms <= gap_ms < life.session_timeout_ms:
        low, high = _longest_quiet(_ms(row["from"], life.start_ms), until_ms, rounds)
        begin_ms = max(life.start_ms, (low + high - gap_ms) // 2)
        if begin_ms + gap_ms <= until_ms:
            life.pauses.append((begin_ms + life.silent_ms, begin_ms + gap_ms))


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
