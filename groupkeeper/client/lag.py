"""How far groups are behind: the rows of `describe`, for any number of groups in few requests.

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
"""Different offsets of one partition whose records are looked at; for others the seconds are
unknown."""


@dataclass(slots=True)
class GroupPartition:
    """A partition that a group reads or has committed for. `member` is None if it is assigned to
    none, `committed` if there is no offset, `end` if the end of the log cannot be had.
    """

    topic: str
    partition: int
    member: DescribedMember | None
    committed: Committed | None
    end: int | None = None
    lag_seconds: float | None = None
    """0 if there is nothing to read; None if it was not asked for, or is unknown."""

    @property
    def lag(self) -> int | None:
        """Records, as Kafka's tools count them: offsets up to the end."""
        if self.committed is None or self.end is None:
            return None
        return self.end - self.committed.offset


async def places_of(
    client: Client, groups: Mapping[str, GroupDescription], now_ms: int | None = None
) -> dict[str, list[GroupPartition]]:
    """The places of each group: those of members, most first, then those without a member.

    With a time (epoch ms) also the lag in seconds: from the record at the committed offset, or at
    the start of the log if that is later, until this time.
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
    """One read for each partition: of the groups that lag there, each has its own offset."""
    waiting: list[tuple[GroupPartition, Partition, int]] = []
    for each in places:
        if each.committed is not None and each.lag is not None:
            if each.lag > 0:
                waiting.append((each, (each.topic, each.partition), each.committed.offset))
            else:
                each.lag_seconds = 0.0
    # A request names a partition once, so groups that are at different offsets take turns.
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
