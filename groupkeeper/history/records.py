"""Records of groups in an offsets log, and runs of commits between them; and a group record taken
apart: the members of a generation, their subscriptions and partitions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Final, NamedTuple

from groupkeeper.history.rows import RowWriter, instant
from groupkeeper.protocol.embedded import decode_subscription, read_assigned, read_topics
from groupkeeper.protocol.errors import DecodeError
from groupkeeper.protocol.records.consumer_offsets import MemberMetadata, decode_group_value

_REMEMBERED: Final = 1024
"""Subscriptions, and assignments, that are not decoded again: members repeat theirs in each
record."""


REBALANCE, RESET, CONVERTED = "rebalance", "reset", "converted"
"""Kinds of records: see `kind_of`."""


class GroupRecord(NamedTuple):
    """A record about a group, of any key type from 2 on. `batch` is the same for the records of one
    record batch and differs from those before and behind. Of key type 2 the key is not needed.
    """

    offset: int
    time_ms: int
    leader_epoch: int | None
    batch: int
    key_type: int
    group: str
    key: bytes | None
    value: bytes | None


class CommitRun(NamedTuple):
    """Commits of one partition, without one of the group's own records between them. Log offsets
    and times of the first and the last one, and the longest time between two; 0 for a single one.
    """

    first_offset: int
    last_offset: int
    group: str
    topic: str
    partition: int
    first_ms: int
    last_ms: int
    commits: int
    longest_ms: int


class _Subscription(NamedTuple):
    """Of a member: a digest of its bytes; version, topics (sorted), and how many partitions it
    said that it owned. Null if the bytes are not of the consumer protocol, or do not say it.
    """

    digest: str
    version: int | None
    topics: tuple[str, ...] | None
    owned: int | None


@dataclass(slots=True)
class RecordedMember:
    """A member as a record has it. Its host has no slash; `digest` is of its subscription."""

    member: str
    instance: str | None
    client_id: str
    host: str
    session_ms: int
    rebalance_ms: int
    digest: str
    topics: tuple[str, ...] | None
    heard_ms: int = 0
    """When it answered for the last time, as far as group records say."""

    @property
    def who(self) -> dict[str, str | None]:
        """As events have it."""
        return {
            "member": self.member,
            "instance": self.instance,
            "client_id": self.client_id,
            "host": self.host,
        }

    @property
    def client(self) -> tuple[str, str, int, int]:
        """Values that may differ in the next record."""
        return self.client_id, self.host, self.session_ms, self.rebalance_ms

    @property
    def identity(self) -> str:
        """Name of a client that stays over a restart, if it is the only one."""
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
    members: dict[str, RecordedMember]
    subscriptions: list[_Subscription] = field(default_factory=list)
    assigned: dict[str, Mapping[str, list[int]] | None] = field(default_factory=dict)

    @property
    def is_told(self) -> bool:
        """Whether members said that they own partitions when they joined."""
        return any(each.owned for each in self.subscriptions)


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


def kind_of(before: Generation | None, now: Generation) -> str:
    """Kind of change in a record; `before` is None if no value comes before it.

    The order matters: a group that becomes empty also gets a new generation.
    """
    if before is None:
        if now.members:
            return REBALANCE
        return "emptied" if now.generation else "created"
    if now.generation < before.generation:
        return RESET
    if before.members and not now.members:
        return "emptied"
    if now.generation > before.generation:
        return REBALANCE
    return "rewrite" if before.members.keys() == now.members.keys() else "static replacement"


def unwritten(before: Generation | None, now: Generation) -> int:
    """Generations between two records."""
    return 0 if before is None else max(0, now.generation - before.generation - 1)


def write_members(record: GroupRecord, now: Generation, out: RowWriter) -> None:
    """Rows of `members` and `assignments`: whole ones, as a record may have many."""
    at = {
        "group": record.group,
        "partition": out.partition,
        "offset": record.offset,
        "time": instant(record.time_ms),
        "generation": now.generation,
    }
    members, assignments = out.rows["members"], out.rows["assignments"]
    are_wanted = "assignments" not in out.left_out
    for each, subscription in zip(now.members.values(), now.subscriptions, strict=True):
        share = now.assigned[each.member]
        members.append(
            {
                **at,
                "member": each.member,
                "instance": each.instance,
                "client_id": each.client_id or None,
                "host": each.host or None,
                "is_leader": each.member == now.leader,
                "session_timeout_ms": each.session_ms,
                "rebalance_timeout_ms": each.rebalance_ms,
                "subscription_version": subscription.version,
                "topics": subscription.topics and [*subscription.topics],
                "owned_partitions": subscription.owned,
                "assigned_partitions": None if share is None else sum(map(len, share.values())),
            }
        )
        for topic, partitions in (share or {}).items() if are_wanted else ():
            of_topic = {**at, "member": each.member, "topic": topic}
            assignments.extend([{**of_topic, "topic_partition": number} for number in partitions])


def _member(each: MemberMetadata, subscription: _Subscription) -> RecordedMember:
    return RecordedMember(
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
def _subscription(data: bytes) -> _Subscription:
    digest = blake2b(data, digest_size=8).hexdigest()
    read = read_topics(data)
    if read is None:
        return _Subscription(digest, None, None, None)
    version, owned = int.from_bytes(data[:2], "big"), None
    if version >= 1:
        try:
            told = decode_subscription(data).owned_partitions
            owned = sum(len(each.partitions) for each in told)
        except DecodeError:
            version = 0
    return _Subscription(digest, version, tuple(sorted(read[0])), owned)
