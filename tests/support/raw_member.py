"""Members of a group over the wire, one request at a time, for tests of the test bench.

lea, fred = member(broker, "lea"), member(broker, "fred")
settle(lea, fred)
"""

from typing import Any, Self

from groupkeeper.protocol.message import Message
from groupkeeper.testing import Broker
from tests.support.consumer import Member, share_of
from tests.support.wire import Address, connect

SESSION_MS = 10_000


def address(broker: Broker) -> Address:
    host, port = broker.bootstrap_servers.split(":")
    return host, int(port)


class RawMember(Member):
    """One member with a connection of its own, which closes it; dynamic unless it has an instance
    id.
    """

    def __init__(
        self, broker: Broker, name: str, instance: str | None, group: str, session_ms: int
    ) -> None:
        client = connect(address(broker), client_id=name)
        super().__init__(client, group, instance, session_ms=session_ms)
        self.client_id = name
        self.is_joining = False
        """Its JoinGroup waits for an answer."""
        self.leads: list[str] = []
        """Ids of all members, if it is the leader."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.client.close()

    def send(self, version: int, request: Message) -> None:
        self.client.send(version, request)

    def call(self, version: int, request: Message) -> Any:
        return self.client.call(version, request)

    def ask_join(self) -> None:
        super().ask_join()
        self.is_joining = True

    def joined(self) -> list[str]:
        self.is_joining = False
        self.leads = super().joined()
        return self.leads

    def commit(self, offset: int, topic: str = "orders", partition: int = 0) -> int:
        """The error code."""
        [code] = self.committed({(topic, partition): offset})
        return code

    def leave(self, reason: str | None = "it was closed") -> Any:
        """With the reason that clients give (KIP-800)."""
        return super().leave(reason)


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
    shares = {
        each.member_id: share_of("orders", wanted.get(each.client_id, ()), 0) for each in members
    }
    leader = next(each for each in members if each.member_id in each.leads)
    leader.synced(shares)
    for each in members:
        if each is not leader:
            each.synced()
