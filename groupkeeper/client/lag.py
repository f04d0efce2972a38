"""Computes the lag of groups in records and seconds, many groups per request.

Source: Kafka's `ConsumerGroupCommand.collectGroupsOffsets`, for the rows and their order.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from groupkeeper.client.client import Client
from groupkeeper.client.groups import (
    Committed,
    DescribedMember,
    GroupDescription,
    Partition,
    committed_offsets,
)
from groupkeeper.client.partitions import LATEST, list_offsets
from groupkeeper.client.record_times import record_times

MOST_TURNS: Final = 64
"""Maximum number of different offsets per partition for which the lag in seconds is read; it is
unknown for further ones."""


@dataclass(slots=True)
class GroupPartition:
    """A partition that is assigned or committed in a group. `member` is None if it is not assigned,
    `committed` if it has no committed offset, `end` if the log end offset is unavailable.
    """

    topic: str
    partition: int
    member: DescribedMember | None
    committed: Committed | None
    end: int | None = None
    lag_seconds: float | None = None
    """0 without lag; None if unknown or not requested."""

    @property
    def lag(self) -> int | None:
        """Lag in offsets up to the log end, as in Kafka's tools; None if unknown."""
        if self.committed is None or self.end is None:
            return None
        return self.end - self.committed.offset


async def places_of(
    client: Client, groups: Mapping[str, GroupDescription], now_ms: int | None = None
) -> dict[str, list[GroupPartition]]:
    """Return the partitions of each group: by member, the member with the most partitions first,
    then unassigned ones.

    `now_ms` (Unix ms) adds the lag in seconds: the age of the record at the committed offset, or at
    the log start offset if that is higher.
    """
    committed = await committed_offsets(client, [*groups])
    places = {each: _places(group, committed[each]) for each, group in groups.items()}
    every = [place for some in places.values() for place in some]
    ends = await list_offsets(client, {(each.topic, each.partition) for each in every}, LATEST)
    for each in every:
        each.end = ends[each.topic, each.partition]
    if now_ms is not None:
        await _add_seconds(client, every, now_ms)
    return places


def _places(
    group: GroupDescription, committed: Mapping[Partition, Committed]
) -> list[GroupPartition]:
    found: list[GroupPartition] = []
    owned: set[Partition] = set()
    for member in sorted(group.members, key=lambda each: -len(each.partitions)):
        owned.update(member.partitions)
        found += _sorted(member.partitions, member, committed)
    return found + _sorted([each for each in committed if each not in owned], None, committed)


def _sorted(
    partitions: Iterable[Partition],
    member: DescribedMember | None,
    committed: Mapping[Partition, Committed],
) -> list[GroupPartition]:
    return [GroupPartition(*each, member, committed.get(each)) for each in sorted(partitions)]


async def _add_seconds(client: Client, places: Sequence[GroupPartition], now_ms: int) -> None:
    """Fill in `lag_seconds`, with one record read per distinct committed offset."""
    waiting: list[tuple[GroupPartition, Partition, int]] = []
    for each in places:
        if each.committed is not None and each.lag is not None:
            if each.lag > 0:
                waiting.append((each, (each.topic, each.partition), each.committed.offset))
            else:
                each.lag_seconds = 0.0
    # A Fetch names a partition once, so different offsets of it need separate requests.
    spent: Counter[int] = Counter()
    for _ in range(MOST_TURNS):
        asked: dict[Partition, int] = {}
        for _, partition, offset in waiting:
            asked.setdefault(partition, offset)
        times = await record_times(client, asked, spent)
        for place, partition, offset in waiting:
            time = times[partition]
            if asked[partition] == offset and time is not None:
                place.lag_seconds = max(0.0, (now_ms - time) / 1000)
        waiting = [each for each in waiting if asked[each[1]] != each[2]]
        if not waiting:
            break
