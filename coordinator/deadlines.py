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
running timer: ids may be long, and clients choose them."""


class TimerKind(StrEnum):
    """What a deadline is for."""

    SESSION = "session"
    NEW_MEMBER = "new_member"
    PENDING_MEMBER = "pending_member"
    INITIAL_DELAY = "initial_delay"
    JOIN = "join"
    SYNC = "sync"
    OFFSET_EXPIRY = "offset_expiry"
    GROUP_DELETION = "group_deletion"

    __hash__ = str.__hash__  # that of Enum is Python code, and every heartbeat hashes its timer


class Timer(NamedTuple):
    """The name of a deadline. `group_id` and `member_id` are empty where the kind has none."""

    kind: TimerKind
    group_id: str = ""
    member_id: str = ""


class Deadlines:
    """When each timer is due, in monotonic milliseconds."""

    __slots__ = ("_bounds", "_stale", "due", "heap", "popped_due")

    def __init__(self) -> None:
        self.due: dict[Timer, int] = {}
        """The truth. May be written directly to move an *existing* deadline to a later time."""
        self._bounds: dict[Timer, int] = {}
        self.heap: list[tuple[int, Timer]] = []
        """Lower bounds, stale ones included; only to look at."""
        self._stale = 0
        """Characters of the ids of timers that were cancelled since the last sweep."""
        self.popped_due = 0
        """When the timer was due that `pop` returned last."""

    def set(self, timer: Timer, at_ms: int) -> None:
        """Start a timer, or move it to another time."""
        self.due[timer] = at_ms
        bound = self._bounds.get(timer)
        if bound is None or at_ms < bound:
            self._bounds[timer] = at_ms
            heapq.heappush(self.heap, (at_ms, timer))
            if len(self.heap) > 2 * len(self.due) + SLACK:
                self._sweep()

    def cancel(self, timer: Timer) -> None:
        """Forget a timer; one that is not running is no error."""
        if self.due.pop(timer, None) is not None:
            self._stale += len(timer.group_id) + len(timer.member_id)
            if self._stale > STALE_CHARACTERS + STALE_CHARACTERS_EACH * len(self.due):
                self._sweep()

    def _sweep(self) -> None:
        """Rebuild the heap: cancelled timers stay in it until they come up."""
        self._stale = 0
        self._bounds = dict(self.due)
        self.heap = [(at_ms, timer) for timer, at_ms in self.due.items()]
        heapq.heapify(self.heap)

    def is_before(self, at_ms: int) -> bool:
        """Whether a timer may be due before that: False is certain, True is not. Cheap."""
        return bool(self.heap) and self.heap[0][0] < at_ms

    def next(self) -> int | None:
        """The earliest due time, or None when no timer runs."""
        heap = self.heap
        while heap:
            bound, timer = heap[0]
            if self._bounds.get(timer) != bound:  # an older, higher bound of a moved timer
                heapq.heappop(heap)
                continue
            true = self.due.get(timer)
            if true == bound:
                return bound
            heapq.heappop(heap)
            del self._bounds[timer]
            if true is not None:
                self.set(timer, true)
        return None

    def pop(self, now_ms: int) -> Timer | None:
        """Take out the timer that is due first, or None when none is due yet."""
        due = self.next()
        if due is None or due > now_ms:
            return None
        self.popped_due, timer = heapq.heappop(self.heap)
        del self._bounds[timer], self.due[timer]
        return timer
