"""Replies wait here until every record written before them is durable.

The one rule of durability: *a reply may leave only when all records appended to its partition
before it are durable.* Reads included, so nothing is ever shown that a crash could undo. The gate
knows neither disk nor network; it is told what was written, and it hands out what may leave.
"""

from collections import deque
from dataclasses import dataclass, field

from coordinator.step import Record, ReplyTo, Response, Step

Replies = list[tuple[ReplyTo, Response]]


@dataclass(slots=True)
class Unwritten:
    """Records on their way to the log, and the mark that says they have arrived."""

    records: list[Record]
    mark: int
    size: int = 0
    """Upper bound of the records' bytes as a batch."""


@dataclass(slots=True)
class ReplyGate:
    """Counts what was appended and what is durable, in records of this partition."""

    batch_bytes: int
    """The most that is handed out at a time, unless one step alone wrote more."""
    appended: int = 0
    taken: int = 0
    durable: int = 0
    _queue: deque[tuple[list[Record], int]] = field(default_factory=deque)
    """The records of each step and their size in bytes. They are not torn: what one step decided
    is in the log as a whole or not at all. But for what would be too large, and may be torn."""
    _parked: deque[tuple[int, Replies]] = field(default_factory=deque)

    @property
    def clear(self) -> bool:
        """Nothing is on its way: a reply given now may leave now."""
        return self.appended == self.durable

    @property
    def parked(self) -> int:
        """How many replies wait."""
        return sum(len(replies) for _, replies in self._parked)

    def admit(self, step: Step) -> None:
        """Take the step's records; its replies stay in it only if they may leave now."""
        if step.records:
            if step.cuts:
                self._queue += step.batches()
            else:
                self._queue.append((step.records, step.size))
            self.appended += len(step.records)
            step.records = []
        if step.replies and self.appended != self.durable:
            self._parked.append((self.appended, step.replies))
            step.replies = []

    def take(self) -> Unwritten | None:
        """What has to be written next, or None; there may be more behind it."""
        if not self._queue:
            return None
        records, size = self._queue.popleft()
        while self._queue and size + self._queue[0][1] <= self.batch_bytes:
            more, more_bytes = self._queue.popleft()
            records += more
            size += more_bytes
        self.taken += len(records)
        return Unwritten(records, self.taken, size)

    def written(self, mark: int) -> Replies:
        """Everything up to the mark is durable: the replies that waited for it."""
        assert self.durable < mark <= self.taken
        self.durable = mark
        released: Replies = []
        while self._parked and self._parked[0][0] <= mark:
            released += self._parked.popleft()[1]
        return released

    def abandon(self) -> Replies:
        """The log failed: all replies that waited, none of which may leave as it is."""
        replies = [reply for _, parked in self._parked for reply in parked]
        self._parked.clear()
        self._queue.clear()
        return replies
