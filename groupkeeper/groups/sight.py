"""The groups and topics for a scrape of `/metrics`: rows from the live partitions.

First collects them (`ScrapeLook.look`, which waits for the disk), then makes each row on demand.
Only the times of records (`lag.py`) are kept between scrapes.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from groupkeeper.clock import Clock
from groupkeeper.coordinator.group import Group
from groupkeeper.groups.group_partitions import ServedGroups
from groupkeeper.groups.lag import (
    Extents,
    GroupLags,
    LagCatalog,
    PartitionLag,
    add_behind,
    lag_ms,
    lags_of,
)
from groupkeeper.observe.group_rows import GroupRow, LagRow, ReplicaRow, Sight, TopicRow
from groupkeeper.topics.log_positions import Position
from groupkeeper.topics.names import RESERVED
from groupkeeper.topics.slices import Pace
from groupkeeper.turns import Slices, Turns

IDS_IN_A_SLICE: Final = 5_000
"""Group ids examined per slice."""
_ON_THIS_NODE: Final[Mapping[int, ReplicaRow]] = {}


class ScrapedTopics(Protocol):
    """See `topics.topics.Topics`."""

    @property
    def catalog(self) -> LagCatalog: ...

    def partition_count(self, name: str) -> int | None: ...


@dataclass(slots=True)
class ScrapeLook:
    """Collects the groups and topics of a server, or of an observed cluster."""

    node_id: int
    partitions: ServedGroups
    topics: ScrapedTopics
    lags: GroupLags
    turns: Turns
    clock: Clock
    brokers: Callable[[], int] = lambda: 1
    """Returns the number of brokers of the cluster."""
    replicas: Callable[[str], Mapping[int, ReplicaRow]] = lambda _: _ON_THIS_NODE
    """Returns the replicas of a topic by partition, where they are not on this node alone."""

    async def look(self, first: Collection[str]) -> Sight:
        """See `group_rows.Look`. If records are too many, the first groups' times are looked up."""
        extents = await self.lags.extents()
        groups = await self.turns.run(self._ids(first))
        wanted = await self.turns.run(self._behind(groups, extents))
        times = await self.lags.times_of(wanted)
        topics = [name for name in self.topics.catalog.counts if name not in RESERVED]
        brokers = self.brokers()
        return LiveSight(self.node_id, brokers, topics, groups, self, extents, times)

    def _ids(self, first: Collection[str]) -> Slices[Sequence[str]]:
        shown, others = list[str](), list[str]()
        for driver in self.partitions:
            # Without groups that clients have only queried, which are meaningless and may be long.
            ids = driver.group_ids(used=True)
            for at in range(0, len(ids), IDS_IN_A_SLICE):
                for each in ids[at : at + IDS_IN_A_SLICE]:
                    (shown if each in first else others).append(each)
                yield
        return shown + others

    def _behind(self, groups: Sequence[str], extents: Extents) -> Slices[Sequence[Position]]:
        wanted, pace = dict[Position, None](), Pace()
        for group_id in groups:
            group = self.lags.group(group_id)
            lags = [] if group is None else (yield from lags_of(group, extents, pace))
            yield from add_behind(wanted, lags, pace)
            if pace.spent():
                yield
        return list(wanted)


@dataclass(slots=True)
class LiveSight(Sight):
    """The rows of one scrape."""

    node_id: int
    brokers: int
    topics: Sequence[str]
    groups: Sequence[str]
    server: ScrapeLook
    extents: Extents
    times: Mapping[Position, int]
    pace: Pace = field(default_factory=Pace)

    def topic(self, name: str) -> Slices[TopicRow | None]:
        count = self.server.topics.partition_count(name)
        if count is None:
            return None
        ends = dict[int, tuple[int, int]]()
        for index in range(count):
            extent = self.extents.get((name, index))
            if extent is not None:
                ends[index] = extent.start_offset, extent.end_offset
            if self.pace.spent():
                yield
        return TopicRow(name, count, ends, self.server.replicas(name))

    def group(self, group_id: str) -> Slices[GroupRow | None]:
        group = self.server.lags.group(group_id)
        if group is None:
            return None
        row = self._head(group)
        row.silence_ms = yield from self.server.partitions.of(group_id).silence(group)
        topics: dict[str, list[LagRow]] = {}
        for each in (yield from lags_of(group, self.extents, self.pace)):
            topics.setdefault(each.topic, []).append(self._row(each))
            row.partitions += 1
            row.lag += each.lag
            if self.pace.spent():
                yield
        row.topics = topics
        return row

    def _head(self, group: Group) -> GroupRow:
        last, cause, began = group.rebalance, "", 0
        if last is not None:
            cause = str(last.cause.code)
            began = self.server.clock.wall() - (self.server.clock.now() - last.started_ms)
        return GroupRow(
            group=group.group_id,
            state=str(group.state),
            state_since_ms=group.state_timestamp_ms,
            members=len(group.members),
            rebalances=group.round,
            cause=cause,
            rebalanced_ms=began,
            silence_ms=None,
        )

    def _row(self, lag: PartitionLag) -> LagRow:
        left = lag_ms(lag, self.times, self.server.clock.wall())
        return LagRow(lag.partition, lag.committed, lag.lag, left)
