"""A model of one member of a group, as a client is one: what it sends, and what answers mean to it.

`Membership` holds what the coordinator has told it and makes requests of that. It sends nothing, so
it serves clients on sockets, on an event loop under virtual time, and on a server in memory.
`Member` is one on a blocking connection.

Other models are apart for a reason: people of the core's tests and of the transcripts say what no
client says (`Scene`, tests/parity/people.py), those of the fuzzer choose what they send by their
phase (tests/fuzz/town.py), and real libraries are processes (tests/kills, tests/truth).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from groupkeeper.protocol.embedded import (
    Assignment,
    Subscription,
    TopicPartition,
    decode_assignment,
)
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.heartbeat import HeartbeatRequest
from groupkeeper.protocol.messages.join_group import JoinGroupRequest
from groupkeeper.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from groupkeeper.protocol.messages.offset_commit import OffsetCommitRequest
from groupkeeper.protocol.messages.sync_group import SyncGroupRequest
from tests.support.codecs import encode_assignment, encode_subscription
from tests.support.requests import (
    Places,
    codes_of,
    commit_request,
    heartbeat,
    join_request,
    sync_request,
)
from tests.support.wire import Client

RETRY = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
"""The same request again, a little later."""
FORGET = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION}
"""A member that was removed: it joins anew."""


@dataclass(eq=False)
class Membership:
    """The member of a group, from its first JoinGroup on; static with an instance id."""

    group_id: str
    instance_id: str | None = None
    session_ms: int = 10_000
    rebalance_ms: int = 60_000
    protocol: str = "range"
    metadata: bytes | None = None
    """Subscription; to `orders` without."""
    member_id: str = ""
    generation: int = -1
    """-1: it has to join."""
    is_fenced: bool = False

    # -- requests ------------------------------------------------------------------------------

    def join_request(self) -> JoinGroupRequest:
        request = join_request(
            self.group_id,
            self.member_id,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=self.rebalance_ms,
            group_instance_id=self.instance_id,
        )
        request.protocols[0].name = self.protocol
        if self.metadata is not None:
            request.protocols[0].metadata = self.metadata
        return request

    def sync_request(self, plan: Mapping[str, bytes] | None = None) -> SyncGroupRequest:
        """`plan`: assignment by member id, of a leader."""
        request = sync_request(self.member_id, self.generation, self.group_id, plan)
        request.group_instance_id, request.protocol_name = self.instance_id, self.protocol
        return request

    def heartbeat_request(self) -> HeartbeatRequest:
        return heartbeat(self.member_id, self.generation, self.group_id, self.instance_id)

    def commit_request(self, places: Places) -> OffsetCommitRequest:
        request = commit_request(places, self.group_id, self.member_id, self.generation)
        request.group_instance_id = self.instance_id
        return request

    def leave_request(self, reason: str | None = None) -> LeaveGroupRequest:
        who = MemberIdentity(
            member_id=self.member_id, group_instance_id=self.instance_id, reason=reason
        )
        return LeaveGroupRequest(group_id=self.group_id, members=[who])

    # -- answers -------------------------------------------------------------------------------

    def take_join(self, answer: Any) -> list[str]:
        """Enter the generation of a JoinGroup response without an error; the ids of all members for
        a leader that has to assign, in their order.
        """
        self.member_id, self.generation = answer.member_id, answer.generation_id
        return [] if answer.skip_assignment else [each.member_id for each in answer.members]

    def heed(self, error: int) -> None:
        """React to the error of any other response as clients do. AssertionError for one that no
        client knows.
        """
        if error in FORGET:
            self.generation, self.member_id = -1, ""
        elif error == ErrorCode.REBALANCE_IN_PROGRESS:
            self.generation = -1
        elif error == ErrorCode.FENCED_INSTANCE_ID:
            self.is_fenced = True
        else:
            assert error in {ErrorCode.NONE, *RETRY}, ErrorCode(error)


def subscription(*topics: str, version: int = 1) -> bytes:
    return encode_subscription(Subscription(version=version, topics=list(topics)))


def share_of(topic: str, partitions: Sequence[int], version: int = 1) -> bytes:
    """An assignment as consumers' assignors write it."""
    mine = [TopicPartition(topic=topic, partitions=[*partitions])] if partitions else []
    return encode_assignment(Assignment(version=version, assigned_partitions=mine))


def partitions_in(assignment: bytes) -> list[int]:
    """The partitions of all topics in an assignment."""
    topics = decode_assignment(assignment).assigned_partitions
    return [each for topic in topics for each in topic.partitions]


def dealt(
    member_ids: Sequence[str], topic: str, partitions: int, version: int = 1
) -> dict[str, bytes]:
    """A plan that deals out partitions, one after the other."""
    return {
        who: share_of(topic, range(number, partitions, len(member_ids)), version)
        for number, who in enumerate(member_ids)
    }


class Member(Membership):
    """A member on a connection that blocks until the answer is there. JoinGroup is sent in a
    version without the second step of dynamic members (KIP-394).
    """

    def __init__(self, client: Client, group_id: str, instance_id: str | None = None, **more: Any):
        super().__init__(group_id, instance_id, **more)
        self.client = client

    def ask_join(self) -> None:
        self.client.send(3 if self.instance_id is None else 5, self.join_request())

    def joined(self) -> list[str]:
        """Take the answer to JoinGroup; the ids of all members for the leader."""
        answer = self.client.take()
        assert answer.error_code == 0, answer
        return self.take_join(answer)

    def synced(self, plan: Mapping[str, bytes] | None = None) -> bytes:
        """The assignment."""
        version = 1 if self.instance_id is None else 3
        answer = self.client.call(version, self.sync_request(plan))
        assert answer.error_code == 0, answer
        return bytes(answer.assignment)

    def settle(self, share: bytes = b"share") -> "Member":
        """Form a group alone: Stable, with this assignment."""
        self.ask_join()
        self.joined()
        assert self.synced({self.member_id: share}) == share
        return self

    def beat(self) -> int:
        """The error code."""
        return int(self.client.call(3, self.heartbeat_request()).error_code)

    def committed(self, places: Places) -> set[int]:
        """The error codes of all partitions."""
        return {*codes_of(self.client.call(7, self.commit_request(places))).values()}

    def leave(self, reason: str | None = None) -> Any:
        return self.client.call(3 if reason is None else 5, self.leave_request(reason))
