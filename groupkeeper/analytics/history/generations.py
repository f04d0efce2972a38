"""A group record taken apart: the members of a generation, what they subscribe to and own.

Members keep, from one record to the next, what an inference asks for: since when they are there,
and a digest of their subscription.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Final, NamedTuple

from groupkeeper.protocol.embedded import decode_subscription, read_assigned, read_topics
from groupkeeper.protocol.errors import DecodeError
from groupkeeper.protocol.records.consumer_offsets import MemberMetadata, decode_group_value
from groupkeeper.why.fields import LAST_MS

_REMEMBERED: Final = 1024
"""Subscriptions, and assignments, that are not decoded again: members repeat theirs in each
record.
"""
_EAGER: Final = frozenset({"range", "roundrobin", "sticky"})
_COOPERATIVE: Final = frozenset({"cooperative-sticky"})
"""Names of the assignors of Kafka's clients."""


class Subscription(NamedTuple):
    """Of a member: a digest of its bytes; version, topics (sorted), and how many partitions it
    said that it owned. Null if the bytes are not of the consumer protocol, or do not say it.
    """

    digest: str
    version: int | None
    topics: tuple[str, ...] | None
    owned: int | None


@dataclass(slots=True)
class Member:
    """A member, and its session under this member id. Times are Unix milliseconds."""

    member: str
    instance: str | None
    client_id: str
    host: str
    session_ms: int
    rebalance_ms: int
    digest: str
    topics: tuple[str, ...] | None
    from_ms: int | None = None
    """The end of the join phase in which it joined, or its restart; None if that was not read."""
    heard_ms: int = 0
    """When it answered for the last time, as far as group records say."""
    began_as: str = "unknown"
    old_member: str | None = None
    away_ms: int | None = None

    @property
    def identity(self) -> str:
        """The same for a client before and after a restart, if it is the only one."""
        return self.instance if self.instance is not None else f"{self.client_id}\0{self.host}"


@dataclass(slots=True)
class Generation:
    """A group record with a value. `assigned`: member id -> topic -> partitions; null if the bytes
    are not of the consumer protocol. Subscriptions are in the order of members.
    """

    generation: int
    protocol_type: str | None
    protocol: str | None
    leader: str | None
    state_ms: int | None
    members: dict[str, Member]
    subscriptions: list[Subscription] = field(default_factory=list)
    assigned: dict[str, Mapping[str, list[int]] | None] = field(default_factory=dict)

    @property
    def is_cooperative(self) -> bool | None:
        """Whether members keep partitions during a rebalance; None if that is not known."""
        if self.protocol in _EAGER:
            return False
        if self.protocol in _COOPERATIVE or any(each.owned for each in self.subscriptions):
            return True
        return None

    @property
    def partitions(self) -> int | None:
        """How many are assigned."""
        shares = self.assigned.values()
        if any(each is None for each in shares):
            return None
        return sum(len(some) for each in shares if each for some in each.values())


def read_generation(value: bytes) -> Generation:
    """Raises DecodeError. Of a repeated member id, which no coordinator writes, the last counts."""
    decoded = decode_group_value(value)
    found = Generation(
        decoded.generation,
        decoded.protocol_type or None,
        decoded.protocol,
        decoded.leader,
        instant(decoded.current_state_timestamp),
        {},
    )
    subscriptions = {}
    for each in decoded.members:
        subscription = _subscription(each.subscription)
        subscriptions[each.member_id] = subscription
        found.members[each.member_id] = _member(each, subscription)
        found.assigned[each.member_id] = _assigned(each.assignment) if each.assignment else {}
    found.subscriptions = [*subscriptions.values()]
    return found


def instant(ms: int) -> int | None:
    """A time in Unix milliseconds; None if it is unknown (negative) or behind the year 9999."""
    return ms if 0 <= ms <= LAST_MS else None


def _member(each: MemberMetadata, subscription: Subscription) -> Member:
    return Member(
        each.member_id,
        each.group_instance_id,
        each.client_id,
        each.client_host.removeprefix("/"),
        each.session_timeout,
        each.rebalance_timeout,
        subscription.digest,
        subscription.topics,
    )


@lru_cache(_REMEMBERED)
def _assigned(data: bytes) -> Mapping[str, list[int]] | None:
    return read_assigned(data)


@lru_cache(_REMEMBERED)
def _subscription(data: bytes) -> Subscription:
    digest = blake2b(data, digest_size=8).hexdigest()
    read = read_topics(data)
    if read is None:
        return Subscription(digest, None, None, None)
    version, owned = int.from_bytes(data[:2], "big"), None
    if version >= 1:
        try:
            told = decode_subscription(data).owned_partitions
            owned = sum(len(each.partitions) for each in told)
        except DecodeError:
            version = 0
    return Subscription(digest, version, tuple(sorted(read[0])), owned)
