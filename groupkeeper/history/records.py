"""Reads group records: members of a generation, their subscriptions and assigned partitions."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Final, NamedTuple

from groupkeeper.history.rows import RowWriter, instant
from groupkeeper.protocol.embedded import decode_subscription, read_assigned, read_topics
from groupkeeper.protocol.errors import DecodeError
from groupkeeper.protocol.records.consumer_offsets import (
    MemberMetadata,
    decode_configs_value,
    decode_group_value,
)
from groupkeeper.protocol.records.modern_groups import EPOCH_TYPES

_REMEMBERED: Final = 1024
"""Decoded subscriptions, and assignments, to cache: members repeat theirs in each record."""


REBALANCE, RESET, CONVERTED = "rebalance", "reset", "converted"
DELETED, UNREADABLE = "deleted", "unreadable"
"""Kinds of records: see `read_record`."""


class GroupRecord(NamedTuple):
    """A record about a group, of any key type from 2 on; `key` may be None for type 2. `batch` is
    equal for the records of one record batch, and differs from its neighbours'.
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
    """Commits of one group for one partition, without a group record or another leader epoch
    between them. Log offsets and times of the first and last commit; `longest_ms` is the longest
    pause, 0 for a single commit; `leader_epoch` is -1 if it is unknown.
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
    leader_epoch: int = -1


GROUP_KEY_TYPE: Final = 2
"""Key type of the records of classic groups."""
OF_GROUPS: Final = frozenset({GROUP_KEY_TYPE, *EPOCH_TYPES})
"""Key types of the records that state whether a group exists."""


def with_conversions(batch: Sequence[GroupRecord]) -> Iterator[tuple[GroupRecord, bool]]:
    """Yield the records of a batch, of one group, and whether each converts the group from or to
    the classic protocol: then the batch has a tombstone of one protocol and a value of the other.
    """
    held = {_kind(each) for each in batch if each.key_type in OF_GROUPS}
    for each in batch:
        is_modern, is_tombstone = _kind(each)
        goes_on = each.key_type in OF_GROUPS and (not is_modern, not is_tombstone) in held
        yield each, goes_on and (is_tombstone or not is_modern)


def _kind(record: GroupRecord) -> tuple[bool, bool]:
    """Return whether the record is not of a classic group, and whether it is a tombstone."""
    return record.key_type != GROUP_KEY_TYPE, record.value is None


class _Subscription(NamedTuple):
    """A member's subscription: digest of its bytes, version, sorted topics, and number of owned
    partitions. None if the bytes are not of the consumer protocol or lack the value.
    """

    digest: str
    version: int | None
    topics: tuple[str, ...] | None
    owned: int | None


@dataclass(slots=True)
class RecordedMember:
    """A member in a group record. `host` has no leading slash; `digest` is of the subscription."""

    member: str
    instance: str | None
    client_id: str
    host: str
    session_ms: int
    rebalance_ms: int
    digest: str
    topics: tuple[str, ...] | None
    heard_ms: int = 0
    """Time of the member's last answer, as far as group records show."""

    @property
    def who(self) -> dict[str, str | None]:
        """The client in the form of events (`who` in docs/events.md)."""
        return {
            "member": self.member,
            "instance": self.instance,
            "client_id": self.client_id,
            "host": self.host,
        }

    @property
    def client(self) -> tuple[str, str, int, int]:
        """Values that may change without a new member id."""
        return self.client_id, self.host, self.session_ms, self.rebalance_ms

    def returns(self, old: "RecordedMember") -> bool:
        """Whether this is the static member that had another id before."""
        return self.instance is not None and self.instance == old.instance

    @property
    def identity(self) -> str:
        """Name of a client that survives restarts, provided no other client has the same."""
        return self.instance if self.instance is not None else f"{self.client_id}\0{self.host}"


@dataclass(slots=True)
class Generation:
    """A group record with a value. `assigned`: member id -> topic -> partitions, None if the bytes
    are not of the consumer protocol. `subscriptions` are in the order of `members`.
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
        """Whether any member stated owned partitions when joining."""
        return any(each.owned for each in self.subscriptions)


def read_generation(value: bytes) -> Generation:
    """Decode the value of a group record. Raises DecodeError. Of repeated member ids, which no
    coordinator writes, the last one counts.
    """
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


def read_record(
    record: GroupRecord, before: Generation | None, *, converted: bool
) -> tuple[str, Generation | None]:
    """Return the kind of a record of a classic group, and its value: None of a tombstone, and of a
    value that cannot be decoded. `before`: the last value, None without one. `converted`: the batch
    converts the group from or to the classic protocol.
    """
    if record.value is None:
        return CONVERTED if converted else DELETED, None
    try:
        now = read_generation(record.value)
    except DecodeError:
        return UNREADABLE, None
    return CONVERTED if converted else kind_of(before, now), now


def kind_of(before: Generation | None, now: Generation) -> str:
    """Return the kind of change in a record; `before` is None without an earlier value.

    The order of checks matters: a group that becomes empty also gets a new generation.
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
    """The number of generations between two records that were not written."""
    return 0 if before is None else max(0, now.generation - before.generation - 1)


def write_members(record: GroupRecord, now: Generation, out: RowWriter) -> None:
    """Write the rows of `members` and `assignments`; built as whole dicts for speed."""
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


def write_configs(record: GroupRecord, out: RowWriter) -> None:
    """Add a row of `configs`: null for a tombstone, and for a value that cannot be decoded."""
    configs = None
    if record.value is not None:
        with suppress(DecodeError):
            told = decode_configs_value(record.value).configs
            configs = json.dumps({each.name: each.value for each in told})
    at = {"group": record.group, "offset": record.offset, "time": instant(record.time_ms)}
    out.add("configs", **at, configs=configs)


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
