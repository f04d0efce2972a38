"""A partition of `__consumer_offsets` written by hand, and what is inferred from it. For tests."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from groupkeeper.history.returns import find_returns
from groupkeeper.history.rounds import Folding, HistoryEntry, Round
from groupkeeper.history.rows import Told
from groupkeeper.protocol.embedded import Assignment, Subscription, TopicPartition
from groupkeeper.protocol.record_batch import encode_batch, iter_batches
from groupkeeper.protocol.records.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)
from groupkeeper.watch.inferred import GroupEvents
from groupkeeper.watch.records import LogReader
from tests.support.codecs import encode_assignment, encode_subscription
from tests.support.told_events import NOON

KeyValue = tuple[bytes, bytes | None]


def member(
    name: str,
    *owns: int,
    topics: Sequence[str] = ("orders",),
    instance: str | None = None,
    session_s: int = 10,
) -> MemberMetadata:
    """A member whose client id is its name up to the first digit, with partitions of `orders`."""
    share = [TopicPartition(topic="orders", partitions=[*owns])] if owns else []
    return MemberMetadata(
        member_id=name,
        group_instance_id=instance,
        client_id=name.rstrip("0123456789"),
        client_host="/10.0.0.7",
        rebalance_timeout=60_000,
        session_timeout=session_s * 1000,
        subscription=encode_subscription(Subscription(version=1, topics=[*topics])),
        assignment=encode_assignment(Assignment(assigned_partitions=share)),
    )


class WrittenLog:
    """Batches from offset `base` on; times are seconds after NOON."""

    def __init__(self, base: int = 0, protocol: str = "range") -> None:
        self.end = base
        """The next offset."""
        self.protocol = protocol
        """The assignor of all groups."""
        self.leader_epoch = 1
        """Rises with each new leader of the partition."""
        self.placed: list[tuple[int, int, int, bytes]] = []
        """Base offset, time in Unix ms, next offset and bytes of each batch."""

    def write(self, at: float, *records: KeyValue) -> None:
        """A batch."""
        ms = NOON + round(at * 1000)
        base, self.end = self.end, self.end + len(records)
        self.placed.append((base, ms, self.end, encode_batch(base, self.leader_epoch, ms, records)))

    def group(self, at: float, generation: int, *members: MemberMetadata, name: str = "g") -> None:
        """A record of a classic group."""
        value = GroupMetadataValue(
            protocol_type="consumer",
            generation=generation,
            protocol=self.protocol if members else None,
            leader=members[0].member_id if members else None,
            current_state_timestamp=NOON + round(at * 1000),
            members=[*members],
        )
        self.write(at, (encode_key(GroupMetadataKey(group=name)), encode_value(value, 3)))

    def deleted(self, at: float, name: str = "g") -> None:
        """The tombstone of a classic group."""
        self.write(at, (encode_key(GroupMetadataKey(group=name)), None))

    def commits(self, partition: int, first: int, last: int, every: int = 2) -> None:
        """Commits of the group `g` for a partition of `orders`, each in a batch of its own."""
        for at in range(first, last + 1, every):
            self.write(at, commit("g", partition))

    @property
    def data(self) -> bytes:
        return b"".join(data for *_, data in self.placed)


def commit(group: str, partition: int) -> KeyValue:
    """A commit for a partition of `orders`."""
    key = OffsetCommitKey(group=group, topic="orders", partition=partition)
    return encode_key(key), encode_value(OffsetCommitValue(offset=1), 3)


def told_of(data: bytes, group: str = "g", responses: int = 1, **how: Any) -> list[Told]:
    """The inferred events of a group, from so many responses."""
    starts = [each.base_offset for each in iter_batches(data)]
    places = [each.position for each in iter_batches(data)]
    cuts = sorted({len(starts) * n // responses for n in range(responses)})
    reader, events = LogReader(0, group), GroupEvents(group, **how)
    found: list[Told] = []
    for cut, until in zip(cuts, [*cuts[1:], len(starts)], strict=True):
        end = places[until] if until < len(places) else len(data)
        _, items = reader.feed(data[places[cut] : end], starts[cut])
        found += events.take(items, reader.known)
    return found


def entries_of(told: Sequence[Told]) -> list[HistoryEntry]:
    """Events in their stored form, folded."""
    folding = Folding()
    found = [entry for each in told for entry in folding.add(each.stored())]
    found += folding.rest()
    find_returns(found)
    assert folding.unknown == Counter()
    return found


def rounds_of(told: Sequence[Told]) -> list[Round]:
    """The rounds of `entries_of`."""
    return [each for each in entries_of(told) if isinstance(each, Round)]
