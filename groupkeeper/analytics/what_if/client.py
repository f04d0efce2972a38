"""A model of a consumer: its requests over time, and its reactions to answers.

It follows Kafka's Java consumer (`AbstractCoordinator`, `ConsumerCoordinator`): a heartbeat shows a
rebalance, the next poll rejoins, an unknown member joins with a new id, a fenced one ends. While it
is paused it sends nothing, and answers wait.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from groupkeeper.analytics.what_if.behaviour import BEATS_WITHIN_MS, Behaviour
from groupkeeper.analytics.what_if.embedded import assigned_in, assignment, owned_in, subscription
from groupkeeper.analytics.what_if.lives import Life
from groupkeeper.coordinator.caller import Peer
from groupkeeper.protocol.embedded import CONSUMER
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.message import Message
from groupkeeper.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from groupkeeper.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from groupkeeper.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from groupkeeper.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

GROUP: Final = "group"
JOIN_VERSION: Final = 9
SYNC_VERSION: Final = 5
HEARTBEAT_VERSION: Final = 4
LEAVE_VERSION: Final = 5

# Any: the response of the request's type.
OnAnswer = Callable[[Any], None]


class _World(Protocol):
    """The parts of the replay that a client uses."""

    now: int
    behaviour: Behaviour
    is_cooperative: bool

    def awaits_beat(self, client: "ModelClient") -> bool:
        """Whether the next heartbeat matters: it is answered with REBALANCE_IN_PROGRESS, or shows
        that the client is at rest after it was asked to rejoin.
        """

    def at(self, when_ms: int, do: Callable[[], None]) -> None: ...

    def send(
        self, client: "ModelClient", version: int, request: Message, then: OnAnswer
    ) -> None: ...

    def plan(self, owned: dict[str, list[int]]) -> dict[str, list[int]]:
        """Return the new assignment, from the owned partitions of each member."""

    def assigned(self, client: "ModelClient") -> None:
        """Count the partitions of a client anew: they changed, or it began or ceased to read."""

    def given(self, client: "ModelClient") -> None:
        """Count the partitions that moved to a client: it has an assignment."""

    def rejoins(self) -> None:
        """Count a JoinGroup of a member that did nothing to cause it."""


@dataclass(eq=False, slots=True)
class ModelClient:
    """One life of a client in the replay."""

    world: _World
    life: Life
    instance: str | None
    session_timeout_ms: int
    rebalance_timeout_ms: int
    member_id: str = ""
    generation: int = -1
    owned: list[int] = field(default_factory=list)
    told_ms: int = 0
    """When the interval of heartbeats began."""
    share: int = 0
    """Number of partitions of the last assignment; the client may have given them up."""
    is_settled: bool = False
    """The client has an assignment and only sends heartbeats."""
    is_paused: bool = False
    is_outlived: bool = False
    """The session is longer than the pause."""
    is_over: bool = False
    notices: bool = False
    """The heartbeat that will show a rebalance is scheduled."""
    waiting: list[Callable[[], None]] = field(default_factory=list)
    """Actions to run after the pause."""
    peer: Peer = field(init=False)
    beats_from_ms: int = field(init=False)
    """The first heartbeat since the client was told its assignment; then one at each interval."""

    def __post_init__(self) -> None:
        self.peer = Peer(self.life.client_id, self.life.host)
        self.beats_from_ms = self.life.start_ms + self.life.beat_offset_ms

    @property
    def is_alive(self) -> bool:
        """Whether the client sends heartbeats."""
        return self.is_running and bool(self.member_id)

    @property
    def is_running(self) -> bool:
        return not self.is_over and not self.is_paused

    # -- events --------------------------------------------------------------------------------

    def pause(self, *, is_outlived: bool) -> None:
        """Send nothing for some time, which the session outlives or not."""
        self.is_paused, self.is_outlived = True, is_outlived
        self.world.assigned(self)

    def resume(self) -> None:
        self.is_paused = False
        self.world.assigned(self)
        waiting, self.waiting = self.waiting, []
        for do in waiting:
            do()
        self.beat()

    def end(self) -> bool:
        """End the client. Returns whether it sent a LeaveGroup."""
        told = self.life.is_removed or (self.life.leaves and self.instance is None)
        if told and self.member_id:
            who = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance)
            request = LeaveGroupRequest(group_id=GROUP, members=[who])
            self.world.send(self, LEAVE_VERSION, request, lambda answer: None)
        self._stop()
        return told

    def _stop(self) -> None:
        self.is_over = True
        self.peer.link.closed = not self.life.is_cut_off
        self.world.assigned(self)

    def ask_for_a_rebalance(self) -> None:
        """Rejoin with a changed subscription, or changed partitions that the leader saw."""
        if self.is_settled and not self.is_paused and not self.is_over:
            self.join(changed=True)

    def notice(self) -> None:
        """A rebalance began, or the client is asked: schedule the heartbeat that will show it."""
        if self.notices or self.is_over or not self.is_settled:
            return
        self.notices = True
        self.world.at(self._next_beat_ms(), self._noticed)

    def _next_beat_ms(self) -> int:
        """When the next heartbeat is sent."""
        behaviour, now = self.world.behaviour, self.world.now
        heard_ms = behaviour.heard_next(self.life.client, self.told_ms, now)
        if heard_ms is not None:
            return heard_ms
        if self.beats_from_ms >= now:
            return self.beats_from_ms
        return now + (self.beats_from_ms - now) % behaviour.heartbeat_ms

    def _noticed(self) -> None:
        self.notices = False
        self.beat()

    # -- requests ------------------------------------------------------------------------------

    def beat(self) -> None:
        if self.is_over or self.is_paused or not self.is_settled:
            return
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
        )
        self.world.send(self, HEARTBEAT_VERSION, request, self._beaten)

    def join(self, *, changed: bool = False) -> None:
        if self.is_over:
            return
        if self.is_paused:
            self.waiting.append(lambda: self.join(changed=changed))
            return
        self.is_settled = False
        if not self.world.is_cooperative:
            self._own([])  # an eager consumer gives up all partitions before it rejoins
        if self.generation >= 0 and not changed:
            self.world.rejoins()
        metadata = subscription(self.owned, f"{self.world.now}" if changed else "")
        protocol = JoinGroupRequestProtocol(name="model", metadata=metadata)
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type=CONSUMER,
            protocols=[protocol],
        )
        self.world.send(self, JOIN_VERSION, request, self._joined)

    def _sync(self, plan: dict[str, list[int]]) -> None:
        if self.is_over:
            return
        if self.is_paused:
            self.waiting.append(lambda: self._sync(plan))
            return
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type=CONSUMER,
            protocol_name="model",
            assignments=[
                SyncGroupRequestAssignment(member_id=name, assignment=assignment(share))
                for name, share in plan.items()
            ],
        )
        self.world.send(self, SYNC_VERSION, request, self._synced)

    # -- answers -------------------------------------------------------------------------------

    def _beaten(self, answer: HeartbeatResponse) -> None:
        if not answer.error_code or not self.is_settled or self._is_out(answer.error_code):
            return
        self.is_settled = False
        behaviour, now = self.world.behaviour, self.world.now
        self.world.at(behaviour.free_at(self.life.client, now + behaviour.rejoin_ms), self.join)

    def _joined(self, answer: JoinGroupResponse) -> None:
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            self.join()
        elif answer.error_code:
            if not self._is_out(answer.error_code):
                self.join()
        else:
            self.member_id, self.generation = answer.member_id, answer.generation_id
            self._begin_interval()
            if answer.leader != answer.member_id or answer.skip_assignment:  # KIP-814
                self._sync({})
            else:
                owned = {each.member_id: owned_in(each.metadata) for each in answer.members}
                plan = self.world.plan(owned)
                takes_ms = self.world.behaviour.leader_takes(self.world.now)
                self.world.at(self.world.now + takes_ms, lambda: self._sync(plan))

    def _synced(self, answer: SyncGroupResponse) -> None:
        if answer.error_code:
            if not self._is_out(answer.error_code):
                self.join()
            return
        before = self.owned
        numbers = assigned_in(answer.assignment)
        self.share = len(numbers)
        self._own(numbers)
        self.world.given(self)
        self.is_settled = True
        if not self.world.behaviour.beats_from_join:
            self._begin_interval()
        if self.world.is_cooperative and set(before) - set(self.owned):
            self.join()  # KIP-429: revoked partitions can be reassigned now
        elif self.world.awaits_beat(self):
            self.notice()

    def _begin_interval(self) -> None:
        """Begin the interval of heartbeats anew, if clients do that."""
        behaviour = self.world.behaviour
        self.told_ms = self.world.now
        if behaviour.beats_anew and not (behaviour.begins_long_ago and self.generation <= 1):
            first_ms = self.world.now + behaviour.heartbeat_ms
            self.beats_from_ms = first_ms + self.life.beat_offset_ms % BEATS_WITHIN_MS

    def _is_out(self, code: int) -> bool:
        """Return whether the client ended. An unknown member resets its id first."""
        if code == ErrorCode.FENCED_INSTANCE_ID:
            self._stop()
        elif code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.share = 0
            self._own([])
            self.member_id, self.generation = "", -1
        return self.is_over

    def _own(self, numbers: list[int]) -> None:
        self.owned = numbers
        self.world.assigned(self)
