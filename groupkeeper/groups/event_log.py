"""The event log of one partition: the history of its groups, in the topic `__group_events`.

Theory of operation. Whenever the driver's batches are requested, it calls `take` for a batch of
events, with the facts released by its gate. So facts with records go into the same flush as their
records, and are left out with them; other facts wait for the next flush, or `FLUSH_S` (`wait`). The
facts become events on the thread that writes the flush (event_batch.py).

Failures here stay here: the log is closed and reopened after increasing pauses, events are counted
as dropped meanwhile, and groups are not affected. Only the driver claims the shard: each of its
claims restarts the event log (`suspend`, `begin`), under the same epoch.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from math import inf
from typing import Concatenate, Final, ParamSpec

from groupkeeper.backoff import Backoff
from groupkeeper.coordinator.facts import (
    Fact,
    GroupsLoaded,
    NotedFact,
    OffsetsCommitted,
    RequestRefused,
)
from groupkeeper.coordinator.gate import FACTS_MOST, Unwritten
from groupkeeper.groups.event_batch import EventBatch, EventMaker, EventRecord, is_end, type_of_item
from groupkeeper.groups.event_sums import COMMITS_S, REFUSALS_S, CommitSums, RefusalSums, cut
from groupkeeper.groups.partition_log import LogBatch, PartitionLog
from groupkeeper.groups.services import EventServices
from groupkeeper.observe.events import is_told, type_of
from groupkeeper.observe.logs import Logger
from groupkeeper.protocol.group_events import Event
from groupkeeper.storage.errors import Fenced, LockLost, StorageError, SyncFailed

FLUSH_S: Final = 0.1
"""How long events without records wait for a flush before they trigger one."""
DROPPED_S: Final = 1.0
"""Delay before dropped events are reported, if no others are written."""
BEGIN_S: Final = 1.0
"""How long a partition waits for its event log, whose last batch is read on opening, before it is
served without. Until the log is open, events wait, and a crash would lose them."""
REOPEN_FIRST_S: Final = 1.0
REOPEN_MOST_S: Final = 60.0
"""First and longest pause before a failed event log, which may be long, is reopened."""

_log = Logger("events")

P = ParamSpec("P")


def _alone(
    method: "Callable[Concatenate[EventLog, P], None]",
) -> "Callable[Concatenate[EventLog, P], None]":
    """Guard a method called by the driver or the loop: a bug closes this log, not the partition."""

    @wraps(method)
    def guarded(self: "EventLog", /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            method(self, *args, **kwargs)
        except Exception as bug:  # noqa: BLE001
            self._fail(bug)

    return guarded


class EventLog:
    """The owner of one partition of `__group_events`. Never raises, and never delays the driver."""

    def __init__(
        self, index: int, log: PartitionLog, services: EventServices, append: Callable[[], None]
    ) -> None:
        """`append` makes the driver request batches soon."""
        self._index = index
        self._log = log
        self._services = services
        self._append = append
        self._loop = asyncio.get_running_loop()
        self._maker = EventMaker(index, services)
        self._epoch = -1
        """Epoch of the driver's last claim; -1 during a claim."""
        self._is_open = False
        self._stopping = False
        self._failing = False
        """Whether a failure of the log was logged, and its recovery not yet."""
        self._waiting: list[EventRecord] = []
        self._dropped: Counter[str] = Counter()
        """Events left out before they were made, and not reported yet."""
        self._under_way: EventBatch | None = None
        self._commit_sums = CommitSums()
        self._refusal_sums = RefusalSums()
        self._timer: asyncio.TimerHandle | None = None
        self._commits_due: asyncio.TimerHandle | None = None
        self._refusals_due: asyncio.TimerHandle | None = None
        self._opening: asyncio.Task[None] | None = None
        self._backoff = Backoff(REOPEN_FIRST_S, REOPEN_MOST_S)

    # -- life ----------------------------------------------------------------------------------

    @property
    def is_new(self) -> bool:
        """Whether the log never had events, so that `begin_new` may be used."""
        return self._log.is_new

    def suspend(self) -> None:
        """Pause for a new claim by the driver. Events until `begin` are kept."""
        self._close()
        self._epoch = -1

    def begin_new(self, epoch: int) -> None:
        """Do `begin` immediately, for a log that `is_new`."""
        self._epoch = epoch
        self._log.claim_new(self, epoch)
        self._opened(epoch)

    async def begin(self, epoch: int) -> None:
        """Open the log after `suspend`, when the driver has claimed the shard under an epoch.

        The driver decides nothing meanwhile. Returns when the log is open or has failed, or soon;
        the log is then opened in the background.
        """
        self._epoch = epoch
        self._opening = self._loop.create_task(self._open(0))
        await asyncio.wait({self._opening}, timeout=BEGIN_S)

    async def _open(self, pause: float) -> None:
        try:
            await asyncio.sleep(pause)
            epoch = await self._log.claim_beside(self, self._epoch)
        except Exception as error:  # noqa: BLE001  # unexpected bytes, or a bug
            self._opening = None
            self._fail(error)
        else:
            self._opening = None
            self._opened(epoch)

    def _opened(self, epoch: int) -> None:
        self._maker.begin(epoch)
        self._is_open = True
        if self._failing:
            self._failing = False
            _log.info("events are stored again", partition=self._index)
        if self._is_due:
            self.wait()

    @property
    def _is_due(self) -> bool:
        """Whether events wait, or dropped events are not reported yet."""
        return bool(self._waiting or self._dropped or self._maker.has_dropped)

    def _close(self) -> None:
        self._is_open = False
        self._under_way = None
        if self._opening is not None:
            self._opening.cancel()
            self._opening = None

    def _fail(self, error: BaseException) -> None:
        """Close the log, and reopen it later."""
        if isinstance(error, SyncFailed):
            self._services.give_up(error)
        self._close()
        self._services.metrics.counts["event_logs_closed", type(error).__name__] += 1
        if not self._failing:
            self._failing = True
            bug = error if not isinstance(error, StorageError | OSError) else None
            about = {"partition": self._index, "error": str(error), "exc_info": bug}
            _log.error("events are not stored", groups="are served all the same", **about)
        # After the loss of a shard, only the driver may claim it again.
        waits = self._stopping or self._epoch < 0
        if not waits and not isinstance(error, Fenced | LockLost):
            self._opening = self._loop.create_task(self._open(self._backoff.failed()))

    @_alone
    def driver_failed(
        self, why: str, facts: Sequence[NotedFact], left_out: Mapping[str, int]
    ) -> None:
        """Note that the partition is closed. `facts` need no records; `left_out`: see `take`."""
        self._under_way = None
        self._note(facts, left_out)
        self._closed(why)

    @_alone
    def stop(self, facts: Sequence[NotedFact]) -> None:
        """Note that the process ends: the next flush is the last. `facts` waited for no records."""
        self._stopping = self._maker.is_stopping = True
        for later in (self._timer, self._commits_due, self._refusals_due, self._opening):
            if later is not None:
                later.cancel()
        self._note(facts, {})
        self._tell_commits()
        self._tell_refusals(inf)
        self._closed("stopped")
        if self._waiting:
            self._append()

    async def release(self) -> None:
        """Release the log, as another process owns the shard. Raises StorageError and OSError."""
        self._close()
        self._waiting.clear()
        await self._log.release()

    # -- what happened -------------------------------------------------------------------------

    @_alone
    def loaded(self, facts: Sequence[Fact], duration_ms: int) -> None:
        """Note that the partition is active. Partitions without records are not reported."""
        for fact in facts:
            if isinstance(fact, GroupsLoaded) and fact.records and self._services.enabled:
                fields = {
                    "records": fact.records,
                    "groups": fact.groups,
                    "members": fact.members,
                    "duration_ms": duration_ms,
                }
                self._tell("coordinator_loaded", fields)

    def _closed(self, why: str) -> None:
        if self._maker.has_begun or self._is_due or self._under_way is not None:
            self._tell("coordinator_closed", {"why": why})

    def _tell(self, kind: str, fields: Mapping[str, object]) -> None:
        at = self._services.clock.wall(), self._services.clock.now()
        self._waiting.append(Event(-1, -1, -1, *at, None, kind, fields=fields))
        self.wait()

    def wait(self) -> None:
        """Request a flush, if none comes soon, for facts that wait for no records."""
        if self._timer is None or self._stopping:  # the driver calls this with each request
            self._request_flush()

    @_alone
    def _request_flush(self) -> None:
        if self._stopping:
            self._append()
        else:
            self._timer = self._loop.call_later(FLUSH_S, self._flush)

    def _flush(self) -> None:
        self._timer = None
        self._append()

    def take(
        self, facts: Sequence[NotedFact], left_out: Counter[str], group: LogBatch | None
    ) -> LogBatch | None:
        """Return the events to write now. `left_out`: facts that were not handed out, by class;
        cleared. `group`: the batch of the records that are written with them.
        """
        if not (facts or left_out or self._is_due):
            return None  # nearly always
        try:
            self._note(facts, left_out)
            left_out.clear()
            return self._batch(group)
        except Exception as bug:  # noqa: BLE001  # the groups' records are still written
            self._fail(bug)
            return None

    def _note(self, facts: Sequence[NotedFact], left_out: Mapping[str, int]) -> None:
        for noted in facts:
            kind = type(noted.fact)
            if kind is RequestRefused:
                self._note_refusal(noted)
            elif kind is not GroupsLoaded and is_told(noted.fact):
                self._waiting.append(noted)
        for fact, count in left_out.items():
            self._count_dropped(type_of(fact), count)

    def _batch(self, group: LogBatch | None) -> LogBatch | None:
        if not self._is_open:
            # Events during a new claim by the driver are kept.
            kept = 0 if self._failing else FACTS_MOST
            self._drop(self._waiting[kept:])
            del self._waiting[kept:]
            return None
        if not self._is_due:
            return None
        if self._stopping:  # facts of the previous flush came after it
            self._waiting.sort(key=is_end)
        items, self._waiting = self._waiting, []
        dropped, self._dropped = self._dropped, Counter()
        clock = self._services.clock
        batch = EventBatch(self._maker, items, dropped, (clock.wall(), clock.now()))
        self._under_way = batch
        return LogBatch(self._log, self, batch, group)

    def _drop(self, items: Sequence[EventRecord]) -> None:
        for item in items:
            self._count_dropped(type_of_item(item), 1)

    def _count_dropped(self, kind: str, count: int) -> None:
        self._dropped[kind] += count
        self._services.metrics.counts["events_dropped", kind] += count

    # -- outcomes ------------------------------------------------------------------------------

    def written(self, unwritten: Unwritten) -> None:
        """Implements `LogOwner.written`."""
        assert isinstance(unwritten, EventBatch)
        self._under_way = None
        self._backoff.reset()
        metrics = self._services.metrics
        metrics.counts[("events_written",)] += unwritten.made
        self._services.limits.tell(self._index, self._maker.take_left_out(), metrics)
        if self._maker.bug is not None:
            bug, self._maker.bug = self._maker.bug, None
            _log.error("event not made", partition=self._index, error=str(bug), exc_info=bug)
        if self._maker.has_dropped and self._timer is None and not self._stopping:
            self._timer = self._loop.call_later(DROPPED_S, self._flush)

    def not_written(self, error: BaseException) -> None:
        """Implements `LogOwner.not_written`. If the groups' records failed, the driver restarts."""
        batch, self._under_way = self._under_way, None
        if batch is not None:
            self._dropped.update(batch.withdraw())
            self._drop(batch.items)
            self._fail(error)

    def lost(self, error: BaseException) -> None:
        """Implements `LogOwner.lost`. The driver is notified, too, and reclaims the shard."""
        self._close()

    # -- what is summed up ---------------------------------------------------------------------

    @_alone
    def count(self, facts: Sequence[NotedFact]) -> None:
        """Count the commits among facts whose records are durable and whose replies were sent."""
        if not self._services.enabled:
            return
        for noted in facts:
            if type(noted.fact) is OffsetsCommitted:
                self._commit_sums.add(noted)
        if self._stopping:  # no timer follows up on facts of this flush
            self._tell_commits()
            self._append()
        elif self._commits_due is None and self._commit_sums:
            self._commits_due = self._loop.call_later(COMMITS_S, self._commits_are_due)

    @_alone
    def _commits_are_due(self) -> None:
        self._commits_due = None
        self._tell_commits()
        self.wait()

    def _tell_commits(self) -> None:
        if self._commit_sums.left_out:
            self._count_dropped("commits", self._commit_sums.left_out)
        self._waiting += self._commit_sums.take()

    def _note_refusal(self, noted: NotedFact) -> None:
        noted = cut(noted)
        admitted = self._refusal_sums.admits(noted, self._services.clock.seconds())
        if admitted is None:
            self._count_dropped("requests_refused", 1)
        elif admitted:
            self._waiting.append(noted)
        if self._refusals_due is None and not self._stopping:
            self._refusals_due = self._loop.call_later(REFUSALS_S, self._refusals_are_due)

    @_alone
    def _refusals_are_due(self) -> None:
        self._refusals_due = None
        now = self._services.clock.seconds()
        self._tell_refusals(now)
        due = self._refusal_sums.due
        if due is not None:
            self._refusals_due = self._loop.call_later(due - now, self._refusals_are_due)

    def _tell_refusals(self, now: float) -> None:
        before = len(self._waiting)
        self._waiting += self._refusal_sums.take(now)
        if len(self._waiting) > before:
            self.wait()
