"""Drives one partition of `__consumer_offsets`: connects its decisions to log, clock and replies.

A `Partition` makes the decisions, a `PartitionLog` stores them; the driver passes the records from
the one to the other. It takes both through their life (`driver_life.py`): claimed, loaded, active,
and after any failure closed and loaded again, because no step can be undone. It ends when another
process has claimed the log.

Source: Kafka's PartitionWriter and CoordinatorRuntime.CoordinatorContext.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial

from groupkeeper.coordinator.apis import GroupRequest, refuse
from groupkeeper.coordinator.caller import Caller
from groupkeeper.coordinator.commit import PreparedCommit
from groupkeeper.coordinator.deadlines import Timer
from groupkeeper.coordinator.expiry import first_expiry
from groupkeeper.coordinator.gate import FACTS_MOST, Replies, Unwritten
from groupkeeper.coordinator.group import Group
from groupkeeper.coordinator.live import View, live_view, longest_silence
from groupkeeper.coordinator.partition import Partition
from groupkeeper.coordinator.steady_commit import Offsets, SteadyCommit, is_valid
from groupkeeper.coordinator.step import Step
from groupkeeper.exchange import ReplyTo
from groupkeeper.groups.deadline_alarm import DeadlineAlarm
from groupkeeper.groups.driver_life import DriverLife, DriverState
from groupkeeper.groups.event_log import EventLog
from groupkeeper.groups.partition_log import LogBatch, PartitionLog
from groupkeeper.groups.services import DriverServices
from groupkeeper.observe.fact_readers import Origin
from groupkeeper.observe.logs import Logger
from groupkeeper.observe.metrics import PartitionSnapshot
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.offset_commit import OffsetCommitRequest
from groupkeeper.storage.errors import StorageError, SyncFailed
from groupkeeper.turns import Slices

_log = Logger("partition")


class PartitionDriver:
    """The driver of one partition."""

    def __init__(
        self, index: int, log: PartitionLog, events: PartitionLog, services: DriverServices
    ) -> None:
        """`events`: the log for events of the same groups."""
        self.index = index
        self._life = DriverLife(index)
        self._log = log
        self._events = EventLog(index, events, services.events, partial(log.append_from, self))
        self._services = services
        self._loop = asyncio.get_running_loop()
        self._partition = self._new_partition()
        self._writing = self._partition
        """The partition whose records are in the current flush; it may have been closed since."""
        self._origin = Origin(index, -1)
        """Passed to the readers of facts; has the epoch of the last claim."""
        self._alarm = DeadlineAlarm(services.clock, services.turns, self._advance)
        self._loading: asyncio.Task[None] | None = None
        self._flush_over = asyncio.Event()

    def _new_partition(self) -> Partition:
        services = self._services
        facts_most = FACTS_MOST if services.events.enabled else 0
        make_id, total = services.new_member_id, services.member_bytes
        return Partition(services.config, make_id, total, facts_most, services.partition_counts)

    # -- requests ------------------------------------------------------------------------------

    def call(self, request: GroupRequest, caller: Caller, reply_to: ReplyTo) -> None:
        """Decide one request. The reply is sent now, later, or when its records are durable."""
        if self._life.refusal:
            reply_to.answer(refuse(request, caller, self._life.refusal))
            return
        try:
            step = self._partition.handle(request, caller, reply_to, self._time())
        except Exception as bug:  # noqa: BLE001  # the state may be half changed: reload it
            self._fail(bug, "a decision failed", answered=reply_to)
            reply_to.answer(refuse(request, caller, ErrorCode.UNKNOWN_SERVER_ERROR))
            return
        self._carry_out(step)

    def peek(self, group_id: str) -> Group | None:
        """Return the current group, to estimate work; its records may not be durable yet."""
        return self._partition.groups.get(group_id)

    def look(self, group_id: str) -> Slices[View] | None:
        """Describe the group's state; None if it does not exist. See `live_view`."""
        group, deadlines = self.peek(group_id), self._partition.deadlines
        return None if group is None else live_view(group, deadlines, *self._time())

    def silence(self, group: Group) -> Slices[int | None]:
        """See `longest_silence`."""
        return longest_silence(group, self._partition.deadlines, self._services.clock.now())

    def group_ids(self, *, used: bool = False) -> list[str]:
        """See `Partition.group_ids`; empty unless the partition is active."""
        return self._partition.group_ids(used=used)

    @property
    def configs(self) -> Mapping[str, Mapping[str, str]]:
        """Configs by group id, empty unless active; they may not be durable yet."""
        return {} if self.absence else self._partition.groups.configs

    @property
    def absence(self) -> ErrorCode:
        """The error for all requests; NONE if the partition is active."""
        return self._life.answers.new

    @property
    def cannot_be_loaded(self) -> bool:
        """Whether the log is damaged, the disk fails, or another process owns the log."""
        return self._life.cannot_be_loaded

    @property
    def is_unserved(self) -> bool:
        """Whether requests get NOT_COORDINATOR: the log has another owner, or may stay closed."""
        return self.absence is ErrorCode.NOT_COORDINATOR

    def prepare(self, request: OffsetCommitRequest) -> PreparedCommit:
        """Return a large commit, to be prepared in pieces and then passed to `call`."""
        return PreparedCommit(request, self._time()[1], self._services.config)

    @property
    def active(self) -> Partition | None:
        """The partition, for repeated requests; None if it refuses all."""
        return None if self._life.refusal or self.absence else self._partition

    def commit_again(self, steady: SteadyCommit, offsets: Offsets, reply_to: ReplyTo) -> bool:
        """Repeat a commit. Returns False if the request has to be decoded and decided instead."""
        if self._life.refusal or not is_valid(steady):
            return False
        again, at = self._partition.commit_again, self._time()
        self._turn("a decision failed", partial(again, steady, offsets, reply_to, at))
        return True

    def delete_offsets(self, topics: set[str]) -> Slices[bool]:
        """Delete the committed offsets of deleted topics, a piece in each slice.

        Returns False if the partition was closed meanwhile: repeat the call for its successor.
        """
        partition = self._partition
        partition.forget_when_loaded(topics)
        left = [] if self.absence else partition.group_ids()
        while left and partition is self._partition:
            forget = partial(partition.forget_topics, topics, left, self._time())
            self._turn("a deletion failed", forget)
            yield
        return partition is self._partition

    async def _all_durable(self, partition: Partition) -> None:
        """Wait until all records written so far are durable. A failed write cancels the load."""
        while not partition.gate.clear:
            self._flush_over.clear()
            await self._flush_over.wait()

    async def durable(self) -> None:
        """Wait until the records written so far are durable, or cannot become so."""
        partition, mark = self._partition, self._partition.gate.appended
        while partition is self._partition and partition.gate.durable < mark:
            self._flush_over.clear()
            await self._flush_over.wait()

    def decide(self, decision: Callable[[Step], None]) -> None:
        """See `Partition.decide`. The partition must be active."""
        self._turn("a decision failed", lambda: self._partition.decide(decision, self._time()))

    def _turn(self, failure: str, decide: Callable[[], Step]) -> None:
        """Take a step. If it raises, `Partition.close` sends the replies."""
        try:
            step = decide()
        except Exception as bug:  # noqa: BLE001  # see call()
            self._fail(bug, failure)
            return
        self._carry_out(step)

    def _carry_out(self, step: Step) -> None:
        """Carry out a step. Writing and the alarm come first, because a reply may raise."""
        if self._partition.has_unwritten:
            self._log.append_from(self)
        elif self._partition.gate.has_facts:
            self._events.wait()
        self._alarm.set(self._partition)
        if step.told:
            self._services.readers.tell(self._origin, step.told)
        if len(step.replies) == 1:  # nearly always
            [(reply_to, response)] = step.replies
            reply_to.answer(response)
        elif step.replies:
            self._services.replies.send(step.replies)

    def _time(self) -> tuple[int, int]:
        """Return monotonic and wall time, in ms."""
        clock = self._services.clock
        return clock.now(), clock.wall()

    # -- time ----------------------------------------------------------------------------------

    def _advance(self) -> None:
        if self.absence:  # the alarm is set again when the partition is active
            return
        clock = self._services.clock
        now, wall = max(clock.now(), self._alarm.at), clock.wall()
        self._turn("a timer failed", lambda: self._partition.advance(now, wall))

    @property
    def timers(self) -> Mapping[Timer, int]:
        """When each timer is due, for inspection. Empty unless the partition is active."""
        return {} if self.absence else self._partition.deadlines.due

    def is_due(self) -> bool:
        due = None if self.absence else self._partition.next_deadline()
        return due is not None and due <= self._services.clock.now()

    def first_expiry(self) -> Slices[int | None]:
        """Return when a check would first remove an offset. See `first_expiry`."""
        return first_expiry(self._partition.groups, self._services.config.offsets_retention_ms)

    @property
    def mark(self) -> object:
        """A value that differs after every change of a group."""
        return self._partition, self._partition.mark

    # -- writing -------------------------------------------------------------------------------

    def take(self) -> Sequence[LogBatch]:
        """Return what is appended next; see `Author`."""
        self._writing = partition = self._partition
        unwritten = partition.take()
        left_out = partition.gate.left_out
        if unwritten is None:
            events = self._events.take(partition.gate.take_facts(), left_out, None)
            return () if events is None else (events,)
        group = LogBatch(self._log, self, unwritten)
        events = self._events.take(unwritten.facts, left_out, group)
        return (group,) if events is None else (group, events)

    def written(self, unwritten: Unwritten) -> None:
        """Process a durable batch. Replies come first: a later failure must not lose them."""
        self._flush_over.set()
        partition = self._partition
        if self._writing is partition:
            replies, facts = partition.written(unwritten, self._time())
            if replies:
                self._services.replies.send(replies)
            if facts:
                self._services.readers.tell(self._origin, facts)
            self._events.count(facts)
            self._alarm.set(self._partition)
            if partition.has_unwritten:  # more than fits into one batch
                self._log.append_from(self)

    def not_written(self, error: BaseException) -> None:
        """Process a failed batch: none of it may be acknowledged."""
        if isinstance(error, SyncFailed):
            self._services.give_up(error)
        if self._writing is self._partition:
            self._fail(error, "the log could not be written")

    def lost(self, error: BaseException) -> None:
        """Close the partition, as the log may have another owner; the next claim finds out."""
        self._fail(error, "the partition may have another owner")

    # -- life cycle ----------------------------------------------------------------------------

    def _fail(self, error: BaseException, event: str, answered: ReplyTo | None = None) -> None:
        """Close, refuse parked requests, and load again from the log, even if closing raises. Does
        not load again if a newer owner has the log, or if the process ends.
        """
        self._flush_over.set()
        if self._life.is_absent:
            return
        life, now = self._life, self._services.clock.seconds()
        pause = life.fail(event, error, now)
        self._services.metrics.counts["partitions_closed", type(error).__name__] += 1
        gate = self._partition.gate
        self._events.driver_failed(f"{event}: {error}", gate.take_facts(), gate.left_out)
        try:
            refused = self._partition.close(life.answers.waiting)
        finally:
            if life.state is DriverState.CLOSED:
                self._load_in_background(pause)
            elif life.is_absent:
                self._in_background(self._release())
        self._dismiss(refused, answered)

    def _dismiss(self, replies: Replies, answered: ReplyTo | None = None) -> None:
        # A step that raised may have left a token both parked in its member and in its replies.
        once = {id(to): (to, reply) for to, reply in replies if to is not answered}
        self._services.replies.send(list(once.values()))

    def start_loading(self) -> None:
        """Load the partition in the background; retry until it works. Until it is active, requests
        get COORDINATOR_LOAD_IN_PROGRESS: members should wait, not look for another coordinator.
        """
        self._load_in_background(0.0)

    def _load_in_background(self, pause: float) -> None:
        self._partition = self._new_partition()
        self._in_background(self._load_until_it_works(pause))

    def _in_background(self, work: Coroutine[None, None, None]) -> None:
        """Run a load, or the release of the log, in place of the previous one."""
        if self._loading is not None:
            self._loading.cancel()
        self._loading = self._loop.create_task(work)

    async def _load_until_it_works(self, pause: float) -> None:
        while True:
            await self._services.loader.pause(pause)
            try:
                async with self._services.loader.place():
                    await self._load()
            except Exception as error:  # noqa: BLE001  # unexpected bytes, or a bug
                pause = self._life.fail_to_load(error, self._services.clock.seconds())
                self._services.metrics.counts[("partition_loads_failed",)] += 1
                self._partition.close()
                if self._life.is_absent:
                    await self._release()
                    return
                if isinstance(error, SyncFailed):
                    self._services.give_up(error)
                self._partition = self._new_partition()
            else:
                return

    @property
    def loading(self) -> "asyncio.Task[None] | None":
        """The current or last load; None if the partition was loaded immediately."""
        return self._loading

    async def _release(self) -> None:
        for log in (self._events, self._log):
            try:
                await log.release()
            except (StorageError, OSError) as error:
                _log.error("the log could not be closed", partition=self.index, error=str(error))

    async def _load(self) -> None:
        began, partition = self._services.clock.seconds(), self._partition
        self._events.suspend()
        self._origin = Origin(self.index, await self._log.claim(self))
        await self._log.read(partition.replay)
        await self._services.loader.run(partition.restore())
        await self._events.begin(self._origin.leader_epoch)
        deleter, durable = self._services.late_offset_deleter, self._all_durable
        await deleter.run(partition, self.index, self._carry_out, durable)
        await self._services.turns.run(self._start_sessions(partition))
        await deleter.run(partition, self.index, self._carry_out, durable)  # deleted meanwhile
        self._activate(began)

    def _start_sessions(self, partition: Partition) -> Slices[None]:
        left = partition.group_ids()
        while left:
            partition.start_sessions(left, *self._time())
            yield

    def load_empty(self) -> bool:
        """Immediately activate a partition without records: see `PartitionLog.claim_empty`. Returns
        False if it has to be loaded in the background.
        """
        began = self._services.clock.seconds()
        if self._services.late_offset_deleter.is_due(self.index):
            return False  # its log was removed: so must be the note
        epoch = self._log.claim_empty(self) if self._events.is_new else None
        if epoch is None:
            return False
        self._origin = Origin(self.index, epoch)
        self._events.begin_new(epoch)
        self._activate(began)
        return True

    def _activate(self, began: float) -> None:
        step = self._partition.activate(*self._time())
        now = self._services.clock.seconds()
        self._life.activate(now)
        self._services.metrics.replay_seconds.observe(now - began)
        self._events.loaded(step.facts, int((now - began) * 1000))
        self._carry_out(step)

    def stop(self) -> None:
        """Refuse new requests from now on, and stop loading, as the process ends."""
        self._life.drain()
        if self._loading is not None:
            self._loading.cancel()
        self._alarm.cancel()
        self._events.stop(self._partition.gate.take_facts())

    def close(self) -> None:
        """After `stop`, when everything is written, refuse the requests that are still parked."""
        self._dismiss(self._partition.close(self._life.answers.waiting))

    # -- metrics -------------------------------------------------------------------------------

    def snapshot(self) -> PartitionSnapshot:
        """Return the state without groups."""
        return self._life.snapshot(self._services.clock.seconds())
