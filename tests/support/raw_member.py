"""Members of a group over the wire, one request at a time, for tests of the test bench.

lea, fred = member(broker, "lea"), member(broker, "fred")
settle(lea, fred)
"""

from socket import create_connection
from typing import Any

from groupkeeper.protocol.embedded import Assignment, TopicPartition
from groupkeeper.protocol.messages.join_group import JoinGroupRequest
from groupkeeper.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from groupkeeper.testing import Broker
from tests.support.codecs import encode_assignment
from tests.support.requests import commit_request, heartbeat, join_request, sync_request
from tests.support.wire import ANSWER_S, Address, Client

SESSION_MS = 10_000


def address(broker: Broker) -> Address:
    host, port = broker.bootstrap_servers.split(":")
    return host, int(port)


class RawMember(Client):
    """One member; dynamic unless it has an instance id."""

    def __init__(
        self, broker: Broker, name: str, instance: str | None, group: str, session_ms: int
    ) -> None:
        super().__init__(create_connection(address(broker), ANSWER_S), client_id=name)
        self.group = group
        self.instance = instance
        self.session_ms = session_ms
        self.client_id = name
        self.member_id = ""
        self.generation = -1
        self.is_joining = False
        """Its JoinGroup waits for an answer."""
        self.leads: dict[str, None] = {}
        """Ids of all members, if it is the leader."""

    def ask_join(self) -> None:
        request: JoinGroupRequest = join_request(
            self.group, self.member_id, session_timeout_ms=self.session_ms
        )
        request.group_instance_id = self.instance
        self.send(3 if self.instance is None else 5, request)
        self.is_joining = True

    def joined(self) -> None:
        answer = self.take()
        self.is_joining = False
        assert answer.error_code == 0, answer
        self.member_id, self.generation = answer.member_id, answer.generation_id
        self.leads = dict.fromkeys(each.member_id for each in answer.members)

    def synced(self, plan: dict[str, bytes] | None = None) -> None:
        request = sync_request(self.member_id, self.generation, self.group, plan)
        request.group_instance_id = self.instance
        answer = self.call(1 if self.instance is None else 3, request)
        assert answer.error_code == 0, answer

    def commit(self, offset: int, topic: str = "orders", partition: int = 0) -> int:
        request = commit_request(
            {(topic, partition): offset}, self.group, self.member_id, self.generation
        )
        return int(self.call(7, request).topics[0].partitions[0].error_code)

    def beat(self) -> int:
        request = heartbeat(self.member_id, self.generation, self.group, self.instance)
        return int(self.call(3, request).error_code)

    def leave(self) -> Any:
        """With the reason that clients give (KIP-800)."""
        identity = MemberIdentity(
            member_id=self.member_id, group_instance_id=self.instance, reason="it was closed"
        )
        return self.call(5, LeaveGroupRequest(group_id=self.group, members=[identity]))


def assignment(partitions: list[int], topic: str = "orders") -> bytes:
    """As the assignors of consumers write it."""
    topics = [TopicPartition(topic=topic, partitions=partitions)] if partitions else []
    return encode_assignment(Assignment(assigned_partitions=topics))


def member(
    broker: Broker,
    name: str,
    *,
    instance: str | None = None,
    group: str = "billing",
    session_ms: int = SESSION_MS,
) -> RawMember:
    """A member that has not joined yet; to be closed."""
    return RawMember(broker, name, instance, group, session_ms)


def settle(*members: RawMember, plan: dict[str, list[int]] | None = None) -> None:
    """A whole round: all join, unless they are joining, and get partitions of `orders` by their
    client ids; without a plan one each, in their order. If all are new, the first one has a round
    of its own before, as there is no initial delay.
    """
    old = [each for each in members if each.member_id]
    if not old and len(members) > 1:
        settle(members[0])
        old = [members[0]]
    for each in [*(each for each in members if each not in old), *old]:
        if not each.is_joining:
            each.ask_join()
    for each in members:
        each.joined()
    wanted = plan or {each.client_id: [number] for number, each in enumerate(members)}
    leader = next(each for each in members if each.member_id in each.leads)
    leader.synced({each.member_id: assignment(wanted.get(each.client_id, [])) for each in members})
    for each in members:
        if each is not leader:
            each.synced()
