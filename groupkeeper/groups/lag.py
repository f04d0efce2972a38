"""The lag of groups behind the ends of the logs, in records and in time.

For metrics, pages and the JSON API. Reads the partitions in memory, and gets the ends of logs from
`topics/log_positions.py`, which opens none. Costs nothing while unused. `client/lag.py` does the
same from outside, for any Kafka cluster.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from groupkeeper.coordinator.group import Group
from groupkeeper.coordinator.records import offset_in
from groupkeeper.groups.group_partitions import ServedGroups
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.topics.log_positions import Extent, LogName, Position
from groupkeeper.topics.slices import Pace
from groupkeeper.turns import Slices, Turns

TIMES_MOST: Final = 2_000
"""Maximum number of record times read per query: each needs a read or two, about a tenth of a
millisecond of the worker's thread. The time lag of the remaining partitions is unknown."""

Extents: TypeAlias = Mapping[LogName, Extent]

_Times: TypeAlias = dict[tuple[object, int, int], int]


class LagPositions(Protocol):
    """See `topics.log_positions.LogPositions`."""

    async def extents(self, places: Iterable[LogName]) -> dict[LogName, Extent]:
        """Return the extent of every partition whose log can be read."""

    async def times(self, wanted: Iterable[Position]) -> dict[Position, int]:
        """Return when the batches at some positions were written."""


class LagCatalog(Protocol):
    """See `topics.catalog.Catalog`."""

    @property
    def counts(self) -> Mapping[str, int]:
        """Return the number of partitions by topic."""

    # Any: topics, which are only compared.
    @property
    def by_name(self) -> Mapping[str, Any]:
        """Return the topics by name."""


class LagTopics(Protocol):
    """The topics of a server, or of the cluster that an observer asks."""

    @property
    def catalog(self) -> LagCatalog: ...

    @property
    def positions(self) -> LagPositions: ...


class PartitionLag(NamedTuple):
    """A committed offset and the extent of its log, at some moment."""

    topic: str
    partition: int
    committed: int
    """The committed offset, unchanged."""
    start_offset: int
    end_offset: int
    lag_ms: int | None = None
    """How long ago the batch of the next record to read was written; 0 without lag. None if not
    requested, if the record has no timestamp, if it is not subscribed, or beyond `TIMES_MOST`."""
    is_subscribed: bool = True
    """Whether it counts: False if the group has members, and none of them subscribes the topic."""

    @property
    def next_offset(self) -> int:
        """The first record to read: not before the start of the log."""
        return max(self.committed, self.start_offset)

    @property
    def lag(self) -> int:
        """Records left to read, as offsets up to the end; deleted records do not count."""
        return max(0, self.end_offset - self.next_offset)

    @property
    def position(self) -> Position:
        """Position of the first record to read."""
        return self.topic, self.partition, self.next_offset


def lags_of(group: Group, extents: Extents, pace: Pace) -> Slices[list[PartitionLag]]:
    """Return the lag of one group, without times. Deleted topics and partitions, and offsets of -1,
    have none. The offsets may not be durable yet.
    """
    found = []
    for topic, partitions in [*group.offsets.items()]:
        is_subscribed = not group.members or group.subscribes(topic)
        for partition, value in [*partitions.items()]:
            extent = extents.get((topic, partition))
            committed = offset_in(value)
            if extent is not None and committed >= 0:
                start, end, _ = extent
                lag = PartitionLag(topic, partition, committed, start, end, None, is_subscribed)
                found.append(lag)
            if pace.spent():
                yield
    return found


def add_behind(
    wanted: dict[Position, None], lags: Iterable[PartitionLag], pace: Pace
) -> Slices[None]:
    """Add the positions of the next records, where there are any that a member should read."""
    for each in lags:
        if each.lag and each.is_subscribed:
            wanted[each.position] = None
        if pace.spent():
            yield


def lag_ms(lag: PartitionLag, times: Mapping[Position, int], now_ms: int) -> int | None:
    """Return the time lag at `now_ms`, from record times by position; see `PartitionLag.lag_ms`."""
    if not lag.is_subscribed:
        return None
    if not lag.lag:
        return 0
    time = times.get(lag.position)
    return None if time is None else max(0, now_ms - time)


class GroupLags:
    """Computes the lag of groups, in slices."""

    def __init__(self, partitions: ServedGroups, topics: LagTopics, turns: Turns) -> None:
        self._partitions = partitions
        self._topics = topics
        self._turns = turns
        self._known: _Times = {}
        """Times found by the last `times_of`: a group without progress costs nothing again."""

    def group(self, group_id: str) -> Group | None:
        """Return the current group; None if it does not exist, or its partition is not served."""
        driver = self._partitions.of(group_id)
        return driver.peek(group_id) if driver.absence is ErrorCode.NONE else None

    async def of(
        self, group_ids: Iterable[str], now_ms: int | None = None
    ) -> dict[str, list[PartitionLag]]:
        """Return the lag of the groups that exist and are served; with a time (Unix ms), also
        `lag_ms`.
        """
        ids = list(group_ids)
        places = await self._turns.run(self._places(ids))
        extents = await self._topics.positions.extents(places)
        found = await self._turns.run(self._lags(ids, extents))
        if now_ms is None:
            return found
        wanted = await self._turns.run(_behind(found))
        times = await self._look_up(wanted)
        return await self._turns.run(_timed(found, times, now_ms))

    async def extents(self) -> Extents:
        """Return the extents of all partitions whose logs can be read."""
        return await self._topics.positions.extents(await self._turns.run(self._every_place()))

    async def times_of(self, wanted: Sequence[Position]) -> dict[Position, int]:
        """Return when the records at some positions were written (Unix ms). Results of the last
        call are reused; at most `TIMES_MOST` others are looked up.
        """
        found = await self._look_up(wanted)
        self._known = await self._turns.run(self._keys(found))
        return found

    async def _look_up(self, wanted: Sequence[Position]) -> dict[Position, int]:
        found, others = await self._turns.run(self._known_ones(wanted))
        return found | await self._topics.positions.times(others[:TIMES_MOST])

    def _places(self, ids: Sequence[str]) -> Slices[dict[LogName, None]]:
        places, pace = dict[LogName, None](), Pace()
        for group_id in ids:
            group = self.group(group_id)
            for topic, partitions in [] if group is None else [*group.offsets.items()]:
                for partition in [*partitions]:
                    places[topic, partition] = None
                    if pace.spent():
                        yield
            if pace.spent():
                yield
        return places

    def _lags(self, ids: Sequence[str], extents: Extents) -> Slices[dict[str, list[PartitionLag]]]:
        found, pace = dict[str, list[PartitionLag]](), Pace()
        for group_id in ids:
            group = self.group(group_id)
            if group is not None:
                found[group_id] = yield from lags_of(group, extents, pace)
            if pace.spent():
                yield
        return found

    def _every_place(self) -> Slices[list[LogName]]:
        places, pace = list[LogName](), Pace()
        for topic, count in [*self._topics.catalog.counts.items()]:
            places += [(topic, index) for index in range(count)]
            if pace.spent(count):
                yield
        return places

    def _known_ones(
        self, wanted: Sequence[Position]
    ) -> Slices[tuple[dict[Position, int], list[Position]]]:
        found, others, pace = dict[Position, int](), list[Position](), Pace()
        by_name, known = self._topics.catalog.by_name, self._known
        for position in wanted:
            topic = by_name.get(position[0])
            time = None if topic is None else known.get((topic, position[1], position[2]))
            if time is None:
                others.append(position)
            else:
                found[position] = time
            if pace.spent():
                yield
        return found, others

    def _keys(self, found: Mapping[Position, int]) -> Slices[_Times]:
        """Key times by the topic itself: another topic may have its name later."""
        times, pace = _Times(), Pace()
        for (name, partition, offset), time in found.items():
            topic = self._topics.catalog.by_name.get(name)
            if topic is not None:
                times[topic, partition, offset] = time
            if pace.spent():
                yield
        return times


def _behind(found: Mapping[str, Sequence[PartitionLag]]) -> Slices[list[Position]]:
    """Return the positions of the next records, where there are any."""
    wanted, pace = dict[Position, None](), Pace()
    for lags in found.values():
        yield from add_behind(wanted, lags, pace)
    return list(wanted)


def _timed(
    found: Mapping[str, Sequence[PartitionLag]], times: Mapping[Position, int], now_ms: int
) -> Slices[dict[str, list[PartitionLag]]]:
    timed, pace = dict[str, list[PartitionLag]](), Pace()
    for group_id, lags in found.items():
        rows = timed[group_id] = []
        for each in lags:
            rows.append(each._replace(lag_ms=lag_ms(each, times, now_ms)))
            if pace.spent():
                yield
        if pace.spent():
            yield
    return timed
