"""A model of a consumer: its requests over time, and its reactions to answers.

It follows Kafka's Java consumer (`AbstractCoordinator`, `ConsumerCoordinator`): a heartbeat shows a
rebalance, the next poll rejoins, an unknown member joins with a new id, a fenced one ends. While it
is paused it sends nothing, and answers wait.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from groupkeeper.analytics.what_if.lives import Behaviour, Life
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
PROTOCOL_TYPE: Final = "what-if"
"""Not `consumer`: the metadata have a format of the model."""
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

    @property
    def is_rebalancing(self) -> bool:
        """Whether a heartbeat would be answered with REBALANCE_IN_PROGRESS."""

    def at(self, when_ms: int, do: Callable[[], None]) -> None: ...

    def send(
        self, client: "ModelClient", version: int, request: Message, then: OnAnswer
    ) -> None: ...

    def plan(self, owned: dict[str, list[int]]) -> dict[str, list[int]]:
        """Return the new assignment, from the owned partitions of each member."""

    def assigned(self, client: "ModelClient") -> None:
        """Count the partitions of a client anew: they changed, or it began or ceased to read."""


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
        self.world.assigned(self)

    def ask_for_a_rebalance(self) -> None:
        """Rejoin with a changed subscription, or changed partitions that the leader saw."""
        if self.is_settled and not self.is_paused and not self.is_over:
            self.join(changed=True)

    def notice(self) -> None:
        """A rebalance began: schedule the heartbeat that will show it."""
        if self.notices or self.is_over or not self.is_settled:
            return
        self.notices = True
        interval = self.world.behaviour.heartbeat_ms
        ahead = -(self.world.now - self.life.start_ms) % interval
        self.world.at(self.world.now + ahead, self._noticed)

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
        mine = ",".join(map(str, self.owned)) if self.world.is_cooperative else ""
        mark = f"{self.world.now}" if changed else ""
        protocol = JoinGroupRequestProtocol(name="model", metadata=f"{mine};{mark}".encode())
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type=PROTOCOL_TYPE,
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
            protocol_type=PROTOCOL_TYPE,
            protocol_name="model",
            assignments=[
                SyncGroupRequestAssignment(
                    member_id=name, assignment=",".join(map(str, share)).encode()
                )
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
            if answer.leader != answer.member_id or answer.skip_assignment:  # KIP-814
                self._sync({})
            else:
                owned = {
                    each.member_id: _numbers(each.metadata.partition(b";")[0])
                    for each in answer.members
                }
                plan = self.world.plan(owned)
                self.world.at(
                    self.world.now + self.world.behaviour.leader_ms, lambda: self._sync(plan)
                )

    def _synced(self, answer: SyncGroupResponse) -> None:
        if answer.error_code:
            if not self._is_out(answer.error_code):
                self.join()
            return
        before = self.owned
        self._own(_numbers(answer.assignment))
        self.is_settled = True
        if self.world.is_cooperative and set(before) - set(self.owned):
            self.join()  # KIP-429: revoked partitions can be reassigned now
        elif self.world.is_rebalancing:
            self.notice()

    def _is_out(self, code: int) -> bool:
        """Return whether the client ended. An unknown member resets its id first."""
        if code == ErrorCode.FENCED_INSTANCE_ID:
            self._stop()
        elif code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._own([])
            self.member_id, self.generation = "", -1
        return self.is_over

    def _own(self, numbers: list[int]) -> None:
        self.owned = numbers
        self.world.assigned(self)


def _numbers(text: bytes) -> list[int]:
    return [int(each) for each in text.split(b",") if each]
