"""One partition of `__consumer_offsets`: groups, gate and deadlines, driven from outside.

    LOADING ── restore, start_sessions, activate ──► ACTIVE ── close ──► CLOSED

The driver reads the clock and passes it in, sends the replies of the returned step and tells its
facts to readers, writes what `Partition.take` hands out, and calls `Partition.written`
when it is durable, which hands out the replies and facts that waited for it. After a failure of any
kind the partition is closed and a new one is loaded from the log: there is no undo.
"""

from collections.abc import Callable, Generator
from enum import StrEnum

from groupkeeper.coordinator.apis import GROUP_APIS, GroupRequest, refuse, spoil
from groupkeeper.coordinator.caller import Caller, ReplyTo
from groupkeeper.coordinator.causes import Cause, CauseCode
from groupkeeper.coordinator.config import GroupConfig
from groupkeeper.coordinator.deadlines import Deadlines, Timer, TimerKind
from groupkeeper.coordinator.deletion import STEP_SHARE, Allowance, forget_topics
from groupkeeper.coordinator.facts import GroupsLoaded
from groupkeeper.coordinator.gate import Released, Replies, ReplyGate, Unwritten
from groupkeeper.coordinator.group import Group
from groupkeeper.coordinator.groups import Groups
from groupkeeper.coordinator.heartbeat import Beat, steady_beat
from groupkeeper.coordinator.member_bytes import MemberBytes, Total
from groupkeeper.coordinator.rebalance import prepare, rearm_session
from groupkeeper.coordinator.replay import Replay
from groupkeeper.coordinator.replies import answer_join, answer_sync
from groupkeeper.coordinator.step import Step
from groupkeeper.coordinator.timers import expire
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.heartbeat import HeartbeatRequest

TIMERS_PER_TURN = 64
"""So many timers, or answers to them, make a turn: a mass expiry must not stall the rest."""

BATCH_BYTES = 256 * 1024
"""So much is handed out to be written at a time, unless one step alone wrote more."""

SESSIONS_IN_A_SLICE = 500
"""Members, groups and topics gone through before others have a turn: half a millisecond."""

_ALONE = (TimerKind.OFFSET_EXPIRY, TimerKind.GROUP_DELETION)
"""What takes a turn of its own."""


class PartitionState(StrEnum):
    """Where a partition is in its life."""

    LOADING = "loading"
    ACTIVE = "active"
    CLOSED = "closed"


ABSENCE = {
    PartitionState.LOADING: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    PartitionState.CLOSED: ErrorCode.NOT_COORDINATOR,
}
"""What is answered instead of a decision."""


class Partition:
    """The groups that hash to one partition, from replay to close."""

    def __init__(
        self,
        config: GroupConfig,
        make_member_id: Callable[[str], str],
        member_bytes: Total | None = None,
    ) -> None:
        """`member_bytes` is what members take in all partitions that it is given to."""
        self.state = PartitionState.LOADING
        self.groups = Groups(MemberBytes(member_bytes or Total()))
        self.deadlines = Deadlines()
        self.gate = ReplyGate(min(config.message_max_bytes, BATCH_BYTES))
        self._config = config
        self._make_member_id = make_member_id
        self._replay: Replay | None = Replay()
        self._start: Step | None = None
        """What the first steps of the loaded groups have brought so far."""
        self._members = self._offsets = 0
        """Of the groups whose sessions have started."""
        self._pending: dict[Timer, None] = {}
        self._deleted: set[str] = set()
        """Topics that were deleted while loading: whatever the log says, their offsets go."""
        self._last_piece = 0
        """The mark of the last piece of an expiry or a deletion: the next one waits until that is
        durable, and so does whoever asks for something no longer than for one.
        """
        self.held_back: list[Timer] = []
        """What came due before that: see `resume`."""
        self._under_way: Step | None = None
        """A step that has begun and not ended: it raised, and what it answered was not sent."""

    def _begin(self, now: int, wall: int) -> Step:
        pending, make_id = self._pending, self._make_member_id
        step = Step(now, wall, self._config, self.deadlines, make_id, pending)
        self._under_way = step
        return step

    def _end(self, step: Step) -> Step:
        if self.state is PartitionState.ACTIVE:  # a closed gate would hold refusals for ever
            self.gate.admit(step)
        self._under_way = None
        return step

    # -- loading -------------------------------------------------------------------------------

    def replay(self, batches: bytes) -> None:
        """Take in a run of whole record batches, in log order. Raises CorruptBatch."""
        assert self._replay is not None
        self._replay.take(batches)

    def restore(self) -> Generator[None, None, None]:
        """The log is read to its end: build the groups, in slices, which as `replay` may be
        run beside all else. Nobody is answered yet: what was committed for topics that were
        deleted meanwhile (`take_deleted`) has to go first.
        """
        assert self._replay is not None and not self.groups
        groups = Groups(self.groups.member_bytes)
        yield from self._replay.restore(groups)
        self.groups = groups

    def take_deleted(self) -> set[str]:
        """The topics that were deleted while the partition was loading, each once. Those who drive
        it forget them, and then ask again.
        """
        deleted, self._deleted = self._deleted, set()
        return deleted

    def start_sessions(self, left: list[str], now: int, wall: int) -> None:
        """After `restore`: start the sessions of a slice of the groups, each in full.

        `left` are the ids of the groups whose sessions have not started, the next one last.
        """
        step = self._start = self._start or self._begin(now, wall)
        step.now, step.wall = now, wall
        work = 0
        while left and work < SESSIONS_IN_A_SLICE:
            group = self.groups[left.pop()]
            for member in group.members.values():
                rearm_session(group, member, step)
            if len(group.members) > self._config.max_size:
                prepare(group, Cause(CauseCode.GROUP_SHRUNK), step)
            self._members += len(group.members)
            self._offsets += sum(map(len, group.offsets.values()))
            work += 1 + len(group.members) + len(group.offsets)

    def activate(self, now: int, wall: int) -> Step:
        """All sessions have started: from now on, answer."""
        assert self._replay is not None and self.state is PartitionState.LOADING
        assert not self._deleted, "forgotten before"
        step = self._start or self._begin(now, wall)
        check = now + self._config.offsets_retention_check_interval_ms
        self.deadlines.set(Timer(TimerKind.OFFSET_EXPIRY), check)
        step.note(
            GroupsLoaded(
                group="",
                generation=0,
                state="",
                records=self._replay.record_count,
                groups=len(self.groups),
                members=self._members,
                offsets=self._offsets,
            )
        )
        self._replay = self._start = None
        self.groups.member_bytes.count()
        self.state = PartitionState.ACTIVE
        return self._end(step)

    # -- serving -------------------------------------------------------------------------------

    def handle(
        self, request: GroupRequest, caller: Caller, reply_to: ReplyTo, at: tuple[int, int]
    ) -> Step:
        """One request. `at` is monotonic and wall time, in ms. The step has what may leave."""
        step = self._begin(*at)
        api, absence, deletions = (
            GROUP_APIS[type(request)],
            ABSENCE.get(self.state),
            self.groups.deletions,
        )
        # Requests for several groups look at each of them.
        if deletions and api.for_one_group and request.group_id in deletions:  # type: ignore[union-attr]
            absence = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if absence is None:
            api.handle(self.groups, request, caller, reply_to, step)
        else:
            error = api.error_in(request, caller.api_version, self._config) or absence
            step.reply(reply_to, refuse(request, caller, error))
        return self._end(step)

    def advance(self, now: int, wall: int) -> Step:
        """Handle the timers that have come due."""
        step = self._begin(now, wall)
        most = self._config.message_max_bytes
        for timers in range(TIMERS_PER_TURN):
            timer = self.deadlines.pop(now)
            if timer is None:
                break
            if timer.kind in _ALONE and self.gate.durable < self._last_piece:
                self.held_back.append(timer)
                continue
            expire(self.groups, timer, step)
            if timer.kind in _ALONE:
                self._last_piece = self.gate.appended + len(step.records)
                break
            if timers + len(step.replies) >= TIMERS_PER_TURN:
                break
            if step.size > most // STEP_SHARE:
                break
        return self._end(step)

    def may_be_due_before(self, at_ms: int) -> bool:
        """Is it worth asking for `next_deadline`? It takes longer than this."""
        return self.deadlines.is_before(at_ms)

    def next_deadline(self) -> int | None:
        """When `advance` has something to do, in monotonic ms."""
        return self.deadlines.next()

    def forget_topics(self, topics: set[str], left: list[str], at: tuple[int, int]) -> Step:
        """Topics were deleted, and with them goes what was committed for them: one piece of it.

        `left` are the ids of the groups that are to be gone through (`group_ids`). Those
        that are done are taken out of it; call again while there are some.
        """
        step = self._begin(*at)
        forget_topics(self.groups, topics, left, Allowance.of(step), step)
        if self.state is PartitionState.LOADING:  # whoever asks first waits until it is durable
            self.gate.admit(step)
        return self._end(step)

    def forget_when_loaded(self, topics: set[str]) -> None:
        """Topics were deleted while the partition is loading. A closed partition knows no offsets:
        the one that is loaded after it has to be told.
        """
        if self.state is PartitionState.LOADING:
            self._deleted |= topics

    def group_ids(self) -> list[str]:
        """The groups of now."""
        return list(self.groups)

    # -- the short cut for steady heartbeats -----------------------------------------------------

    def steady_beat(self, request: HeartbeatRequest) -> Beat | None:
        """What a heartbeat that was just answered NONE resolves to, for `beat`."""
        active = self.state is PartitionState.ACTIVE
        return steady_beat(self.groups, request) if active else None

    def beat(self, beat: Beat, now: int) -> bool:
        """The same heartbeat again. False: take the long way, something has changed."""
        gate = self.gate
        if beat.group.changes != beat.changes or gate.appended != gate.durable:
            return False
        self.deadlines.due[beat.timer] = now + beat.session_timeout_ms
        return True

    # -- durability ----------------------------------------------------------------------------

    @property
    def has_unwritten(self) -> bool:
        """There is something for `take` to hand out."""
        return self.gate.taken != self.gate.appended

    def take(self) -> Unwritten | None:
        """Records to write next, and the facts to be stored with them."""
        return self.gate.take()

    def written(self, unwritten: Unwritten) -> Released:
        """What was taken is durable, and all that was taken before it: the replies and facts that
        may leave now. To be followed by `resume` if something is held back.
        """
        return self.gate.written(unwritten)

    def resume(self, now: int) -> None:
        """What was held back until its last piece is durable comes due, if that is so."""
        if self.gate.durable >= self._last_piece:
            for timer in self.held_back:
                self.deadlines.set(timer, now)
            self.held_back.clear()

    # -- the end -------------------------------------------------------------------------------

    def close(self, error: ErrorCode = ErrorCode.NOT_COORDINATOR) -> Replies:
        """Forget everything. All that waited, in members or in the gate, is refused, and of facts
        that waited nobody is told.
        """
        self.state = PartitionState.CLOSED
        unsent = self.gate.abandon()
        if self._under_way is not None:
            unsent += self._under_way.replies
        step = self._begin(0, 0)
        for deletion in {id(each): each for each in self.groups.deletions.values()}.values():
            step.reply(deletion.reply_to, spoil(deletion.response, error))
        for group in self.groups.values():
            _dismiss(group, error, step)
        self.groups.deletions.clear()
        self.groups.clear()
        self.groups.member_bytes.give_back()
        self.deadlines = Deadlines()
        self.held_back.clear()
        self._pending.clear()
        self._replay = self._start = self._under_way = None
        return [(to, spoil(reply, error)) for to, reply in unsent] + step.replies


def _dismiss(group: Group, error: ErrorCode, step: Step) -> None:
    group.changes += 1
    for member in group.members.values():
        answer_join(group, member, error, step, member.member_id)
        answer_sync(member, error, step)
