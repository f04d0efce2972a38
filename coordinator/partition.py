"""One partition of `__consumer_offsets`: groups, gate and deadlines, without I/O.

    LOADING ── restore, start_sessions, activate ──► ACTIVE ── close ──► CLOSED

The driver of a partition has these duties.

1. Time: read the clocks and pass them in, monotonic and Unix milliseconds. The first never falls.
2. Load: pass all batches of the log to `replay`, run `restore`, forget the topics that
   `take_deleted` returns, call `start_sessions` until no group is left, then `activate`.
3. After each call that returns a `Step`: if `has_unwritten`, see that the records are written; see
   to it that `advance` is called at `next_deadline`; pass `Step.told` to the readers; send
   `Step.replies`. These depend on no record that is not durable, and may be sent at once.
4. Write: append the records of `take` to the log, batch by batch and in order, with their
   facts. When a batch is durable, and not earlier, call `written`, in that order. Send the
   replies and pass on the facts that it returns, then look at `next_deadline` again.
   Facts that wait for no records are stored with `gate.take_facts`, soon.
5. Fail: when a call raises, or a write fails, call `close`, send the replies that it returns, and
   load a new partition from the log. Nothing of the old one is used again: there is no undo.

Calls are made one at a time. While LOADING, `replay` and `restore` may run in another thread.

Source: `CoordinatorRuntime` and `CoordinatorLoader`.
"""

from collections.abc import Callable, Generator, Mapping
from enum import StrEnum
from functools import partial

from groupkeeper.coordinator.apis import GROUP_APIS, GroupRequest, refuse, spoil
from groupkeeper.coordinator.caller import Caller, ReplyTo
from groupkeeper.coordinator.config import GroupConfig
from groupkeeper.coordinator.deadlines import Deadlines, Timer, TimerKind
from groupkeeper.coordinator.deletion import STEP_SHARE, Allowance, forget_topics
from groupkeeper.coordinator.facts import GroupsLoaded
from groupkeeper.coordinator.gate import FACTS_MOST, Released, Replies, ReplyGate, Unwritten
from groupkeeper.coordinator.group import Group
from groupkeeper.coordinator.groups import Groups
from groupkeeper.coordinator.heartbeat import Beat, steady_beat
from groupkeeper.coordinator.member_bytes import MemberBytes, Total
from groupkeeper.coordinator.prolong import note_stall, prolong
from groupkeeper.coordinator.replay import Replay
from groupkeeper.coordinator.replies import answer_join, answer_sync
from groupkeeper.coordinator.session_start import SessionStart
from groupkeeper.coordinator.stalls import STALL_MS, WAITS_FOR_CLIENTS, Stall
from groupkeeper.coordinator.steady_commit import Offsets, SteadyCommit, commit_again, steady_commit
from groupkeeper.coordinator.step import Step
from groupkeeper.coordinator.timers import expire
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.heartbeat import HeartbeatRequest
from groupkeeper.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse

TIMERS_PER_TURN = 32
"""The most timers, replies or facts of one `advance`, unless a single timer brings more: a mass
expiry must not stall the process."""

BATCH_BYTES = 256 * 1024
"""The most bytes that `take` returns, unless one step alone wrote more."""

_ALONE = (TimerKind.OFFSET_EXPIRY, TimerKind.GROUP_DELETION, TimerKind.NEXT_PIECE)
"""Timers after which an `advance` ends."""


class PartitionState(StrEnum):
    """The life cycle of a partition."""

    LOADING = "loading"
    ACTIVE = "active"
    CLOSED = "closed"


ABSENCE = {
    PartitionState.LOADING: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    PartitionState.CLOSED: ErrorCode.NOT_COORDINATOR,
}
"""Error of requests in a state without decisions."""


class Partition:
    """The groups that hash to one partition, from replay to close."""

    def __init__(
        self,
        config: GroupConfig,
        make_member_id: Callable[[str], str],
        member_bytes: Total | None = None,
        facts_most: int = FACTS_MOST,
        partition_counts: Mapping[str, int] | None = None,
    ) -> None:
        """`make_member_id` returns `<prefix>-<uuid>`. The partitions of a process share one
        `member_bytes`. `facts_most`: how many facts may wait to be stored; 0 if none is.
        `partition_counts`: the numbers of partitions of all topics, as they are at any time.
        """
        self.state = PartitionState.LOADING
        self.groups = Groups(MemberBytes(member_bytes or Total()), config.policy)
        self.deadlines = Deadlines()
        self.gate = ReplyGate(min(config.message_max_bytes, BATCH_BYTES), facts_most)
        self._config = config
        self._make_member_id = make_member_id
        self._partition_counts = {} if partition_counts is None else partition_counts
        self._replay: Replay | None = Replay()
        self._start: Step | None = None
        """The step of `start_sessions`, which `activate` ends."""
        self._sessions = SessionStart()
        self._pending: dict[Timer, None] = {}
        self._deleted: set[str] = set()
        """Topics that were deleted while loading; their offsets are forgotten before `activate`."""
        self._timers_wait_for = 0
        """Number of records appended up to the last piece of an expiry or a deletion, or up to the
        last `advance` that left timers due. Timers wait until these records are durable, so that a
        request waits for one piece at most."""
        self._under_way: Step | None = None
        """The step that has begun and not ended: if it raised, its replies were not sent."""

    def _begin(self, now: int, wall: int) -> Step:
        pending, make_id = self._pending, self._make_member_id
        stalls = self.gate.stalls
        counts = self._partition_counts
        step = Step(now, wall, self._config, self.deadlines, make_id, pending, stalls, counts)
        self._under_way = step
        return step

    def _end(self, step: Step) -> Step:
        if self.state is PartitionState.ACTIVE:  # a refusal must not wait
            self.gate.admit(step)
        self._under_way = None
        return step

    # -- loading -------------------------------------------------------------------------------

    def replay(self, batches: bytes) -> None:
        """Read a run of whole record batches, in log order. Raises CorruptBatch."""
        assert self._replay is not None
        self._replay.take(batches)

    def restore(self) -> Generator[None, None, None]:
        """Build the groups, in slices, after the whole log was passed to `replay`. The offsets of
        topics that were deleted meanwhile (`take_deleted`) have to be forgotten before `activate`.
        """
        assert self._replay is not None and not self.groups
        groups = Groups(self.groups.member_bytes, self.groups.policy)
        yield from self._replay.restore(groups)
        self.groups = groups

    def take_deleted(self) -> set[str]:
        """The topics that were deleted while the partition was loading, each once. The driver
        passes them to `forget_topics`, and calls this again until it returns none.
        """
        deleted, self._deleted = self._deleted, set()
        return deleted

    def start_sessions(self, left: list[str], now: int, wall: int) -> None:
        """After `restore`: start the sessions of a slice of the members, with their full timeout.

        `left` are the ids of the groups that are left, the next one last; call again while it has
        some. A group of very many members takes several slices, and is removed with the last one.
        """
        step = self._start = self._start or self._begin(now, wall)
        step.now, step.wall = now, wall
        self._sessions.go_on(self.groups, left, step)

    def activate(self, now: int, wall: int) -> Step:
        """Begin to decide requests, after all sessions have started."""
        assert self._replay is not None and self.state is PartitionState.LOADING
        assert not self._deleted, "forgotten before"
        step = self._start or self._begin(now, wall)
        check = now + self._config.offsets_retention_check_interval_ms
        self.deadlines.set(Timer(TimerKind.OFFSET_EXPIRY), check)
        head, records, groups = ("", 0, "", 0), self._replay.record_count, len(self.groups)
        members, offsets = self._sessions.members, self._sessions.offsets
        step.note(
            GroupsLoaded(*head, records=records, groups=groups, members=members, offsets=offsets)
        )
        self._replay = self._start = None
        self.groups.member_bytes.count()
        if members:
            self.gate.stalls.end(Stall("load", now, now))
        self.state = PartitionState.ACTIVE
        return self._end(step)

    # -- serving -------------------------------------------------------------------------------

    def handle(
        self, request: GroupRequest, caller: Caller, reply_to: ReplyTo, at: tuple[int, int]
    ) -> Step:
        """Decide one request, or refuse it in a state without decisions.

        `at` is monotonic and Unix time in ms. `reply_to` comes back exactly once, with the answer:
        in `Step.replies` of this or a later step, or from `written` or `close`. For the returned
        step see duty 3. May raise: duty 5.
        """
        step = self._begin(*at)
        api, groups = GROUP_APIS[type(request)], self.groups
        if self.state is not PartitionState.ACTIVE:
            absence = ABSENCE[self.state]
        # Handlers for several groups look for deletions of each of them.
        elif groups.deletions and api.for_one_group and request.group_id in groups.deletions:  # type: ignore[union-attr]
            absence = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        else:
            api.handle(groups, request, caller, reply_to, step)
            return self._end(step)
        error = api.error_in(request, caller.api_version, self._config) or absence
        step.reply(reply_to, refuse(request, caller, error))
        return self._end(step)

    def advance(self, now: int, wall: int) -> Step:
        """Handle timers that have come due, not necessarily all: see `next_deadline` again.

        Times are monotonic and Unix ms. For the returned step see duty 3. May raise: duty 5.
        """
        step = self._begin(now, wall)
        most = self._config.message_max_bytes
        if self.gate.durable < self._timers_wait_for:
            return self._end(step)
        is_piece = False
        for timers in range(TIMERS_PER_TURN):
            timer = self.deadlines.pop(now)
            if timer is None:
                break
            if timers and timer.kind is TimerKind.NEXT_PIECE:
                self.deadlines.set(timer, now)
                break
            if timer.kind not in WAITS_FOR_CLIENTS or not prolong(self.groups, timer, step):
                expire(self.groups, timer, step)
            is_piece = timer.kind in _ALONE
            if is_piece:
                break
            if max(timers + len(step.replies), len(step.facts)) >= TIMERS_PER_TURN:
                break
            if step.size > most // STEP_SHARE:
                break
        if step.records and (is_piece or (self.deadlines.next() or now + 1) <= now):
            self._timers_wait_for = self.gate.appended + len(step.records)
        return self._end(step)

    def decide(self, decision: Callable[[Step], None], at: tuple[int, int]) -> Step:
        """Take a step that neither a request nor a timer triggers, while ACTIVE: a stop of the
        process (`prolong.note_stall`); tests move time (`liveness.keep_alive`), end sessions
        (`timers.end_session`) and start rebalances (`rebalance.prepare`). For the returned step see
        duty 3. May raise: duty 5.
        """
        step = self._begin(*at)
        decision(step)
        return self._end(step)

    def next_deadline(self) -> int | None:
        """The time of the earliest timer in monotonic ms. None if there is none, or if the timers
        wait for `written`: look again after it.
        """
        return None if self.gate.durable < self._timers_wait_for else self.deadlines.next()

    def forget_topics(self, topics: set[str], left: list[str], at: tuple[int, int]) -> Step:
        """Forget one piece of the offsets of deleted topics.

        `left` are the ids of the groups to go through (`group_ids`). Finished groups are removed
        from it; call again while it has some.
        """
        step = self._begin(*at)
        forget_topics(self.groups, topics, left, Allowance.of(step), step)
        if self.state is PartitionState.LOADING:  # the first replies wait until it is durable
            self.gate.admit(step)
        return self._end(step)

    def forget_when_loaded(self, topics: set[str]) -> None:
        """Remember deleted topics while loading; a closed partition ignores them."""
        if self.state is PartitionState.LOADING:
            self._deleted |= topics

    @property
    def mark(self) -> tuple[int, ...]:
        """Changes with every record, fact and new or removed group."""
        return self.gate.appended, self.gate.noted, len(self.groups)

    def group_ids(self, *, used: bool = False) -> list[str]:
        """Return ids of groups; with `used`, of groups that have had a member or a record."""
        return self.groups.used_ids() if used else list(self.groups)

    # -- the short cut for steady heartbeats -----------------------------------------------------

    def steady_beat(self, request: HeartbeatRequest) -> Beat | None:
        """Return the short cut for a heartbeat just answered NONE, for `beat`; or None."""
        active = self.state is PartitionState.ACTIVE
        return steady_beat(self.groups, request) if active else None

    def beat(self, beat: Beat, now: int) -> bool:
        """Repeat the heartbeat. False: the group has changed, call `handle` instead."""
        gate = self.gate
        if beat.group.changes != beat.changes or gate.appended != gate.durable:
            return False
        self.deadlines.due[beat.timer] = now + beat.session_timeout_ms
        member = beat.member
        member.beats += 1
        if now - member.beat_ms > member.gap_ms:  # noqa: PLR1730  # a call takes as long as all
            member.gap_ms = now - member.beat_ms
        member.beat_ms = now
        return True

    def steady_commit(
        self, asked: OffsetCommitRequest, answered: OffsetCommitResponse, caller: Caller
    ) -> SteadyCommit | None:
        """Return the short cut for a commit just accepted, for `commit_again`; or None."""
        if self.state is not PartitionState.ACTIVE:
            return None
        return steady_commit(self.groups, self._config, asked, answered, caller)

    def commit_again(
        self, steady: SteadyCommit, offsets: Offsets, reply_to: ReplyTo, at: tuple[int, int]
    ) -> Step:
        """Handle the same commit with other offsets, as `handle` does, if `is_valid`."""
        step = self._begin(*at)
        commit_again(steady, offsets, reply_to, step)
        return self._end(step)

    # -- durability ----------------------------------------------------------------------------

    @property
    def has_unwritten(self) -> bool:
        """Whether `take` has records to write."""
        return self.gate.taken != self.gate.appended

    def take(self) -> Unwritten | None:
        """Return the records to write next, as one batch, with the facts to store beside them; None
        if all were taken. Each is handed out once: duty 4.
        """
        return self.gate.take()

    def written(self, unwritten: Unwritten, at: tuple[int, int]) -> Released:
        """Note that a batch of `take` is durable, after all batches before it: duty 4. Returns the
        replies to send and the facts to pass to the readers, in order. `at` as in `handle`.
        """
        now, since = at[0], self.gate.stalls.waiting_since
        replies, facts = self.gate.written(unwritten, now)
        if since is not None and now - since >= STALL_MS:
            facts += self.decide(partial(note_stall, Stall("log", since, now)), at).told
        return replies, facts

    # -- the end -------------------------------------------------------------------------------

    def close(self, error: ErrorCode = ErrorCode.NOT_COORDINATOR) -> Replies:
        """Forget everything; may be called in any state. Returns a refusal for every request that
        waits, in members or in the gate: duty 5. Facts that waited are dropped.
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
        self.groups.configs.clear()
        self.groups.member_bytes.give_back()
        self.deadlines = Deadlines()
        self._pending.clear()
        self._replay = self._start = self._under_way = None
        self._sessions = SessionStart()
        return [(to, spoil(reply, error)) for to, reply in unsent] + step.replies


def _dismiss(group: Group, error: ErrorCode, step: Step) -> None:
    group.changes += 1
    for member in group.members.values():
        answer_join(group, member, error, step, member.member_id)
        answer_sync(member, error, step)
