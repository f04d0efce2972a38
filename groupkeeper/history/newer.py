"""Consumer, share and streams groups (KIP-848, KIP-932, KIP-1071) from record to record.

Their records say who is a member, and which partitions it has, one by one: `members`,
`assignments`, `sessions` and `ownership` need no inference, and there are no rounds. Why a member
is gone they do not say; nor does the log know their session timeout, which is a setting of the
coordinator. Topics are named where `names` has their ids, else shown by their ids.
"""

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from groupkeeper.history.inference import UNKNOWN
from groupkeeper.history.ownership import Place
from groupkeeper.history.records import Record
from groupkeeper.history.rows import LOG, SEEN, Row, Writer, instant
from groupkeeper.protocol.records.modern_groups import (
    ConsumerMember,
    Current,
    Member,
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
_SINCE: Final = "from"


@dataclass(slots=True)
class NewerStory:
    """The members of one group, as columns of `sessions`, and who owns what since when."""

    sessions: dict[str, Row] = field(default_factory=dict)
    topics: dict[str, list[str] | None] = field(default_factory=dict)
    """What each member subscribes to."""
    held: dict[Place, tuple[str | None, int, int, int]] = field(default_factory=dict)
    """Member id or None, since when, its epoch then, and the offset of the record."""

    def add(self, record: Record, key: ModernKey, names: Names, out: Writer) -> None:
        """A record about a member. Raises DecodeError."""
        if key.member_id is None:
            return
        if record.value is None:
            if key.key_type in CURRENT_TYPES:
                self._own(record, key.member_id, 0, set(), out)
            elif key.key_type in MEMBER_TYPES:
                self._end(record, key.member_id, out)
            return
        decoded = decode_modern_value(key.key_type, record.value)
        if isinstance(decoded, ConsumerMember | ShareMember | StreamsMember):
            self._member(record, key.member_id, decoded, out)
        elif isinstance(decoded, Current):
            places = set(_places(decoded, names))
            self._current(record, key.member_id, decoded.member_epoch, places, out)

    def open(self, group: str, out: Writer) -> None:
        """What is not over yet."""
        for session in self.sessions.values():
            out.add("sessions", group=group, **session)
        for place in self.held:
            self._interval(group, place, None, out)

    def end(self, record: Record, out: Writer) -> None:
        """The group is gone."""
        for member in [*self.sessions]:
            self._end(record, member, out)
        for place in self.held:
            self._interval(record.group, place, record.time_ms, out)

    def _member(self, record: Record, member: str, value: Member, out: Writer) -> None:
        """It has joined, or subscribes to something else."""
        instance, rebalance_ms = None, None
        if not isinstance(value, ShareMember):
            instance, rebalance_ms = value.instance_id, value.rebalance_timeout_ms
        known = self.sessions.get(member, {})
        is_new = not known and record.offset >= out.known.from_offset
        began_as = "dynamic" if instance is None else "static"
        self.sessions[member] = {
            "member": member,
            "instance": instance,
            "client_id": value.client_id or None,
            "host": value.client_host.removeprefix("/") or None,
            _SINCE: known.get(_SINCE, instant(record.time_ms) if is_new else None),
            "began_as": known.get("began_as", began_as if is_new else UNKNOWN),
            "rebalance_timeout_ms": rebalance_ms,
            "offset": record.offset,
            "source": LOG,
            "confidence": SEEN,
        }
        topics = None if isinstance(value, StreamsMember) else sorted(value.subscribed_topics)
        self.topics[member] = topics

    def _end(self, record: Record, member: str, out: Writer) -> None:
        self._own(record, member, 0, set(), out)
        self.topics.pop(member, None)
        session = self.sessions.pop(member, None)
        if session is not None:
            until = instant(record.time_ms)
            ended = {"until": until, "ended_by": UNKNOWN, "offset": record.offset}
            out.add("sessions", group=record.group, **{**session, **ended})

    def _current(
        self, record: Record, member: str, epoch: int, places: set[Place], out: Writer
    ) -> None:
        """What a member has now."""
        session = self.sessions.get(member, {"member": member})
        columns = ("member", "instance", "client_id", "host", "rebalance_timeout_ms")
        at = {
            "group": record.group,
            "offset": record.offset,
            "time": instant(record.time_ms),
            "generation": epoch,
        }
        out.add(
            "members",
            **at,
            **{name: session.get(name) for name in columns},
            topics=self.topics.get(member),
            assigned_partitions=len(places),
        )
        for topic, partition in sorted(places):
            out.add("assignments", **at, member=member, topic=topic, topic_partition=partition)
        self._own(record, member, epoch, places, out)

    def _own(
        self, record: Record, member: str, epoch: int, places: set[Place], out: Writer
    ) -> None:
        time_ms = record.time_ms
        lost = [place for place, each in self.held.items() if each[0] == member]
        for place in lost:
            if place not in places:
                self._interval(record.group, place, time_ms, out)
                self.held[place] = None, time_ms, epoch, record.offset
        for place in sorted(places.difference(lost)):
            if place in self.held:
                self._interval(record.group, place, time_ms, out)
            self.held[place] = member, time_ms, epoch, record.offset

    def _interval(self, group: str, place: Place, until_ms: int | None, out: Writer) -> None:
        member, from_ms, epoch, offset = self.held[place]
        since = until = instant(from_ms)
        if until_ms is None:
            until = None
        elif instant(until_ms) is not None:
            until = until_ms
        owner = self.sessions.get(member or "", {})
        out.add(
            "ownership",
            group=group,
            topic=place[0],
            topic_partition=place[1],
            until=until,
            duration_ms=None if since is None or until is None else until - since,
            is_owned=member is not None,
            member=member,
            generation=epoch,
            offset=offset,
            source=LOG,
            confidence=SEEN,
            **{name: owner.get(name) for name in ("instance", "client_id", "host")},
            **{_SINCE: since},
        )

    def state(self) -> dict[str, Any]:
        """As JSON."""
        held = [[*place, *each] for place, each in self.held.items()]
        return {"sessions": self.sessions, "topics": self.topics, "held": held}

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> Self:
        """As it was."""
        held = {(topic, partition): tuple(rest) for topic, partition, *rest in state["held"]}
        return cls(dict(state["sessions"]), dict(state["topics"]), held)


def _places(current: Current, names: Names) -> Iterator[Place]:
    """What a member has; in streams groups its active tasks by subtopology."""
    if isinstance(current, StreamsCurrent):
        for task in current.active:
            yield from ((task.subtopology_id, number) for number in task.partitions)
        return
    for each in current.assigned:
        name = names.get(each.topic_id) or id_text(each.topic_id)
        yield from ((name, number) for number in each.partitions)


def id_text(topic_id: bytes) -> str:
    """A topic id as Kafka writes it."""
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")
