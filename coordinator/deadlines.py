"""Timers as data: a key and the time it is due. Not a clock, and no callbacks.

The truth is a dictionary; a heap holds lower bounds. Moving a deadline into the future, which
every heartbeat does, is one dictionary write: the heap keeps its old, earlier entry, and when
that one comes up it is pushed again at the true time.
"""

import heapq
from enum import StrEnum
from typing import NamedTuple

SLACK = 1_024
"""How many stale entries the heap may hold beyond one for each running timer."""
STALE_CHARACTERS = 1_048_576
STALE_CHARACTERS_EACH = 64
"""How many characters of ids the cancelled timers in the heap may have, and how many more for each
running timer: clients choose the ids, which may be long."""
MOVED_AT_ONCE = 8
"""How many entries are moved with each new one, while a heap with more stale entries is swept."""
STALE_AT_ONCE = 256
"""How many stale entries one call visits, in half a millisecond: ten thousand heartbeats at one
time move as many deadlines."""


class TimerKind(StrEnum):
    """The purpose of a deadline."""

    SESSION = "session"
    NEW_MEMBER = "new_member"
    PENDING_MEMBER = "pending_member"
    INITIAL_DELAY = "initial_delay"
    JOIN = "join"
    SYNC = "sync"
    OFFSET_EXPIRY = "offset_expiry"
    GROUP_DELETION = "group_deletion"
    NEXT_PIECE = "next_piece"
    SEATS = "seats"
    WINDOW = "window"
    ASKED = "asked"
    STEP = "step"

    __hash__ = str.__hash__  # that of Enum is Python code, and every heartbeat hashes its timer


class Timer(NamedTuple):
    """The name of a deadline. `group_id` and `member_id` are empty where the kind has none."""

    kind: TimerKind
    group_id: str = ""
    member_id: str = ""


class Deadlines:
    """The due time of each timer, in monotonic milliseconds."""

    __slots__ = ("_bounds", "_stale", "_swept", "due", "heap", "popped_due")

    def __init__(self) -> None:
        self.due: dict[Timer, int] = {}
        """The true due times. May be written directly to move an *existing* deadline to a later
        time."""
        self._bounds: dict[Timer, int] = {}
        self.heap: list[tuple[int, Timer]] = []
        """Lower bounds, stale entries included; read-only outside of this class."""
        self._stale = 0
        """Characters of the ids of timers that were cancelled since the last sweep."""
        self._swept: list[tuple[int, Timer]] = []
        """A former heap with too many stale entries: its valid entries are moved to `heap`, a few
        with each new entry. Taken from its end, it stays a heap."""
        self.popped_due = 0
        """Due time of the timer that `pop` returned last."""

    def set(self, timer: Timer, at_ms: int) -> None:
        """Start a timer, or move it to another time."""
        self.due[timer] = at_ms
        bound = self._bounds.get(timer)
        if bound is None or at_ms < bound:
            self._bounds[timer] = at_ms
            heapq.heappush(self.heap, (at_ms, timer))
            if self._swept:
                self._sweep()
            elif len(self.heap) > 2 * len(self.due) + SLACK:
                self._begin_sweep()

    def cancel(self, timer: Timer) -> None:
        """Forget a timer; one that is not running is no error."""
        if self.due.pop(timer, None) is not None:
            self._stale += len(timer.group_id) + len(timer.member_id)
            if self._swept:
                self._sweep()
            elif self._stale > STALE_CHARACTERS + STALE_CHARACTERS_EACH * len(self.due):
                self._begin_sweep()

    def _begin_sweep(self) -> None:
        self._stale = 0
        self._swept, self.heap = self.heap, []

    def _sweep(self) -> None:
        """Move a few entries; cancelled timers stay in a heap until they come up."""
        swept, bounds = self._swept, self._bounds
        for _ in range(min(MOVED_AT_ONCE, len(swept))):
            bound, timer = swept.pop()
            if bounds.get(timer) != bound:
                continue
            if timer in self.due:
                heapq.heappush(self.heap, (bound, timer))
            else:
                del bounds[timer]

    def is_before(self, at_ms: int) -> bool:
        """Whether a timer may be due before `at_ms`: False is certain, True is not. Cheap."""
        heap, swept = self.heap, self._swept
        return bool((heap and heap[0][0] < at_ms) or (swept and swept[0][0] < at_ms))

    def next(self) -> int | None:
        """Return the earliest due time, or None when no timer runs. After very many stale entries,
        return a lower bound instead, at which `next` has to be called again.
        """
        found = self._first()
        return None if found is None else found[0]

    def _first(self) -> tuple[int, bool] | None:
        """Return the lowest bound, and whether it is the due time of its timer."""
        for _ in range(STALE_AT_ONCE):
            heap = self._lowest()
            if not heap:
                return None
            bound, timer = heap[0]
            if self._bounds.get(timer) != bound:  # an older, higher bound of a moved timer
                heapq.heappop(heap)
                continue
            true = self.due.get(timer)
            if true == bound:
                return bound, True
            heapq.heappop(heap)
            del self._bounds[timer]
            if true is not None:
                self.set(timer, true)
        heap = self._lowest()
        return (heap[0][0], False) if heap else None

    def _lowest(self) -> list[tuple[int, Timer]]:
        """Return the heap with the lowest bound."""
        heap, swept = self.heap, self._swept
        return swept if swept and (not heap or swept[0] < heap[0]) else heap

    def pop(self, now_ms: int) -> Timer | None:
        """Remove the first timer that is due. None: none is, or `next` has to be called again."""
        found = self._first()
        if found is None or found[0] > now_ms or not found[1]:
            return None
        self.popped_due, timer = heapq.heappop(self._lowest())
        del self._bounds[timer], self.due[timer]
        return timer
