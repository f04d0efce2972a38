"""Decodes records of groups: values of classic groups, and the state of a consumer, share or
streams group from its newest records.

Plain Python, because these records are few compared with commits. The state of a newer group
follows from epochs, as in Kafka's `ConsumerGroup`, `ShareGroup` and `StreamsGroup`.
"""

import base64
import contextlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from groupkeeper.analytics.reading.files import AnyPath, place
from groupkeeper.analytics.reading.plan import Plan, data_folders
from groupkeeper.history.newer_topics import Names, partitions_of
from groupkeeper.protocol.embedded import decode_assignment, subscribed_topics
from groupkeeper.protocol.errors import DecodeError
from groupkeeper.protocol.records.consumer_offsets import MemberMetadata, decode_group_value
from groupkeeper.protocol.records.modern_groups import (
    EPOCH_TYPES,
    AnyMember,
    ConsumerEpoch,
    Current,
    Epoch,
    TargetEpoch,
    decode_modern_key,
    decode_modern_value,
)

ASSIGNMENT_TYPE: Final = pa.list_(
    pa.struct([("topic", pa.string()), ("partitions", pa.list_(pa.int32()))])
)
FIRST_KEY_TYPE: Final = 3
_STABLE: Final = {"consumer": 0, "streams": 1}
"""The stable state of a member in each of Kafka's two `MemberState` enums."""

_TOPOLOGY: Final = b"\0\x17"
"""Start of the key of a streams group's topology, of which only the existence is used."""

_Row = dict[str, Any]  # of a table


def decode_members(value: bytes) -> list[_Row]:
    """Return the members in the value of a classic group's record. Raises DecodeError."""
    return [_member(member) for member in decode_group_value(value).members]


def _member(member: MemberMetadata) -> _Row:
    """Describe a member. Topics and assignment are null if the bytes are not of the consumer
    protocol, as in Kafka Connect.
    """
    return {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "rebalance_timeout_ms": member.rebalance_timeout,
        "session_timeout_ms": member.session_timeout,
        "subscribed_topics": subscribed_topics(member.subscription),
        "assignment": _assignment(member.assignment),
    }


def _assignment(data: bytes) -> list[_Row] | None:
    """Decode an assignment. The bytes are empty for a member without partitions."""
    if not data:
        return []
    try:
        assigned = decode_assignment(data).assigned_partitions
    except DecodeError:
        return None
    return [{"topic": each.topic, "partitions": each.partitions} for each in assigned]


def describe(records: Iterable[tuple[bytes, bytes | None]], names: Names) -> _Row:
    """Return `type`, `state`, `epoch`, `assignment_epoch` and `members` of a group, given the
    newest record of each key; or `type` and `problem` if a value cannot be decoded. `names`: topic
    id -> name; topics without a name are shown by id.
    """
    group = _Group()
    try:
        for each in records:
            group.add(*each)
    except DecodeError as error:
        return {"type": group.type, "problem": f"unreadable value: {error}"}
    return {
        "type": group.type,
        "state": group.state,
        "epoch": group.epoch,
        "assignment_epoch": group.target_epoch,
        "members": [group.member(member_id, names) for member_id in sorted(group.members)],
    }


@dataclass(slots=True)
class _Group:
    type: str = "other"
    epoch: int | None = None
    target_epoch: int | None = None
    deleted: bool = False
    has_topology: bool = False
    living: bool = False
    """Whether any record has a value."""
    members: dict[str, AnyMember] = field(default_factory=dict)
    current: dict[str, Current] = field(default_factory=dict)

    def add(self, key: bytes, value: bytes | None) -> None:
        """Add one record."""
        self.living |= value is not None
        found = decode_modern_key(key)
        if found is None:
            self.has_topology |= value is not None and key[:2] == _TOPOLOGY
            return
        if found.key_type in EPOCH_TYPES and self.epoch is None:
            self.type = EPOCH_TYPES[found.key_type]
            self.deleted |= value is None
        if value is None:
            return
        decoded = decode_modern_value(found.key_type, value)
        if isinstance(decoded, ConsumerEpoch | Epoch):
            self.epoch = decoded.epoch
            self.type = EPOCH_TYPES[found.key_type]
        elif isinstance(decoded, TargetEpoch):
            self.target_epoch = decoded.assignment_epoch
        elif found.member_id is not None and isinstance(decoded, AnyMember):
            self.members[found.member_id] = decoded
        elif found.member_id is not None and isinstance(decoded, Current):
            self.current[found.member_id] = decoded

    @property
    def state(self) -> str | None:
        """The state as Kafka shows it; None if the log does not determine it."""
        if self.epoch is None:
            return "Dead" if self.deleted or not self.living else None
        if not self.members:
            return "Empty"
        if self.type == "share":
            return "Stable"
        if self.type == "streams" and not self.has_topology:
            return "NotReady"
        if self.epoch > (self.target_epoch or 0):
            return "Assigning"
        return "Stable" if all(map(self._is_reconciled, self.members)) else "Reconciling"

    def _is_reconciled(self, member_id: str) -> bool:
        current = self.current.get(member_id)
        return (
            current is not None
            and current.state == _STABLE[self.type]
            and current.member_epoch == self.target_epoch
        )

    def member(self, member_id: str, names: Names) -> _Row:
        """Return the row of a member."""
        member, current = self.members[member_id], self.current.get(member_id)
        owned = partitions_of(current, names) if current else ()
        return {
            "member_id": member_id,
            "group_instance_id": getattr(member, "instance_id", None),
            "client_id": member.client_id,
            "client_host": member.client_host,
            "rebalance_timeout_ms": getattr(member, "rebalance_timeout_ms", None),
            "subscribed_topics": getattr(member, "subscribed_topics", None),
            "member_epoch": current.member_epoch if current else None,
            "assignment": [{"topic": topic, "partitions": some} for topic, some in sorted(owned)],
        }


def topic_names(plan: Plan) -> dict[bytes, str]:
    """Return topic names by id, from the `partition.metadata` files of all partitions in the data
    folders of the plan.

    Records of newer groups hold only ids; a copy of the offsets topic alone has no names.
    """
    found: dict[bytes, str] = {}
    for data in data_folders(plan):
        for folder in place(data).iterdir():
            name, _, number = folder.name.rpartition("-")
            if name and number.isdecimal():
                with contextlib.suppress(OSError, ValueError):
                    found[_topic_id(folder / "partition.metadata")] = name
    return found


def _topic_id(file: AnyPath) -> bytes:
    """Return the topic id in a `partition.metadata` file. Raises ValueError if there is none."""
    for line in file.read_bytes().decode().splitlines():
        name, _, value = line.partition(":")
        if name == "topic_id":
            text = value.strip()
            return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    raise ValueError("no topic id")
