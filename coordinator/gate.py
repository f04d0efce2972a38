"""Holds replies and facts back until every record written before them is durable.

The rule of durability: *a reply may leave only when all records appended to its partition before it
are durable.* The rule covers reads, so that no reply shows what a crash could undo, and facts, so
that nothing is counted or logged that a crash undid. The gate does no I/O: the driver reports which
records were written, and the gate returns what may leave.

Facts leave twice: to the event log, in the order in which they were noted and never before the
records written before them; and to the readers, with the replies of their step. When replies are
refused, their facts are dropped.
"""

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Final

from groupkeeper.coordinator.caller import ReplyTo
from groupkeeper.coordinator.facts import NotedFact
from groupkeeper.coordinator.stalls import Stalls
from groupkeeper.coordinator.step import GroupResponse, KeyValue, Step

Replies = list[tuple[ReplyTo, GroupResponse]]

Released = tuple[Replies, list[NotedFact]]
"""The replies that may leave, and the facts that readers may see."""

FACTS_MOST: Final = 5_000
"""The most facts that wait for the event log; beyond that, only facts of steps with records are
kept. A flush takes all waiting facts, so the limit is reached only while the log is slow; a fact
takes half a kilobyte."""


@dataclass(slots=True)
class Unwritten:
    """Records on their way to the log, and their place among all records of the partition."""

    records: list[KeyValue]
    begin: int
    mark: int
    """Number of records that the partition has handed out, including these."""
    size: int
    """Upper bound of the records' bytes as a batch."""
    facts: list[NotedFact]
    """All facts up to `mark` that were not handed out before, in order: facts of the steps that
    wrote these records, to be stored with them, and of the steps between them that wrote nothing. A
    step whose only fact is no event (`Fact.is_event`) is left out."""


@dataclass(slots=True)
class ReplyGate:
    """Counts what was appended and what is durable, in records of this partition."""

    batch_bytes: int
    """The most bytes that are handed out at a time, unless a single step wrote more."""
    facts_most: int = FACTS_MOST
    """How many facts may wait for the event log; 0 if there is none."""
    appended: int = 0
    taken: int = 0
    durable: int = 0
    noted: int = 0
    """The number of facts so far."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Number of facts by class that were dropped because too many waited."""
    stalls: Stalls = field(default_factory=Stalls)
    """Is given the time since which records wait."""
    _queue: deque[tuple[list[KeyValue], int]] = field(default_factory=deque)
    """The records of each step, and their size in bytes. The records of a step stay in one batch,
    so that the log has all of them or none; only a step too large for a batch is cut."""
    _untaken: deque[tuple[int, list[NotedFact]]] = field(default_factory=deque)
    """The facts of each step, and the number of records written up to its end: so the facts of a
    step that was cut go with its last part."""
    _untaken_facts: int = 0
    _parked: deque[tuple[int, Replies, list[NotedFact]]] = field(default_factory=deque)

    @property
    def clear(self) -> bool:
        """All records are durable: a reply given now may leave now."""
        return self.appended == self.durable

    @property
    def parked(self) -> int:
        """The number of replies that wait."""
        return sum(len(replies) for _, replies, _ in self._parked)

    @property
    def has_facts(self) -> bool:
        """Whether `take` or `take_facts` has facts to hand out, now or when records are durable."""
        return bool(self._untaken)

    def admit(self, step: Step) -> None:
        """Take the step's records. If its replies may leave now they stay in it, and its facts are
        put into `told`; otherwise both are parked.
        """
        records = step.records
        facts: list[NotedFact] = []
        for fact in step.facts:
            facts.append(NotedFact(self.noted, step.now, step.wall, bool(records), fact))
            self.noted += 1
        if records:
            if self.appended == self.durable:
                self.stalls.waiting_since = step.now
            if step.cuts:
                self._queue += step.batches()
            else:
                self._queue.append((records, step.size))
            self.appended += len(step.records)
            step.records = []
        if facts and (len(facts) > 1 or facts[0].fact.is_event):
            self._keep(facts)
        if self.appended == self.durable:
            step.told = facts
        elif step.replies or facts:
            self._parked.append((self.appended, step.replies, facts))
            step.replies = []

    def _keep(self, facts: list[NotedFact]) -> None:
        if not self.facts_most:
            return
        kept = facts
        if self._untaken_facts + len(facts) > self.facts_most:
            kept, left_out = [], Counter[str]()
            for noted in facts:
                if not noted.fact.is_event:
                    continue
                # What wrote records is answered, and told: no more of it waits than its records do.
                if noted.with_records:
                    kept.append(noted)
                else:
                    left_out[type(noted.fact).__name__] += 1
            self.left_out += left_out
        if kept:
            self._untaken_facts += len(kept)
            self._untaken.append((self.appended, kept))

    def take(self) -> Unwritten | None:
        """Return the records to write next, or None; more may follow."""
        if not self._queue:
            return None
        records, size = self._queue.popleft()
        while self._queue and size + self._queue[0][1] <= self.batch_bytes:
            more, more_bytes = self._queue.popleft()
            records += more
            size += more_bytes
        begin = self.taken
        self.taken += len(records)
        return Unwritten(records, begin, self.taken, size, self._facts_to(self.taken))

    def take_facts(self) -> list[NotedFact]:
        """Return the facts that wait for the event log and for no records, in order, to be stored
        alone. Each fact is handed out once, here or by `take`.
        """
        return self._facts_to(self.durable)

    def _facts_to(self, mark: int) -> list[NotedFact]:
        facts: list[NotedFact] = []
        while self._untaken and self._untaken[0][0] <= mark:
            facts += self._untaken.popleft()[1]
        self._untaken_facts -= len(facts)
        return facts

    def written(self, unwritten: Unwritten, now: int) -> Released:
        """Note that these records are durable, and return what waited for them. To be called in the
        order of `take`, without a gap: records in a gap may be lost, and would be acknowledged.
        `now`: monotonic ms.
        """
        assert self.durable == unwritten.begin, "a batch before this one is not known to be durable"
        assert unwritten.mark <= self.taken, "taken from another gate, or before the log failed"
        self.durable = mark = unwritten.mark
        self.stalls.waiting_since = None if mark == self.appended else now
        replies: Replies = []
        facts: list[NotedFact] = []
        while self._parked and self._parked[0][0] <= mark:
            _, answered, noted = self._parked.popleft()
            replies += answered
            facts += noted
        return replies, facts

    def abandon(self) -> Replies:
        """Return all replies that waited, as the log failed: none of them may leave as it is.
        Forgets the records that were taken, and the facts that waited.
        """
        replies = [reply for _, parked, _ in self._parked for reply in parked]
        self._parked.clear()
        self._queue.clear()
        self._untaken.clear()
        self._untaken_facts = 0
        self.appended = self.taken = self.durable
        self.stalls.waiting_since = None
        return replies
