"""Who the fuzzer's clients are and what they have learned from the server's answers.

A person is one client process: it knows its group, its member id, its generation. What it was
answered decides what it sends next, and that is how deep states are reached. No sending here.
"""

from collections import deque
from dataclasses import dataclass, field
from random import Random
from typing import Any

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.heartbeat import HeartbeatResponse
from groupkeeper.protocol.messages.init_producer_id import InitProducerIdResponse
from groupkeeper.protocol.messages.join_group import JoinGroupResponse
from groupkeeper.protocol.messages.leave_group import LeaveGroupResponse
from groupkeeper.protocol.messages.metadata import MetadataResponse
from groupkeeper.protocol.messages.sync_group import SyncGroupResponse

OUT, WAITING, JOINED, STABLE = "out", "waiting", "joined", "stable"
FORGOTTEN = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID}


@dataclass(eq=False)
class Person:
    """One client process, as far as it knows itself."""

    group_id: str
    instance_id: str | None
    client_id: str | None
    member_id: str = ""
    generation: int = -1
    phase: str = OUT
    plan_for: list[str] = field(default_factory=list)
    """The members of the generation, where this one leads it."""
    producer_id: int = -1
    producer_epoch: int = -1
    sequence: int = 0

    def asks(self, key: int) -> None:
        """Sends a request; whoever waits for its group does not join a second time."""
        if key == ApiKey.JOIN_GROUP:
            self.phase = WAITING

    def loses(self, key: int) -> None:
        """The connection broke before the answer."""
        if key == ApiKey.JOIN_GROUP and self.phase == WAITING:
            self.phase = OUT

    def learn(self, response: Any) -> None:
        """Heed an answer as clients do."""
        match response:
            case JoinGroupResponse():
                self._joined(response)
            case SyncGroupResponse() | HeartbeatResponse():
                self._heed(response.error_code)
                if isinstance(response, SyncGroupResponse) and response.error_code == 0:
                    self.phase = STABLE
            case LeaveGroupResponse(error_code=0):
                self._forget()
            case InitProducerIdResponse(error_code=0):
                self.producer_id, self.producer_epoch = response.producer_id, 0
                self.sequence = 0

    def _joined(self, response: JoinGroupResponse) -> None:
        self.phase = OUT
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
        elif response.error_code == ErrorCode.NONE:
            self.member_id, self.generation = response.member_id, response.generation_id
            self.plan_for = [member.member_id for member in response.members]
            self.phase = JOINED
        else:
            self._heed(response.error_code)

    def _heed(self, error: int) -> None:
        if error in FORGOTTEN:
            self._forget()
        elif error in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
            self.phase = OUT

    def _forget(self) -> None:
        self.member_id, self.generation, self.phase, self.plan_for = "", -1, OUT, []


class Town:
    """The people of one round and the names they use; every round has other names."""

    def __init__(self, name: str, chance: Random) -> None:
        self.groups = [f"{name}-group-{n}" for n in range(4)]
        self.topics = [f"{name}-topic-{n}" for n in range(5)]
        self.people = [
            Person(
                chance.choice(self.groups),
                f"{name}-instance-{chance.randrange(4)}" if number % 3 == 0 else None,
                chance.choice([None, "", "c", "größe", f"client-{number}"]),
            )
            for number in range(14)
        ]
        self.topic_ids: dict[str, bytes] = {}
        self.frames: deque[bytes] = deque(maxlen=50)
        """Frames sent lately: what mutations splice."""

    def learn(self, person: Person | None, response: Any) -> None:
        if isinstance(response, MetadataResponse):
            for topic in response.topics:
                if topic.name in self.topics and any(topic.topic_id):
                    self.topic_ids[topic.name] = topic.topic_id
        if person is not None:
            person.learn(response)
