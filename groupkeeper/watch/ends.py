"""Asks where the logs end whose offsets the groups of an observed cluster commit: for their lag.

All partitions with a committed offset (`places`) are asked for in rounds, topic by topic: some
hundred at a time, with one Metadata for topics that were not described in this round, and one
ListOffsets for each leader, at most `ASKS_PER_S` requests a second. So the ends are as old as a
round is long: 10 s, or more if there are many partitions. Where logs begin is asked for in every
tenth round.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from groupkeeper.backoff import Backoff
from groupkeeper.client import CallFailed, Client
from groupkeeper.client.partitions import EARLIEST, LATEST, NO_SUCH_RECORD, ask_leader, ask_leaders
from groupkeeper.clock import Clock
from groupkeeper.coordinator.records import offset_in
from groupkeeper.observe.group_rows import ReplicaRow
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from groupkeeper.topics.log_positions import Extent, LogName, Position
from groupkeeper.topics.slices import Pace
from groupkeeper.turns import Slices, Turns
from groupkeeper.watch.offsets import TopicOffsets, commits_again
from groupkeeper.watch.places import CommittedPlaces
from groupkeeper.watch.rate import Requests

ASKS_PER_S: Final = 4.0
"""Maximum number of these requests per second, to all nodes together."""
ROUND_S: Final = 10.0
"""Least time from the begin of a round to that of the next one."""
EMPTY_S: Final = 0.5
"""Interval at which committed offsets are looked for while there are none."""
STARTS_EVERY: Final = 10
"""Rounds of which one also asks where logs begin."""
GONE_S: Final = 30.0
"""Least time between two answers that a partition does not exist, after which its end is forgotten:
brokers may learn of a new one late."""
PARTITIONS_AT_ONCE: Final = 300
"""Maximum number of partitions asked for at a time; more take long to decode."""
PAUSE_FIRST_S, PAUSE_MOST_S = 1.0, 60.0
"""First and longest pause after a failed request."""

_Topics = dict[str, dict[int, ReplicaRow] | None]
"""Topic -> partition -> its replicas: empty if there is no such topic, None if that is unknown."""
_NO_REPLICAS: Final[Mapping[int, ReplicaRow]] = {}
_UNKNOWN: Final = "ends of logs are unknown"
_DENIED: Final = (
    "the user has no right to describe them: grant DESCRIBE on the topics, or start with --no-ask"
)


class _Catalog:
    """The topics with committed offsets, as `GroupLags` reads a catalog."""

    def __init__(self) -> None:
        self.by_name: Mapping[str, object] = {}
        self.counts: dict[str, int] = {}
        """Topic -> number of its partitions."""


class LogEnds:
    """The extents of the logs of partitions with committed offsets. `offsets` returns these by
    group.
    """

    def __init__(
        self,
        client: Client,
        offsets: Callable[[], Iterable[Mapping[str, TopicOffsets]]],
        clock: Clock,
        turns: Turns,
    ) -> None:
        self.requests = Requests(ASKS_PER_S, clock.seconds)
        self.catalog = _Catalog()
        self._client, self._clock, self._turns = client, clock, turns
        self._places = CommittedPlaces(offsets)
        self._known: dict[LogName, Extent] = {}
        self._asked_ms: dict[LogName, int] = {}
        """When the ends were asked for the last time, in monotonic ms."""
        self._missing_s: dict[LogName, float] = {}
        """Partitions that do not exist, and since when that is known."""
        self._replicas: dict[str, dict[int, ReplicaRow]] = {}
        """By topic and partition."""

    @property
    def beyond(self) -> int:
        """Number of partitions whose ends are not asked for, see `CommittedPlaces.beyond`."""
        return self._places.beyond

    # -- for `GroupLags` -------------------------------------------------------------------------

    @property
    def positions(self) -> "LogEnds":
        """The positions of logs, see `topics.log_positions`."""
        return self

    async def extents(self, places: Iterable[LogName]) -> dict[LogName, Extent]:
        """Return the known extents of some partitions, as of the last round."""
        known = self._known
        return await self._turns.run(_some(places, known))

    async def times(self, wanted: Iterable[Position]) -> dict[Position, int]:
        """Return no times: to know when a record was written it would have to be read."""
        return {}

    def idle(self, topics: TopicOffsets) -> dict[LogName, int]:
        """Return until when there was nothing to commit for partitions with these offsets, in
        monotonic ms. Leaves out those whose client commits the same offset again.
        May be called by another thread.
        """
        return {
            (topic, number): self._asked_ms.get((topic, number), 0)
            for topic, partitions in [*topics.items()]
            for number, head in [*partitions.items()]
            if (extent := self._known.get((topic, number))) is not None
            and offset_in(head) == extent.end_offset
            and not commits_again(head)
        }

    # -- for `ScrapeLook` ------------------------------------------------------------------------

    def partition_count(self, topic: str) -> int | None:
        """Return the number of partitions of a topic; None if no group has an offset of it."""
        return self.catalog.counts.get(topic)

    def replicas(self, topic: str) -> Mapping[int, ReplicaRow]:
        """Return the replicas of a topic by partition, as of the last round."""
        return self._replicas.get(topic, _NO_REPLICAS)

    # -- rounds ----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Ask until cancelled."""
        backoff, number = Backoff(PAUSE_FIRST_S, PAUSE_MOST_S), 0
        while True:
            begun_s = self._clock.seconds()
            await self._turns.run(self._places.renew(self._forget))
            if not self._places:
                await self._turns.run(self._count())
                await asyncio.sleep(EMPTY_S)
                continue
            are_wanted = not number % STARTS_EVERY
            number += 1
            topics: _Topics = {}
            for some in self._places.chunks(PARTITIONS_AT_ONCE):
                try:
                    await self._ask(some, topics, with_starts=are_wanted)
                    backoff.reset()
                except CallFailed as failure:
                    self.requests.failed(_UNKNOWN, str(failure))
                    await asyncio.sleep(backoff.failed())
            await self._turns.run(self._count())
            await asyncio.sleep(max(0.0, begun_s + ROUND_S - self._clock.seconds()))

    def _forget(self, place: LogName) -> None:
        """Drop what is known of a partition."""
        self._known.pop(place, None)
        self._asked_ms.pop(place, None)
        self._missing_s.pop(place, None)

    def _count(self) -> Slices[None]:
        """Count the partitions of topics with a known end, and drop what is known of others."""
        counts, others, pace = self.catalog.counts, list[str](), Pace()
        for topic, replicas in self._replicas.items():
            count = 0
            for number in self._places.of(topic):
                if (topic, number) in self._known:
                    count = max(count, number + 1)
                if pace.spent():
                    yield
            if count:
                counts[topic] = max(count, len(replicas))
            else:
                others.append(topic)
            if pace.spent():
                yield
        while others:
            topic = others.pop()
            counts.pop(topic, None)
            if pace.spent(1 + len(self._replicas.pop(topic))):
                yield

    async def _ask(self, places: Sequence[LogName], topics: _Topics, *, with_starts: bool) -> None:
        """Ask for the ends of some logs. `topics`: those described in this round; grows. Raises
        CallFailed.
        """
        if new := {topic for topic, _ in places if topic not in topics}:
            topics |= await self._describe(sorted(new))
        leaders = {}
        for topic, number in places:
            rows = topics.get(topic)
            if rows is None:
                continue
            row = rows.get(number)
            self._note(topic, number, is_missing=row is None)
            if row is not None and row.leader >= 0:
                leaders[topic, number] = row.leader
        nodes = {*leaders.values()}
        at_ms = self._clock.now()
        found = await self._offsets_at(leaders, places, LATEST, len(nodes))
        starts = {}
        if with_starts:
            starts = await self._offsets_at(leaders, places, EARLIEST, len(nodes))
        for place, end in found.items():
            self._asked_ms[place] = at_ms
            before = self._known.get(place)
            start = starts.get(place, 0 if before is None else before.start_offset)
            self._known[place] = Extent(min(start, end), end, 0)

    def _note(self, topic: str, number: int, *, is_missing: bool) -> None:
        """Note whether a partition exists. Its end is forgotten if it does not: the topic was
        deleted, and maybe created anew with fewer partitions.
        """
        place = topic, number
        if not is_missing:
            self._missing_s.pop(place, None)
            return
        now_s = self._clock.seconds()
        if now_s - self._missing_s.setdefault(place, now_s) >= GONE_S:
            self._known.pop(place, None)
            self._asked_ms.pop(place, None)

    async def _describe(self, names: Sequence[str]) -> _Topics:
        """Describe topics. One may have 10,000 partitions, so the response is decoded and read in
        slices. Raises CallFailed.
        """
        await self.requests.turn(1)
        wanted = [MetadataRequestTopic(name=each) for each in names]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        rows = (await self._client.call_in_slices(request)).topics
        denied = [
            each.name for each in rows if each.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        ]
        if denied:
            event, shown = "the lag of groups is not known for all topics", ", ".join(denied[:3])
            self.requests.failed(event, _DENIED, topics=shown)
        return await self._turns.run(_replicas_in(rows, self._replicas))

    async def _offsets_at(
        self, leaders: Mapping[LogName, int], places: Sequence[LogName], time_ms: int, nodes: int
    ) -> dict[LogName, int]:
        await self.requests.turn(nodes)
        told = await ask_leaders(leaders, places, partial(self._told_by, time_ms))
        errors = {place: error for place, (error, _) in told.items() if error}
        if errors:
            (topic, number), error = next(iter(errors.items()))
            about = f"ListOffsets of partition {number} of {topic}: {ErrorCode(error).name}"
            more = f", and {len(errors) - 1} others" if len(errors) > 1 else ""
            self.requests.failed(_UNKNOWN, about + more)
        return {place: offset for place, (error, offset) in told.items() if not error}

    async def _told_by(
        self, time_ms: int, node: int, places: list[LogName]
    ) -> Mapping[LogName, tuple[int, int]]:
        """Return (error code, offset) of logs; that of the request for all, if a leader does not
        answer: the others do.
        """
        try:
            return await ask_leader(self._client, node, places, time_ms)
        except CallFailed as failure:
            return dict.fromkeys(places, (failure.error, NO_SUCH_RECORD))


# Any: rows of Metadata.
def _replicas_in(rows: list[Any], known: dict[str, dict[int, ReplicaRow]]) -> Slices[_Topics]:
    """Read, and free, the rows of topics. `known`: where the replicas of those that exist replace
    earlier ones, one topic after the other, as these are freed.
    """
    found, pace = _Topics(), Pace()
    while rows:
        topic = rows.pop()
        replicas: dict[int, ReplicaRow] = {}
        is_known = topic.error_code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        found[topic.name] = replicas if is_known else None
        while topic.partitions:
            each = topic.partitions.pop()
            replicas[each.partition_index] = ReplicaRow(
                each.leader_id,
                each.leader_id in each.replica_nodes[:1],
                len(each.replica_nodes),
                len(each.isr_nodes),
            )
            if pace.spent():
                yield
        if replicas:
            known[topic.name] = replicas
    return found


def _some(
    places: Iterable[LogName], known: Mapping[LogName, Extent]
) -> Slices[dict[LogName, Extent]]:
    found, pace = dict[LogName, Extent](), Pace()
    for place in places:
        if place in known:
            found[place] = known[place]
        if pace.spent():
            yield
    return found
