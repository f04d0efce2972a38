"""Records of consumer groups (KIP-848) as Apache Kafka 4.1 writes them, in a partition written by
hand. For tests.

log = ConsumerLog()
log.joins(0, "alpha", 1, {"alpha": [0, 1]})
log.joins(10, "beta", 2, {"alpha": [0], "beta": [1]}, state=UNRELEASED)
log.reaches(12, "alpha", 2, [0])
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

from groupkeeper.protocol.compile_encode import Framing
from groupkeeper.protocol.compiler import encoder
from groupkeeper.protocol.records.modern_groups import (
    ConsumerCurrent,
    ConsumerEpoch,
    ConsumerMember,
    GroupKey,
    MemberKey,
    PartitionMetadata,
    PatternKey,
    ResolvedPattern,
    Target,
    TargetEpoch,
    Topic,
    TopicSize,
)
from tests.support.written_log import KeyValue, WrittenLog

ORDERS: Final = bytes(range(16))
OTHERS: Final = bytes(range(16, 32))
NAMES: Final = {ORDERS: "orders", OTHERS: "others"}
STABLE, UNREVOKED, UNRELEASED = 0, 1, 2
AWAY: Final = -2


def _key(kind: int, key: object) -> bytes:
    return struct.pack(">h", kind) + encoder(type(key), 0, Framing.BARE)(key)


def _value(value: object) -> bytes:
    return encoder(type(value), 0, Framing.VERSIONED)(value)


def _of(kind: int, group: str, member: str) -> bytes:
    return _key(kind, MemberKey(group=group, member_id=member))


def epoch(number: int, group: str = "g") -> KeyValue:
    return _key(3, GroupKey(group=group)), _value(ConsumerEpoch(epoch=number))


def target_epoch(number: int, group: str = "g") -> KeyValue:
    return _key(6, GroupKey(group=group)), _value(TargetEpoch(assignment_epoch=number))


def member(
    name: str,
    instance: str | None = None,
    topics: Sequence[str] = ("orders",),
    pattern: str = "",
    poll_s: int = 60,
    group: str = "g",
) -> KeyValue:
    """A member whose client id is its name up to the first digit."""
    value = ConsumerMember(
        instance_id=instance,
        client_id=name.rstrip("0123456789"),
        client_host="/10.0.0.7",
        subscribed_topics=[*topics],
        subscribed_regex=pattern,
        rebalance_timeout_ms=poll_s * 1000,
    )
    return _of(5, group, name), _value(value)


def target(name: str, places: Sequence[int], group: str = "g", topic: bytes = ORDERS) -> KeyValue:
    topics = [Topic(topic_id=topic, partitions=[*places])] if places else []
    return _of(7, group, name), _value(Target(topics=topics))


def current(
    name: str,
    number: int,
    places: Sequence[int] = (),
    before: int = 0,
    state: int = STABLE,
    pending: Sequence[int] = (),
    group: str = "g",
) -> KeyValue:
    value = ConsumerCurrent(
        member_epoch=number,
        previous_epoch=before,
        state=state,
        assigned=[Topic(topic_id=ORDERS, partitions=[*places])] if places else [],
        pending_revocation=[Topic(topic_id=ORDERS, partitions=[*pending])] if pending else [],
    )
    return _of(8, group, name), _value(value)


def resolved(pattern: str, *topics: str, group: str = "g") -> KeyValue:
    key = PatternKey(group=group, pattern=pattern)
    return _key(16, key), _value(ResolvedPattern(topics=[*topics]))


def described(sizes: Mapping[bytes, int], group: str = "g") -> KeyValue:
    """The topics of a group, as Kafka 4.0 writes them."""
    topics = [
        TopicSize(topic_id=topic, topic_name=NAMES[topic], num_partitions=size)
        for topic, size in sizes.items()
    ]
    return _key(4, GroupKey(group=group)), _value(PartitionMetadata(topics=topics))


def tombstones(name: str, group: str = "g") -> list[KeyValue]:
    """The records of a member that is gone."""
    return [(_of(kind, group, name), None) for kind in (8, 7, 5)]


def deleted(group: str = "g") -> list[KeyValue]:
    """The records of a group that is deleted, or becomes a classic one."""
    return [(_key(kind, GroupKey(group=group)), None) for kind in (6, 3)]


class ConsumerLog(WrittenLog):
    """The records of the group `g`, one batch for each step of its coordinator."""

    def joins(
        self,
        at: float,
        name: str,
        number: int,
        plan: Mapping[str, Sequence[int]],
        state: int = STABLE,
        **how: Any,
    ) -> None:
        """A member joins. `plan`: the targets that are others than before; it gets its own at once
        if its state is STABLE.
        """
        targets = [target(each, places) for each, places in plan.items()]
        own = plan.get(name, ()) if state == STABLE else ()
        head = [member(name, **how), epoch(number), *targets, target_epoch(number)]
        self.write(at, *head, current(name, number, own, state=state))

    def reaches(self, at: float, name: str, number: int, places: Sequence[int], **how: Any) -> None:
        """A heartbeat takes a member to an epoch."""
        self.write(at, current(name, number, places, before=max(1, number - 1), **how))

    def leaves(self, at: float, number: int, *names: str) -> None:
        """Members are gone; the targets are computed with the next heartbeat."""
        self.write(at, *(each for name in names for each in tombstones(name)), epoch(number))

    def retargets(
        self,
        at: float,
        number: int,
        plan: Mapping[str, Sequence[int]],
        name: str,
        places: Sequence[int],
    ) -> None:
        """The heartbeat of a member, with which the targets are computed."""
        targets = [target(each, some) for each, some in plan.items()]
        last = current(name, number, places, before=number - 1)
        self.write(at, *targets, target_epoch(number), last)
