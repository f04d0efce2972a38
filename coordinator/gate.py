"""Replies and facts wait here until every record written before them is durable.

The one rule of durability: *a reply may leave only when all records appended to its partition
before it are durable.* Reads included, so nothing is ever shown that a crash could undo; and facts
included, so nothing is ever counted or logged that did not last. The gate knows neither disk nor
network; it is told what was written, and it hands out what may leave.

Facts pass in two stages: with the records of their step to whoever writes these, and with its
replies to whoever reads them. What is refused takes its facts with it.
"""

from collections import deque
from dataclasses import dataclass, field

from groupkeeper.coordinator.caller import ReplyTo
from groupkeeper.coordinator.facts import NotedFact
from groupkeeper.coordinator.step import GroupResponse, KeyValue, Step

Replies = list[tuple[ReplyTo, GroupResponse]]

Released = tuple[Replies, list[NotedFact]]
"""The replies that may leave, and the facts that readers may be told."""


@dataclass(slots=True)
class Unwritten:
    """Records on their way to the log, and the marks between which they are."""

    records: list[KeyValue]
    begin: int
    mark: int
    """How many records the partition has handed out, before these and with them."""
    size: int
    """Upper bound of the records' bytes as a batch."""
    facts: list[NotedFact]
    """What the steps noted that wrote these records, to be stored along with them. A step that
    wrote nothing is not among them: its facts are told to readers only."""


@dataclass(slots=True)
class ReplyGate:
    """Counts what was appended and what is durable, in records of this partition."""

    batch_bytes: int
    """The most that is handed out at a time, unless one step alone wrote more."""
    appended: int = 0
    taken: int = 0
    durable: int = 0
    noted: int = 0
    """How many facts there were so far."""
    _queue: deque[tuple[list[KeyValue], int, list[NotedFact]]] = field(default_factory=deque)
    """The records of each step, their size in bytes, and its facts. They are not torn: what one
    step decided is in the log as a whole or not at all. But for what would be too large: that may
    be torn, and its facts go with the last of it."""
    _parked: deque[tuple[int, Replies, list[NotedFact]]] = field(default_factory=deque)

    @property
    def clear(self) -> bool:
        """Nothing is on its way: a reply given now may leave now."""
        return self.appended == self.durable

    @property
    def parked(self) -> int:
        """How many replies wait."""
        return sum(len(replies) for _, replies, _ in self._parked)

    def admit(self, step: Step) -> None:
        """Take the step's records; its replies stay in it only if they may leave now, and only then
        it has facts that may be told.
        """
        records = step.records
        facts: list[NotedFact] = []
        for fact in step.facts:
            facts.append(NotedFact(self.noted, step.now, step.wall, bool(records), fact))
            self.noted += 1
        if records:
            if step.cuts:
                *earlier, last = step.batches()
                self._queue += [(*batch, []) for batch in earlier]
                self._queue.append((*last, facts))
            else:
                self._queue.append((records, step.size, facts))
            self.appended += len(step.records)
            step.records = []
        if self.appended == self.durable:
            step.told = facts
        elif step.replies or facts:
            self._parked.append((self.appended, step.replies, facts))
            step.replies = []

    def take(self) -> Unwritten | None:
        """What has to be written next, or None; there may be more behind it."""
        if not self._queue:
            return None
        records, size, noted = self._queue.popleft()
        facts = [*noted]
        while self._queue and size + self._queue[0][1] <= self.batch_bytes:
            more, more_bytes, noted = self._queue.popleft()
            records += more
            size += more_bytes
            facts += noted
        begin = self.taken
        self.taken += len(records)
        return Unwritten(records, begin, self.taken, size, facts)

    def written(self, unwritten: Unwritten) -> Released:
        """These records are durable: what waited for them. In the order in which they were taken,
        and without a gap: the records before a gap may be lost, and would be acknowledged.
        """
        assert self.durable == unwritten.begin, "a batch before this one is not known to be durable"
        assert unwritten.mark <= self.taken, "taken from another gate, or before the log failed"
        self.durable = mark = unwritten.mark
        replies: Replies = []
        facts: list[NotedFact] = []
        while self._parked and self._parked[0][0] <= mark:
            _, answered, noted = self._parked.popleft()
            replies += answered
            facts += noted
        return replies, facts

    def abandon(self) -> Replies:
        """The log failed: all replies that waited, none of which may leave as it is. Nothing is on
        its way any more, whatever was taken; and of the facts that waited nobody is told.
        """
        replies = [reply for _, parked, _ in self._parked for reply in parked]
        self._parked.clear()
        self._queue.clear()
        self.appended = self.taken = self.durable
        return replies
