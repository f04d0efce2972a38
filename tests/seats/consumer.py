"""A simulated consumer: what a process believes to hold, and how it heeds answers, as Java's does.

An eager one gives everything up before it sends JoinGroup. A cooperative one goes on with what it
holds, says so in its metadata, and gives up what the next assignment lacks; then it joins again. A
process that is paused does nothing, and believes what it was told last until an answer says
otherwise. Time, the network and its end are in the hands of `tests.seats.life`.
"""

from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from groupkeeper.coordinator.caller import Peer
from groupkeeper.protocol.embedded import (
    Subscription,
    TopicPartition,
    decode_subscription,
    read_assigned,
)
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.heartbeat import HeartbeatRequest
from groupkeeper.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from groupkeeper.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from groupkeeper.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from groupkeeper.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.seats.plans import Place, encoded, plan
from tests.support.codecs import encode_subscription
from tests.support.requests import fetch_request
from tests.support.scene import GROUP, Call, Scene

SESSION_MS: Final = 8_000
REBALANCE_MS: Final = 12_000
BEAT_MS: Final = 2_000
GONE: Final = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION}
"""What the process holds is lost, and it joins as somebody new."""
ENDS: Final = {ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_MAX_SIZE_REACHED}


@dataclass(frozen=True, slots=True)
class Kind:
    """How a process is configured."""

    client_id: str
    host: str
    protocol: str
    eager: bool
    topics: tuple[str, ...] = ("t",)
    instance_id: str | None = None
    join_version: int = 9
    subscription_version: int = 3


@dataclass(eq=False)
class Process:
    """One process, from its start to its end."""

    name: str
    kind: Kind
    scene: Scene
    random: Random
    member_id: str = ""
    generation: int = -1
    held: set[Place] = field(default_factory=set)
    since: int = -1
    """Generation in which it got what it holds."""
    joined: bool = False
    """It has an assignment, and was not told to join again."""
    ended: bool = False
    wakes_ms: int = 0
    """Until then it is paused."""
    busy_ms: int = 0
    """Until then it only beats: its application does not come back to the client."""
    late: float = 0
    """How often it reads an answer late, and sends a heartbeat while it waits for one."""
    cut_ms: int = 0
    """When its connection broke last."""
    told_to_rejoin: int = 0
    """How often a heartbeat said so."""
    positions: dict[Place, int] = field(default_factory=dict)
    _step: Call | None = None
    """The JoinGroup or SyncGroup under way."""
    _asked: list[tuple[Call, tuple[str, int]]] = field(default_factory=list)
    """Other requests under way, and as whom they were sent."""
    _beat_ms: int = 0

    # -- what it does ------------------------------------------------------------------------------

    @property
    def is_awake(self) -> bool:
        return not self.ended and self.scene.now >= self.wakes_ms

    @property
    def is_between_rounds(self) -> bool:
        """It has given something up, and has not joined again."""
        return not self.joined and -1 < self.since == self.generation

    def act(self, *, commits: bool) -> None:
        """Read the answers that are there, and send what comes next."""
        if not self.is_awake:
            return
        self._hear()
        if self.ended or self._step is not None:
            if not self.ended and self._is_late():
                self._beat_ms -= BEAT_MS
                self._beat()
            return
        if self.is_between_rounds and self.random.random() < 0.6:
            return  # giving partitions up takes a while
        if self.scene.now < self.busy_ms:
            self._beat()
            return
        if not self.joined:
            self._join()
            return
        if commits and self.random.random() < 0.7:
            self._commit()
        self._beat()

    def _is_late(self) -> bool:
        return self.late > 0 and self.random.random() < self.late

    def _beat(self) -> None:
        if self.member_id and self.scene.now - self._beat_ms >= BEAT_MS:
            self._beat_ms = self.scene.now
            self._ask(HeartbeatRequest(**self._who()), 4)

    def cut(self) -> None:
        """The connection breaks: no answer comes any more, and the client knows."""
        self.scene.hang_up(self.name)
        self._asked.clear()
        self.cut_ms = self.scene.now
        if self._step is not None:
            self._step, self.joined = None, False

    def leave(self) -> None:
        """End politely; a static member just ends."""
        if self.member_id and self.kind.instance_id is None:
            me = MemberIdentity(member_id=self.member_id)
            self._send(LeaveGroupRequest(group_id=GROUP, members=[me]), 5)
        self.end()

    def end(self) -> None:
        self.ended, self.held = True, set()

    def subscribe(self, *topics: str) -> None:
        """Read other topics from the next rebalance on, which it asks for."""
        self.kind = Kind(
            *(self.kind.client_id, self.kind.host, self.kind.protocol, self.kind.eager, topics),
            *(self.kind.instance_id, self.kind.join_version, self.kind.subscription_version),
        )
        self.joined = False

    def rejoin(self) -> None:
        """Send JoinGroup once more, as if an answer had been lost."""
        self.joined = False

    # -- requests ----------------------------------------------------------------------------------

    def _send(self, request: Any, version: int) -> Call:
        peer = self.scene.peers.get(self.name)
        if peer is None or peer.link.closed:
            self.scene.peers[self.name] = Peer(self.kind.client_id, self.kind.host)
        return self.scene.ask(self.name, request, version)

    def _ask(self, request: Any, version: int) -> None:
        as_whom = self.member_id, self.generation
        self._asked.append((self._send(request, version), as_whom))

    def _who(self) -> dict[str, Any]:
        return {
            "group_id": GROUP,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.kind.instance_id,
        }

    def _join(self) -> None:
        kind = self.kind
        kept = set() if kind.eager else {each for each in self.held if each[0] in kind.topics}
        self._hold(kept)
        protocol = JoinGroupRequestProtocol(name=kind.protocol, metadata=self._metadata())
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS if kind.join_version else -1,
            member_id=self.member_id,
            group_instance_id=kind.instance_id,
            protocol_type="consumer",
            protocols=[protocol],
        )
        self._step = self._send(request, kind.join_version)

    def _metadata(self) -> bytes:
        """The subscription, with what it holds from version 1 on."""
        numbers: dict[str, list[int]] = {}
        for topic, number in sorted(self.held):
            numbers.setdefault(topic, []).append(number)
        version = self.kind.subscription_version
        told = Subscription(version=version, topics=list(self.kind.topics))
        if version:
            told.owned_partitions = [
                TopicPartition(topic=topic, partitions=each) for topic, each in numbers.items()
            ]
        if version > 1:
            told.generation_id = self.since if self.held else -1
        return encode_subscription(told)

    def _sync(self, shares: dict[str, set[Place]]) -> None:
        version = 5 if self.kind.join_version >= 7 else 3
        names = {"protocol_type": "consumer", "protocol_name": self.kind.protocol}
        assignments = [
            SyncGroupRequestAssignment(member_id=each, assignment=encoded(share))
            for each, share in shares.items()
        ]
        request = SyncGroupRequest(
            **self._who(), **(names if version >= 5 else {}), assignments=assignments
        )
        self._step = self._send(request, version)

    def _commit(self) -> None:
        """Where it has come to, of all that it holds; first it asks where to begin."""
        unknown = sorted(self.held - self.positions.keys())
        if unknown:
            numbers: dict[str, list[int]] = {}
            for topic, number in unknown:
                numbers.setdefault(topic, []).append(number)
            self._ask(fetch_request(GROUP, topics=numbers), 8)
        rows: dict[str, list[OffsetCommitRequestPartition]] = {}
        for place in sorted(self.held & self.positions.keys()):
            self.positions[place] += self.random.randrange(1, 9)
            row = OffsetCommitRequestPartition(
                partition_index=place[1], committed_offset=self.positions[place]
            )
            rows.setdefault(place[0], []).append(row)
        if not rows:
            return
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            group_instance_id=self.kind.instance_id,
            topics=[OffsetCommitRequestTopic(name=t, partitions=r) for t, r in rows.items()],
        )
        self._ask(request, 8)

    # -- answers -----------------------------------------------------------------------------------

    def _hear(self) -> None:
        answered = [e for e in self._asked if not e[0].parked and not self._is_late()]
        self._asked = [each for each in self._asked if each not in answered]
        for call, as_whom in answered:
            if as_whom == (self.member_id, self.generation) and not self.ended:
                self._heed_other(call)
        call_, self._step = self._step, None
        if call_ is not None and call_.parked:
            self._step = call_
        elif call_ is not None and call_.api == "JoinGroup":
            self._heed_join(call_)
        elif call_ is not None:
            self._heed_sync(call_)

    def _heed_other(self, call: Call) -> None:
        if call.api == "OffsetFetch":
            self._take_positions(call.response)
            return
        if call.api == "OffsetCommit" and call.outcome == "NONE":
            return
        self._heed(ErrorCode[call.outcome])

    def _take_positions(self, response: Any) -> None:
        for topic in response.groups[0].topics:
            for row in topic.partitions:
                place = topic.name, row.partition_index
                if place in self.held and place not in self.positions:
                    self.positions[place] = max(row.committed_offset, 0)

    def _heed(self, error: ErrorCode) -> None:
        """Of anything but JoinGroup."""
        if error == ErrorCode.NONE:
            return
        self.joined = False
        self.told_to_rejoin += error == ErrorCode.REBALANCE_IN_PROGRESS
        if error in GONE:
            self._lose_all()
        elif error in ENDS:
            self.end()

    def _lose_all(self) -> None:
        self.member_id, self.generation, self._step = "", -1, None
        self._hold(set())

    def _hold(self, places: set[Place]) -> None:
        self.held = places
        self.positions = {each: at for each, at in self.positions.items() if each in places}

    def _heed_join(self, call: Call) -> None:
        response, error = call.response, ErrorCode(call.response.error_code)
        if error == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            self._join()
        elif error == ErrorCode.NONE:
            self.member_id, self.generation = response.member_id, response.generation_id
            self._sync(self._planned(response))
        else:
            self._heed(error)

    def _planned(self, response: Any) -> dict[str, set[Place]]:
        """What it assigns if it leads, and was not told to leave that."""
        if response.leader != self.member_id or response.skip_assignment:
            return {}
        told = {each.member_id: decode_subscription(each.metadata) for each in response.members}
        return plan(self.kind.protocol, told, self.scene.partition_counts)

    def _heed_sync(self, call: Call) -> None:
        error = ErrorCode(call.response.error_code)
        if error != ErrorCode.NONE:
            self._heed(error)
            return
        given = assigned(call.response.assignment)
        strange = {topic for topic, _ in given} - {*self.kind.topics}
        assert not strange, f"{self.name} does not read {strange}"
        gives_up = self.held - given
        if self.kind.eager:
            assert not self.held
        self._hold(given)
        self.since, self.joined = self.generation, not gives_up
        self._beat_ms = self.scene.now


def assigned(share: bytes) -> set[Place]:
    """What a consumer gets; AssertionError for bytes that Java's cannot read."""
    topics = read_assigned(share)
    assert topics is not None, f"no assignment: {share!r}"
    return {(topic, number) for topic, numbers in topics.items() for number in numbers}
