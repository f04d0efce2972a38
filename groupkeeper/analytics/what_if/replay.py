"""Replays the lives of a group's clients through the coordinator's own decisions.

`coordinator.partition.Partition` decides, as in the server; clients are models (`client`), time is
a heap of future actions, and records are durable at once. Heartbeats in quiet times are not sent:
the sessions of living clients are extended to the next action instead.
"""

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, Final

from groupkeeper.analytics.what_if.client import GROUP, ModelClient, OnAnswer
from groupkeeper.analytics.what_if.lives import Behaviour, Life
from groupkeeper.analytics.what_if.unread import Unread
from groupkeeper.coordinator.caller import Caller, Peer
from groupkeeper.coordinator.config import GroupConfig
from groupkeeper.coordinator.deadlines import Timer, TimerKind
from groupkeeper.coordinator.facts import (
    Fact,
    MemberRemoved,
    MemberReplaced,
    RebalanceAbandoned,
    RebalanceCompleted,
    RebalanceStarted,
)
from groupkeeper.coordinator.group import GroupState
from groupkeeper.coordinator.partition import Partition
from groupkeeper.coordinator.step import Step
from groupkeeper.protocol.group_events import CauseCode
from groupkeeper.protocol.message import Message

MOST_STEPS: Final = 5_000_000
"""Maximum steps per replay; more means a livelock of the clients, and GivenUp is raised."""
_NEVER_MS: Final = 2**50
_SILENT: Final = (CauseCode.SESSION_EXPIRED, CauseCode.JOIN_TIMEOUT, CauseCode.SYNC_TIMEOUT)


@dataclass(frozen=True, slots=True)
class ReplaySettings:
    """Changed settings; None keeps the recorded value. Times are milliseconds."""

    is_static: bool | None = None
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    initial_delay_ms: int | None = None
    is_cooperative: bool | None = None


@dataclass(slots=True)
class Outcome:
    """The result of a replay. `unowned_ms` and the two after it are sums over partitions
    (`unread`); `detections` holds, for each client that vanished, how long it kept its partitions.
    """

    rounds: int = 0
    not_stable_ms: int = 0
    unowned_ms: int = 0
    unread_ms: int = 0
    paused_ms: int = 0
    replaced: int = 0
    detections: list[int] = field(default_factory=list)


class GivenUp(Exception):
    """The replay does not settle."""


def replay(
    lives: Sequence[Life], behaviour: Behaviour, settings: ReplaySettings, end_ms: int
) -> Outcome:
    """Replay until `end_ms` (Unix milliseconds). Raises GivenUp."""
    return _Replay(behaviour, settings, end_ms).run(lives)


@dataclass(frozen=True, slots=True)
class _Token:
    """Identifies a request by the callback for its answer."""

    answer: Callable[[Any], None]


class _Replay:
    def __init__(self, behaviour: Behaviour, settings: ReplaySettings, end_ms: int) -> None:
        self.now = 0
        self.behaviour = behaviour
        self.is_cooperative = (
            behaviour.is_cooperative if settings.is_cooperative is None else settings.is_cooperative
        )
        self._settings = settings
        self._end_ms = end_ms
        delay_ms = settings.initial_delay_ms
        config = GroupConfig(
            initial_rebalance_delay_ms=behaviour.initial_delay_ms if delay_ms is None else delay_ms,
            min_session_timeout_ms=1,
            max_session_timeout_ms=_NEVER_MS,
            offsets_retention_check_interval_ms=_NEVER_MS,
        )
        numbers = count()
        self._partition = Partition(config, lambda prefix: f"{prefix}-{next(numbers)}", None, 0)
        self._order = count()
        self._next: list[tuple[int, int, Callable[[], None]]] = []
        self._answers: deque[Callable[[], None]] = deque()
        self._clients: list[ModelClient] = []
        self._by_id: dict[str, ModelClient] = {}
        self._vanished: dict[str, int] = {}
        """Member id of a vanished client -> when it vanished."""
        self._unread = Unread(behaviour.partitions)
        self._running: set[ModelClient] = set()
        self._outcome = Outcome()
        self._started_ms: int | None = None

    # -- running -------------------------------------------------------------------------------

    def run(self, lives: Sequence[Life]) -> Outcome:
        self.now = min((life.start_ms for life in lives), default=0)
        self._take(self._partition.activate(self.now, self.now))
        for life in lives:
            self.at(life.start_ms, partial(self._start, life))
        for when, name in self.behaviour.changes:
            self.at(when, partial(self._change, name))
        for _ in range(MOST_STEPS):
            if not self._go_on():
                self._stable_again()
                sums = self._unread
                self._outcome.unowned_ms, self._outcome.unread_ms = sums.unowned_ms, sums.unread_ms
                self._outcome.paused_ms = sums.paused_ms
                return self._outcome
        raise GivenUp(f"no end after {MOST_STEPS:,} steps")

    def _go_on(self) -> bool:
        """Take the next step; False if no action is left."""
        if self._answers:
            self._answers.popleft()()
            return True
        happens = self._next[0][0] if self._next else _NEVER_MS
        due = self._partition.next_deadline()
        if due is not None and due <= happens:
            due = self._keep_alive(due, min(happens, self._end_ms))
        when = happens if due is None else min(due, happens)
        self._unread.passed(min(when, self._end_ms) - self.now)
        if when > self._end_ms:
            self.now = self._end_ms
            return False
        self.now = max(self.now, when)
        if due is not None and due <= happens:
            self._take(self._partition.advance(self.now, self.now))
        else:
            heapq.heappop(self._next)[2]()
        return True

    def at(self, when_ms: int, do: Callable[[], None]) -> None:
        heapq.heappush(self._next, (max(when_ms, self.now), next(self._order), do))

    def send(self, client: ModelClient, version: int, request: Message, then: OnAnswer) -> None:
        token = _Token(
            lambda answer: self._answers.append(partial(self._answer, client, then, answer))
        )
        request_any: Any = request
        caller = Caller(version, Peer(client.life.client_id, client.life.host))
        self._take(self._partition.handle(request_any, caller, token, (self.now, self.now)))

    def _answer(self, client: ModelClient, then: OnAnswer, answer: Any) -> None:
        if client.is_over:
            return
        if client.is_paused:
            client.waiting.append(partial(then, answer))
            return
        then(answer)
        if client.member_id:
            self._by_id[client.member_id] = client

    def _take(self, step: Step) -> None:
        """Carry out a step, with all records durable at once."""
        replies, facts = step.replies, step.told
        while True:
            for token, answer in replies:
                token.answer(answer)
            for noted in facts:
                self._note(noted.fact)
            unwritten = self._partition.take()
            if unwritten is None:
                return
            replies, facts = self._partition.written(unwritten, (self.now, self.now))

    # -- actions of clients --------------------------------------------------------------------

    def _start(self, life: Life) -> None:
        settings = self._settings
        is_static = life.instance is not None if settings.is_static is None else settings.is_static
        client = ModelClient(
            self,
            life,
            life.client if is_static else None,
            settings.session_timeout_ms or life.session_timeout_ms,
            settings.rebalance_timeout_ms or life.rebalance_timeout_ms,
        )
        self._clients.append(client)
        self.assigned(client)
        for from_ms, until_ms in life.pauses:
            self.at(from_ms, partial(self._pause, client, until_ms))
        if life.end_ms is not None:
            self.at(life.end_ms, partial(self._finish, client))
        client.join()

    def _pause(self, client: ModelClient, until_ms: int) -> None:
        if client.is_over:
            return
        self._last_request(client)
        client.pause(is_outlived=until_ms - self.now < client.session_timeout_ms)
        self.at(until_ms, client.resume)

    def _finish(self, client: ModelClient) -> None:
        if client.is_over:
            return
        self._last_request(client)
        if not client.end() and client.member_id:
            self._vanished[client.member_id] = self.now
        self._clients.remove(client)

    def _change(self, name: str) -> None:
        for client in self._clients:
            if client.life.client == name and not client.is_over:
                client.ask_for_a_rebalance()
                return

    def plan(self, owned: dict[str, list[int]]) -> dict[str, list[int]]:
        """Assign even shares. Eager: like the range assignor. Cooperative: members keep what they
        can, and a partition that another member has to revoke first is not assigned yet (KIP-429).
        """
        kept = owned if self.is_cooperative else {member: list[int]() for member in owned}
        return _shared(kept, self.behaviour.partitions)

    def assigned(self, client: ModelClient) -> None:
        """Count the partitions of a client anew: they changed, or it began or ceased to read."""
        (self._running.add if client.is_running else self._running.discard)(client)
        self._unread.running = len(self._running)
        self._unread.reads(client, len(client.owned) if client.is_running else 0)
        is_silent = client.is_paused and client.is_outlived and not client.is_over
        self._unread.pauses(client, len(client.owned) if is_silent else 0)
        if client.is_alive:
            self._unread.owns(client.member_id, len(client.owned))

    # -- the coordinator -----------------------------------------------------------------------

    @property
    def is_rebalancing(self) -> bool:
        group = self._partition.groups.get(GROUP)
        return group is not None and group.state is GroupState.PREPARING_REBALANCE

    def _timer(self, client: ModelClient) -> Timer:
        return Timer(TimerKind.SESSION, GROUP, client.member_id)

    def _keep_alive(self, due: int, until_ms: int) -> int | None:
        """Extend the sessions of clients that send heartbeats; returns the next deadline."""
        sessions = self._partition.deadlines.due
        for client in self._clients:
            if client.is_alive and sessions.get(self._timer(client), _NEVER_MS) <= until_ms:
                sessions[self._timer(client)] = until_ms + client.session_timeout_ms
        return self._partition.next_deadline()

    def _last_request(self, client: ModelClient) -> None:
        """Start the session timeout now, undoing any extension."""
        timer, deadlines = self._timer(client), self._partition.deadlines
        if timer in deadlines.due:
            deadlines.set(timer, self.now + client.session_timeout_ms)

    def _note(self, fact: Fact) -> None:
        outcome = self._outcome
        if isinstance(fact, RebalanceStarted):
            outcome.rounds += 1
            if self._started_ms is None:
                self._started_ms = self.now
            for client in self._clients:
                client.notice()
        elif isinstance(fact, RebalanceCompleted):
            self._stable_again()
        elif isinstance(fact, RebalanceAbandoned):
            if fact.state in (GroupState.EMPTY, GroupState.DEAD):
                self._stable_again()
        elif isinstance(fact, MemberReplaced):
            outcome.replaced += 1
            self._unread.replaced(fact.old_member, fact.who.member)
            self._vanished.pop(fact.old_member, None)
        elif isinstance(fact, MemberRemoved):
            self._unread.removed(fact.who.member)
            since = self._vanished.pop(fact.who.member, None)
            if since is not None and fact.cause.code in _SILENT:
                outcome.detections.append(self.now - since)

    def _stable_again(self) -> None:
        if self._started_ms is None:
            return
        self._outcome.not_stable_ms += self.now - self._started_ms
        self._started_ms = None


def _shared(owned: dict[str, list[int]], partitions: int) -> dict[str, list[int]]:
    members = sorted(owned, key=lambda member: (-len(owned[member]), member))
    share, more = divmod(partitions, len(members))
    quota = {member: share + (index < more) for index, member in enumerate(members)}
    plan = {member: sorted(owned[member])[: quota[member]] for member in members}
    held = {number for numbers in owned.values() for number in numbers}
    free = [number for number in range(partitions) if number not in held]
    for member in members:
        room = quota[member] - len(plan[member])
        plan[member] += free[:room]
        del free[:room]
    return plan
