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

from groupkeeper.analytics.what_if.assignor import ranges, shared
from groupkeeper.analytics.what_if.behaviour import Behaviour
from groupkeeper.analytics.what_if.client import GROUP, ModelClient, OnAnswer
from groupkeeper.analytics.what_if.embedded import TOPIC, assigned_in
from groupkeeper.analytics.what_if.lives import Life
from groupkeeper.analytics.what_if.measures import Measures
from groupkeeper.coordinator.caller import Caller, Peer
from groupkeeper.coordinator.config import GroupConfig
from groupkeeper.coordinator.deadlines import Timer, TimerKind
from groupkeeper.coordinator.facts import (
    Fact,
    MemberRemoved,
    MemberReplaced,
    RebalanceAbandoned,
    RebalanceCompleted,
    RebalanceJoined,
    RebalanceStarted,
    SeatReserved,
)
from groupkeeper.coordinator.group import Group, GroupState
from groupkeeper.coordinator.group_configs import GroupConfigsRequest
from groupkeeper.coordinator.partition import Partition
from groupkeeper.coordinator.policy import OFF, Policy
from groupkeeper.coordinator.step import Step
from groupkeeper.protocol.group_events import CauseCode
from groupkeeper.protocol.message import Message

MOST_STEPS: Final = 5_000_000
"""Maximum steps per replay; more means a livelock of the clients, and GivenUp is raised."""
_NEVER_MS: Final = 2**50
_SILENT: Final = (
    CauseCode.SESSION_EXPIRED,
    CauseCode.JOIN_TIMEOUT,
    CauseCode.SYNC_TIMEOUT,
    CauseCode.SEAT_EXPIRED,
)


@dataclass(frozen=True, slots=True)
class ReplaySettings:
    """Changed settings; None keeps the recorded value. Times are milliseconds."""

    is_static: bool | None = None
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    initial_delay_ms: int | None = None
    is_cooperative: bool | None = None
    policy: Policy | None = None
    """What the coordinator does beyond Kafka, all the time."""


@dataclass(slots=True)
class Outcome:
    """The result of a replay. `unowned_ms` and the others from there on are sums over time
    (`Measures`); `detections` holds, for each client that vanished, how long it kept its
    partitions.
    """

    rounds: int = 0
    generations: int = 0
    """Join phases that ended with members."""
    not_stable_ms: int = 0
    unowned_ms: int = 0
    unread_ms: int = 0
    paused_ms: int = 0
    reserved_ms: int = 0
    imbalance_ms: int = 0
    moved: int = 0
    moved_most: int = 0
    """The same at once: in one rebalance, or to one member that was asked."""
    rejoins: int = 0
    """JoinGroups of members that did nothing to cause them."""
    asks: int = 0
    """Members that were asked to rejoin without a rebalance."""
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
            policy=settings.policy or OFF,
        )
        numbers = count()
        self._partition = Partition(
            config,
            lambda prefix: f"{prefix}-{next(numbers)}",
            facts_most=0,
            partition_counts={TOPIC: behaviour.partitions},
        )
        self._order = count()
        self._next: list[tuple[int, int, Callable[[], None]]] = []
        self._answers: deque[Callable[[], None]] = deque()
        self._clients: list[ModelClient] = []
        self._by_id: dict[str, ModelClient] = {}
        self._vanished: dict[str, int] = {}
        """Member id of a vanished client -> when it vanished."""
        policy = settings.policy or behaviour.policy_at(end_ms)
        self._measures = Measures(behaviour.partitions, policy.target_size)
        self._outcome = Outcome()
        self._asked: set[str] = set()
        self._started_ms: int | None = None

    # -- running -------------------------------------------------------------------------------

    def run(self, lives: Sequence[Life]) -> Outcome:
        self.now = min((life.start_ms for life in lives), default=0)
        self._take(self._partition.activate(self.now, self.now))
        for life in lives:
            self.at(life.start_ms, partial(self._start, life))
        for when, name in self.behaviour.changes:
            self.at(when, partial(self._change, name))
        for when, policy in self.behaviour.policies if self._settings.policy is None else ():
            self._set_policy(policy) if when <= self.now else self.at(
                when, partial(self._set_policy, policy)
            )
        for _ in range(MOST_STEPS):
            if not self._go_on():
                return self._summed_up()
        raise GivenUp(f"no end after {MOST_STEPS:,} steps")

    def _summed_up(self) -> Outcome:
        self._stable_again()
        outcome, sums = self._outcome, self._measures
        for name in ("unowned_ms", "unread_ms", "paused_ms", "reserved_ms", "imbalance_ms"):
            setattr(outcome, name, getattr(sums, name))
        outcome.moved = sums.moves.total()
        outcome.moved_most = max(sums.moves.values(), default=0)
        return outcome

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
        self._measures.passed(min(when, self._end_ms) - self.now)
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
        caller = Caller(version, client.peer)
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
                self._notice_asked()
                return
            replies, facts = self._partition.written(unwritten, (self.now, self.now))

    def _notice_asked(self) -> None:
        """Let clients send the heartbeat that shows them that they are asked to rejoin."""
        group = self._group
        asked = group.asked.keys() if group is not None else set[str]()
        self._outcome.asks += len(asked - self._asked)
        self._asked = set(asked)
        for member_id in self._asked:
            if member_id in self._by_id:
                self._by_id[member_id].notice()

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
        silent_ms = until_ms - self.now + client.life.silent_ms
        client.pause(is_outlived=silent_ms < client.session_timeout_ms)
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

    def _set_policy(self, policy: Policy) -> None:
        configs = policy.as_configs() if policy.is_on else {}
        request, token = GroupConfigsRequest(GROUP, configs), _Token(lambda answer: None)
        now = self.now, self.now
        self._take(self._partition.handle(request, Caller(0, Peer("", "")), token, now))

    def plan(self, owned: dict[str, list[int]]) -> dict[str, list[int]]:
        """Assign even shares: ranges if members are eager, else they keep what they can."""
        if self.is_cooperative:
            return shared(owned, self.behaviour.partitions)
        return ranges(owned, self.behaviour.partitions)

    def assigned(self, client: ModelClient) -> None:
        """Count the partitions of a client anew: they changed, or it began or ceased to read."""
        if client.is_running:
            self._measures.reads(client, client.owned, client.share)
        else:
            self._measures.reads(client, (), None)
        is_silent = client.is_paused and client.is_outlived and not client.is_over
        self._measures.pauses(client, len(client.owned) if is_silent else 0)
        if client.is_alive:
            self._measures.owns(client.member_id, len(client.owned))

    def given(self, client: ModelClient) -> None:
        """Count the partitions that moved to a client: it has an assignment."""
        group = self._group
        is_asked = group is not None and client.member_id in group.asked
        by = client.generation, f"{client.member_id} {self.now}" if is_asked else ""
        self._measures.given(client.life.client, by, client.owned)

    def rejoins(self) -> None:
        """Count a JoinGroup of a member that did nothing to cause it."""
        self._outcome.rejoins += 1

    # -- the coordinator -----------------------------------------------------------------------

    @property
    def _group(self) -> Group | None:
        return self._partition.groups.get(GROUP)

    def awaits_beat(self, client: ModelClient) -> bool:
        """Whether the next heartbeat matters: it is answered with REBALANCE_IN_PROGRESS, or shows
        that the client is at rest after it was asked to rejoin.
        """
        group = self._group
        if group is None:
            return False
        return group.state is GroupState.PREPARING_REBALANCE or client.member_id in group.asked

    def _timer(self, client: ModelClient) -> Timer:
        return Timer(TimerKind.SESSION, GROUP, client.member_id)

    def _keep_alive(self, due: int, until_ms: int) -> int | None:
        """Extend the sessions of clients that send heartbeats, and put off the looks at assignments
        that are as they should be; returns the next deadline.
        """
        sessions, group = self._partition.deadlines.due, self._group
        looks = Timer(TimerKind.STEP, GROUP)
        moves = group.moves if group is not None else None
        if looks in sessions and moves is not None and group is not None:
            is_settled = moves.settled == group.changes
            sessions[looks] = max(sessions[looks], until_ms) if is_settled else sessions[looks]
        for client in self._clients:
            if client.is_alive and sessions.get(self._timer(client), _NEVER_MS) <= until_ms:
                sessions[self._timer(client)] = until_ms + client.session_timeout_ms
        return self._partition.next_deadline()

    def _last_request(self, client: ModelClient) -> None:
        """Start the session timeout with the client's last request, undoing any extension."""
        timer, deadlines = self._timer(client), self._partition.deadlines
        if timer in deadlines.due:
            heard_ms = self.now - client.life.silent_ms
            deadlines.set(timer, max(self.now, heard_ms + client.session_timeout_ms))

    def _note(self, fact: Fact) -> None:
        outcome = self._outcome
        if isinstance(fact, RebalanceStarted):
            outcome.rounds += 1
            if self._started_ms is None:
                self._started_ms = self.now
            for client in self._clients:
                client.notice()
        elif isinstance(fact, RebalanceJoined):
            outcome.generations += 1
        elif isinstance(fact, RebalanceCompleted):
            self._stable_again()
            if self._measures.has_reserved:
                for member, _, assignment in fact.assignments:
                    self._measures.plans(member, assigned_in(assignment))
        elif isinstance(fact, RebalanceAbandoned):
            if fact.state in (GroupState.EMPTY, GroupState.DEAD):
                self._stable_again()
        else:
            self._note_member(fact)

    def _note_member(self, fact: Fact) -> None:
        outcome = self._outcome
        if isinstance(fact, MemberReplaced):
            outcome.replaced += 1
            self._measures.replaced(fact.old_member, fact.who.member)
            self._vanished.pop(fact.old_member, None)
        elif isinstance(fact, SeatReserved):
            self._measures.reserves(fact.who.member, assigned_in(fact.assignment))
        elif isinstance(fact, MemberRemoved):
            self._measures.removed(fact.who.member)
            since = self._vanished.pop(fact.who.member, None)
            if since is not None and fact.cause.code in _SILENT:
                outcome.detections.append(self.now - since)

    def _stable_again(self) -> None:
        if self._started_ms is None:
            return
        self._outcome.not_stable_ms += self.now - self._started_ms
        self._started_ms = None
