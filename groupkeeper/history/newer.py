"""Builds the history of consumer, share and streams groups (KIP-848, KIP-932, KIP-1071) from
records.

Each record states one member or its partitions, so `members`, `assignments`, `sessions` and
`ownership` need no inference, and there are no rounds. Records do not state why a member left, or
the session timeout (a setting of the coordinator). Topics are shown by name if `names` has their
id, and by id otherwise.
"""

import base64
from collections.abc import Iterator, Mapping
from typing import Any, Final

from groupkeeper.history.causes import UNKNOWN
from groupkeeper.history.fold import GroupFold
from groupkeeper.history.ownership import OwnedPartition
from groupkeeper.history.records import GroupRecord
from groupkeeper.history.rows import Rows, RowSource, RowWriter, instant, member_columns
from groupkeeper.history.story import Gap, inferred
from groupkeeper.protocol.records.modern_groups import (
    AnyMember,
    ConsumerMember,
    Current,
    ModernKey,
    ShareMember,
    StreamsCurrent,
    StreamsMember,
    decode_modern_value,
)

Names = Mapping[bytes, str]
NO_NAMES: Final[Names] = {}
MEMBER_TYPES: Final = (5, 10, 19)
CURRENT_TYPES: Final = (8, 14, 22)


class NewerStory:
    """The members of one group and the fold of their records."""

    _fold: GroupFold
    _members: dict[str, list[Any]]
    """Member id -> identity, rebalance timeout (ms), subscribed topics."""

    def __init__(self, about: RowSource, rows: Rows, fold: GroupFold | None = None) -> None:
        """`rows` receives finished rows, unless another fold is given."""
        self._fold, self._members = fold or GroupFold(about, rows), {}

    def add(self, record: GroupRecord, key: ModernKey, names: Names, out: RowWriter) -> None:
        """Add a record about a member. Raises DecodeError."""
        member = key.member_id
        if member is None:
            return
        if record.value is None:
            if key.key_type in CURRENT_TYPES + MEMBER_TYPES:
                self._own(record, member, 0, [])
            if key.key_type in MEMBER_TYPES and member in self._members:
                fields = {"who": self._members.pop(member)[0], "cause": {"code": UNKNOWN}}
                at_ms = -1 if instant(record.time_ms) is None else record.time_ms
                self._fold.add(inferred(record, "member_removed", at_ms, fields))
            return
        decoded = decode_modern_value(key.key_type, record.value)
        if isinstance(decoded, ConsumerMember | ShareMember | StreamsMember):
            self._member(record, member, decoded, out)
        elif isinstance(decoded, Current):
            owned = partitions_of(decoded, names)
            places = sorted({(topic, each) for topic, some in owned for each in some})
            self._current(record, member, decoded.member_epoch, places, out)

    def open(self, rows: Rows) -> None:
        """Add unfinished rows to `rows`."""
        self._fold.open(rows)

    def end(self, record: GroupRecord) -> None:
        """End the history: the group was deleted."""
        self._fold.end(Gap.at(record))

    def _member(self, record: GroupRecord, member: str, value: AnyMember, out: RowWriter) -> None:
        """Add a new member, or the changed subscription of a known one."""
        instance, rebalance_ms, topics = None, None, None
        if not isinstance(value, ShareMember):
            instance, rebalance_ms = value.instance_id, value.rebalance_timeout_ms
        if not isinstance(value, StreamsMember):
            topics = sorted(value.subscribed_topics)
        who = {"member": member, "instance": instance, "client_id": value.client_id}
        who["host"] = value.client_host
        is_new = member not in self._members and record.offset >= out.known.from_offset
        self._members[member] = [who, rebalance_ms, topics]
        fields = {"who": who, "rebalance_timeout_ms": rebalance_ms}
        type_ = "member_joined" if is_new and instant(record.time_ms) else "member_rejoined"
        self._fold.add(inferred(record, type_, instant(record.time_ms) or 0, fields))

    def _current(
        self,
        record: GroupRecord,
        member: str,
        epoch: int,
        places: list[OwnedPartition],
        out: RowWriter,
    ) -> None:
        """Add rows of the partitions that a member has now."""
        who, rebalance_ms, topics = self._members.get(member, [{"member": member}, None, None])
        at = {"group": record.group, "offset": record.offset, "generation": epoch}
        at["time"] = instant(record.time_ms)
        columns = member_columns(who)
        del columns["software"]
        about = {"rebalance_timeout_ms": rebalance_ms, "topics": topics}
        out.add("members", **at, **columns, **about, assigned_partitions=len(places))
        for topic, partition in places:
            out.add("assignments", **at, member=member, topic=topic, topic_partition=partition)
        self._own(record, member, epoch, places)

    def _own(
        self, record: GroupRecord, member: str, epoch: int, places: list[OwnedPartition]
    ) -> None:
        who = self._members.get(member, [{"member": member}])[0]
        self._fold.assigned(record.offset, record.time_ms, epoch, who, places)


def partitions_of(current: Current, names: Names) -> Iterator[tuple[str, list[int]]]:
    """Return a member's partitions by topic; for streams groups, active tasks by subtopology."""
    if isinstance(current, StreamsCurrent):
        yield from ((each.subtopology_id, sorted(each.partitions)) for each in current.active)
    else:
        for each in current.assigned:
            yield names.get(each.topic_id) or id_text(each.topic_id), each.partitions


def id_text(topic_id: bytes) -> str:
    """Return a topic id in Kafka's text form, unpadded base64url."""
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")
