"""What the clients of a group did, from the sessions of its members: who started, paused and ended
when. That does not depend on settings; what the coordinator made of it does.

A client is an instance id, or else a client id and host; of several at a time that look alike, each
is one. A session that ended with the connection still open, and whose client came back, was a
pause: its process lived on. Every other new session is a new process.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

# Any: a row of a table, as pyarrow gives it.
Row = Mapping[str, Any]

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
    sessions: Iterable[Row],
    begin_ms: int,
    end_ms: int,
    members: Iterable[Row] = (),
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


def _is_timed(session: Row) -> bool:
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

    def take(self, life: Life, row: Row) -> None:
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


def _add_longest(life: Life, row: Row, until_ms: int, rounds: Sequence[tuple[int, int]]) -> None:
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


def _key(row: Row) -> tuple[str, ...]:
    if row["instance"]:
        return (row["instance"],)
    return row["client_id"] or "", row["host"] or ""


def _slot_for(slots: list[_Slot], row: Row, start_ms: int) -> _Slot:
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


def _begun(row: Row, start_ms: int, number: int, told: tuple[int | None, int | None]) -> Life:
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
