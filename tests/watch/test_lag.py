"""The lag of observed groups: offsets from the log, and ends of logs from leaders."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from groupkeeper.client import CallFailed, Client
from groupkeeper.coordinator.records import offset_in
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from groupkeeper.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from groupkeeper.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from groupkeeper.topics.slices import ITEMS
from groupkeeper.turns import PacedTurns, Slices
from groupkeeper.watch import places as places_module
from groupkeeper.watch.ends import ASKS_PER_S, GONE_S, PARTITIONS_AT_ONCE, ROUND_S, LogEnds
from groupkeeper.watch.offsets import AGAIN, CommittedOffsets, TopicOffsets, commits_again
from tests.conftest import Lines
from tests.groups.test_lag import produce
from tests.simulation.cluster import VirtualClock
from tests.support.served import Served, settle
from tests.support.virtual_loop import VirtualLoop
from tests.watch.observed import Observed
from tests.watch.test_tail import virtual

HEAD = b"\0\3"


def value(offset: int) -> bytes:
    return HEAD + offset.to_bytes(8, "big") + b"the rest"


def offset_of(offsets: CommittedOffsets, group: str, topic: str, partition: int) -> int:
    return offset_in(offsets.groups[group][topic][partition])


@pytest.fixture
def observed(served: Served) -> Observed:
    return Observed(served)


# -- beside a server -----------------------------------------------------------------------------


def behind(observed: Observed) -> None:
    """A group that is two records behind."""
    client = observed.served.client()
    member, generation = settle(client)
    produce(client, times=5)
    assert client.commit(3, member_id=member, generation=generation) == 0
    observed.caught_up()
    observed.served.advance(2 * ROUND_S)


def test_the_lag_of_a_group_is_served(observed: Observed) -> None:
    behind(observed)
    found = observed.web.found("groups", "g", "lag")
    place = {"topic": "orders", "partition": 0, "subscribed": True, "lag_ms": None}
    assert found["partitions"] == [place | {"committed": 3, "end": 5, "lag": 2}]
    assert (found["records"], found["lag_ms"]) == (2, None)
    assert observed.web.found("groups")["groups"][0]["lag"] == {"records": 2, "seconds": None}


def test_the_lag_is_in_the_metrics_of_kafka_exporter(observed: Observed) -> None:
    behind(observed)
    text = observed.metrics()
    labels = '{consumergroup="g",topic="orders",partition="0"}'
    assert f"kafka_consumergroup_current_offset{labels} 3\n" in text
    assert f"kafka_consumergroup_lag{labels} 2\n" in text
    assert 'kafka_consumergroup_lag_sum{consumergroup="g",topic="orders"} 2\n' in text


def test_topics_with_committed_offsets_are_in_the_metrics_of_kafka_exporter(
    observed: Observed,
) -> None:
    behind(observed)
    text = observed.metrics()
    count = observed.served.server.topics.partition_count("orders")
    assert f'kafka_topic_partitions{{topic="orders"}} {count}\n' in text
    where = '{topic="orders",partition="0"}'
    assert f"kafka_topic_partition_current_offset{where} 5\n" in text
    assert f"kafka_topic_partition_oldest_offset{where} 0\n" in text
    assert f"kafka_topic_partition_replicas{where} 1\n" in text
    assert f"kafka_topic_partition_leader_is_preferred{where} 1\n" in text


def test_the_lag_follows_records(observed: Observed) -> None:
    behind(observed)
    client = observed.served.client()
    produce(client, times=4)
    observed.served.advance(2 * ROUND_S)
    [row] = observed.web.found("groups", "g", "lag")["partitions"]
    assert (row["committed"], row["end"], row["lag"]) == (3, 9, 6)


def test_an_offset_that_was_deleted_has_no_lag(observed: Observed) -> None:
    client = observed.served.client()
    first, generation = settle(client)
    assert client.commit(3, member_id=first, generation=generation) == 0
    client.leave(first)
    partitions = [OffsetDeleteRequestPartition(partition_index=0)]
    topics = [OffsetDeleteRequestTopic(name="orders", partitions=partitions)]
    client.call(0, OffsetDeleteRequest(group_id="g", topics=topics))
    observed.caught_up()
    observed.served.advance(2 * ROUND_S)
    assert observed.web.found("groups", "g", "lag")["partitions"] == []
    assert observed.web.found("groups", "g")["lag"] is None


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_the_next_process_knows_the_offsets(observed: Observed, end: str) -> None:
    behind(observed)
    observed.served.advance(40)
    getattr(observed, end)()
    observed.start()
    observed.caught_up()
    observed.served.advance(2 * ROUND_S)
    assert observed.web.found("groups", "g", "lag")["records"] == 2


def test_without_asking_there_is_no_lag(served: Served) -> None:
    observed = Observed(served, ask=False)
    behind(observed)
    assert observed.web.get("groups", "g", "lag")[0] == 404
    assert observed.web.found("groups", "g")["lag"] is None
    assert "kafka_consumergroup_lag{" not in observed.metrics()


# -- offsets -------------------------------------------------------------------------------------


def test_the_last_commit_of_each_partition_counts() -> None:
    offsets = CommittedOffsets()
    offsets.put([(("g", "orders", 0), value(1)), (("g", "orders", 1), value(7))])
    offsets.put([(("g", "orders", 0), value(2))])
    assert offset_of(offsets, "g", "orders", 0) == 2
    assert offsets.count == 2
    offsets.put([(("g", "orders", 0), None), (("g", "orders", 1), None), (("h", "o", 0), None)])
    assert (offsets.groups, offsets.count) == ({}, 0)


def test_a_value_that_is_too_short_is_left_out() -> None:
    offsets = CommittedOffsets()
    offsets.put([(("g", "orders", 0), b"\0\3short")])
    assert offsets.groups == {}


def test_offsets_beyond_the_limit_are_counted_and_not_kept() -> None:
    offsets = CommittedOffsets(most=2)
    offsets.put([(("g", "orders", number), value(number)) for number in range(3)])
    assert [*offsets.groups["g"]["orders"]] == [0, 1]
    assert offsets.dropped == 1
    offsets.put([(("g", "orders", 1), value(9))])
    assert offset_of(offsets, "g", "orders", 1) == 9
    offsets.put([(("g", "orders", 0), None), (("h", "orders", 2), value(5))])
    assert (offset_of(offsets, "h", "orders", 2), offsets.count) == (5, 2)


def test_offsets_are_restored_from_their_states() -> None:
    offsets, again = CommittedOffsets(), CommittedOffsets()
    offsets.put([(("g", "orders", 3), value(1 << 40)), (("h", "orders", 0), value(5))])
    for group, state in offsets.take_changed():
        assert state is not None
        again.restore(group, state)
    assert offset_of(again, "g", "orders", 3) == 1 << 40
    assert again.count == 2
    offsets.put([(("h", "orders", 0), None)])
    assert offsets.take_changed() == [("h", None)]
    assert not offsets.is_dirty
    assert [name for name, _ in offsets.take_changed(whole=True)] == ["g"]


def test_a_client_that_commits_the_same_offset_again_is_known() -> None:
    offsets, again = CommittedOffsets(), CommittedOffsets()
    places = [("g", "orders", 0), ("g", "orders", 1)]
    for numbers in ((5, 5), (5, 6), (7, 7)):
        offsets.put([(place, value(each)) for place, each in zip(places, numbers, strict=True)])
    for group, state in offsets.take_changed():
        assert state is not None
        again.restore(group, state)
    for each in (offsets, again):
        heads = each.groups["g"]["orders"]
        assert [commits_again(heads[0]), commits_again(heads[1])] == [True, False]
        assert [offset_of(each, *place) for place in places] == [7, 7]


# -- the ends of logs ----------------------------------------------------------------------------


class Leaders:
    """Nodes that lead partitions with a log of 100 records, as a `Client`."""

    timeout_s = 5.0

    def __init__(self) -> None:
        self.topics: dict[str, int] = {}
        """Number of partitions by topic."""
        self.denied: set[str] = set()
        self.errors: dict[int, ErrorCode] = {}
        """Errors of ListOffsets by partition."""
        self.down = False
        self.silent: set[int] = set()
        """Nodes that do not answer in time."""
        self.calls: list[tuple[float, Any]] = []

    async def call(self, request: Any, *, node: int | None = None) -> Any:
        self.calls.append((asyncio.get_running_loop().time(), request))
        await virtual(0.01)
        if node in self.silent:
            await virtual(self.timeout_s)
            raise CallFailed("ListOffsets", node, ErrorCode.REQUEST_TIMED_OUT)
        return self._offsets(request)

    async def call_in_slices(self, request: Any) -> Any:
        self.calls.append((asyncio.get_running_loop().time(), request))
        await virtual(0.01)
        if self.down:
            raise CallFailed("Metadata", None, ErrorCode.REQUEST_TIMED_OUT)
        return MetadataResponse(topics=[self._topic(each.name) for each in request.topics])

    def _topic(self, name: str) -> MetadataResponseTopic:
        if name in self.denied:
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return MetadataResponseTopic(name=name, error_code=error)
        if name not in self.topics:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return MetadataResponseTopic(name=name, error_code=error)
        partitions = [
            MetadataResponsePartition(partition_index=number, leader_id=number % 3)
            for number in range(self.topics[name])
        ]
        return MetadataResponseTopic(name=name, partitions=partitions)

    def _offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        topics = []
        for topic in request.topics:
            rows = [
                ListOffsetsPartitionResponse(
                    partition_index=each.partition_index,
                    error_code=self.errors.get(each.partition_index, ErrorCode.NONE),
                    offset=100 if each.timestamp == -1 else 10,
                )
                for each in topic.partitions
            ]
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=rows))
        return ListOffsetsResponse(topics=topics)


Play = Callable[[Leaders, dict[str, TopicOffsets], LogEnds], Awaitable[None]]


def played(play: Play, turns: PacedTurns | None = None) -> Leaders:
    """Ask for ends of logs while `play` runs."""
    loop = VirtualLoop()

    async def run() -> Leaders:
        leaders, groups = Leaders(), dict[str, TopicOffsets]()
        parts = cast("Client", leaders), lambda: [groups], VirtualClock(loop)
        ends = LogEnds(*parts, turns or PacedTurns())
        running = asyncio.create_task(ends.run())
        try:
            await play(leaders, groups, ends)
            assert not running.done()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        return leaders

    return loop.run_until_complete(run())


def put(groups: dict[str, TopicOffsets], group: str, topic: str, count: int) -> None:
    groups.setdefault(group, {})[topic] = {number: value(50) for number in range(count)}


def test_ends_and_starts_are_known_after_a_round() -> None:
    async def play(leaders: Leaders, groups: dict[str, TopicOffsets], ends: LogEnds) -> None:
        leaders.topics = {"orders": 2}
        put(groups, "g", "orders", 1)
        put(groups, "g", "gone", 1)
        await virtual(2 * ROUND_S)
        found = await ends.extents([("orders", 0), ("orders", 1), ("gone", 0)])
        assert found == {("orders", 0): (10, 100, 0)}
        assert ends.catalog.counts == {"orders": 2}
        del groups["g"]["orders"]
        await virtual(2 * ROUND_S)
        assert await ends.extents([("orders", 0)]) == {}

    played(play)


def test_the_ends_of_a_topic_that_was_deleted_are_forgotten() -> None:
    async def play(leaders: Leaders, groups: dict[str, TopicOffsets], ends: LogEnds) -> None:
        orders, places = [("orders", 0), ("orders", 1)], [("orders", 0), ("orders", 1), ("t", 0)]
        leaders.topics = {"orders": 2, "t": 1}
        put(groups, "g", "orders", 2)
        put(groups, "g", "t", 1)
        await virtual(2 * ROUND_S)
        for _ in range(2):  # metadata may lag once, and again later
            del leaders.topics["orders"]
            await virtual(ROUND_S)
            assert [*await ends.extents(places)] == places
            leaders.topics["orders"] = 2
            await virtual(GONE_S)
        del leaders.topics["orders"]
        await virtual(GONE_S + 2 * ROUND_S)
        assert [*await ends.extents(places)] == [("t", 0)]
        assert ends.catalog.counts == {"t": 1}
        assert ends.idle(groups["g"]) == {}
        leaders.topics["orders"] = 2
        await virtual(2 * ROUND_S)
        assert [*await ends.extents(orders)] == orders

    played(play)


def test_the_end_of_a_partition_that_a_new_topic_lacks_is_forgotten() -> None:
    async def play(leaders: Leaders, groups: dict[str, TopicOffsets], ends: LogEnds) -> None:
        leaders.topics = {"orders": 2}
        put(groups, "g", "orders", 2)
        await virtual(2 * ROUND_S)
        leaders.topics = {"orders": 1}
        await virtual(GONE_S + 2 * ROUND_S)
        assert [*await ends.extents([("orders", 0), ("orders", 1)])] == [("orders", 0)]

    played(play)


def test_the_ends_of_a_topic_that_cannot_be_described_are_kept() -> None:
    async def play(leaders: Leaders, groups: dict[str, TopicOffsets], ends: LogEnds) -> None:
        leaders.topics = {"orders": 1}
        put(groups, "g", "orders", 1)
        await virtual(2 * ROUND_S)
        leaders.denied = {"orders"}
        await virtual(GONE_S + 2 * ROUND_S)
        assert await ends.extents([("orders", 0)])

    played(play)


def test_partitions_are_idle_until_their_end_was_asked_for() -> None:
    async def play(leaders: Leaders, groups: dict[str, TopicOffsets], ends: LogEnds) -> None:
        leaders.topics = {"orders": 4}
        read, behind, again = value(100)[:10], value(99)[:10], value(100)[:10] + AGAIN
        groups["g"] = {"orders": {0: read, 1: behind, 2: again}, "gone": {0: read}}
        assert ends.idle(groups["g"]) == {}
        await virtual(2)
        assert [*ends.idle(groups["g"])] == [("orders", 0)], "the first round is soon"
        asked_ms = ends._clock.now()
        await virtual(2 * ROUND_S)
        [(place, idle_ms)] = ends.idle(groups["g"]).items()
        assert place == ("orders", 0)
        assert asked_ms < idle_ms < ends._clock.now()

    played(play)


def test_requests_for_ends_are_limited_and_batched() -> None:
    async def play(leaders: Leaders, groups: dict[str, TopicOffsets], ends: LogEnds) -> None:
        leaders.topics = {f"t{number}": 100 for number in range(20)}
        for topic in leaders.topics:
            put(groups, topic, topic, 100)
        await virtual(60)
        assert len(leaders.calls) == ends.requests.sent

    leaders = played(play)
    sizes = [
        sum(len(each.partitions) for each in request.topics)
        for _, request in leaders.calls
        if isinstance(request, ListOffsetsRequest)
    ]
    assert max(sizes) <= PARTITIONS_AT_ONCE
    assert sum(sizes) >= 2 * 2_000, "more than one round"
    assert len(leaders.calls) <= 60 * ASKS_PER_S + 10


def test_a_topic_of_very_many_partitions_is_described_once_in_a_round() -> None:
    count = 3 * PARTITIONS_AT_ONCE

    async def play(leaders: Leaders, groups: dict[str, TopicOffsets], ends: LogEnds) -> None:
        leaders.topics = {"orders": count, "others": 1}
        put(groups, "g", "orders", count)
        put(groups, "g", "others", 1)
        await virtual(ROUND_S - 1)
        assert len(await ends.extents([("orders", number) for number in range(count)])) == count

    asked = [each for _, each in played(play).calls if isinstance(each, MetadataRequest)]
    assert [[each.name for each in request.topics] for request in asked] == [["orders"], ["others"]]


def test_a_topic_that_may_not_be_described_is_told_and_the_others_are_known(lines: Lines) -> None:
    async def play(leaders: Leaders, groups: dict[str, TopicOffsets], ends: LogEnds) -> None:
        leaders.topics = {"orders": 1, "secret": 1}
        leaders.denied = {"secret"}
        put(groups, "g", "orders", 1)
        put(groups, "g", "secret", 1)
        await virtual(3 * ROUND_S)
        assert [*await ends.extents([("orders", 0), ("secret", 0)])] == [("orders", 0)]

    played(play)
    told = [each for each in lines() if each["event"].startswith("the lag of groups is not known")]
    assert len(told) == 1
    assert "grant DESCRIBE on the topics" in told[0]["why"]


def test_partitions_whose_leader_does_not_tell_the_end_are_told_and_counted(lines: Lines) -> None:
    async def play(leaders: Leaders, groups: dict[str, TopicOffsets], ends: LogEnds) -> None:
        leaders.topics = {"orders": 3}
        leaders.errors = {1: ErrorCode.OFFSET_NOT_AVAILABLE}
        put(groups, "g", "orders", 3)
        await virtual(1.5 * ROUND_S)
        places = [("orders", number) for number in range(3)]
        assert [*await ends.extents(places)] == [places[0], places[2]]
        assert ends.requests.failures >= 2
        leaders.errors.clear()
        failures = ends.requests.failures
        await virtual(2 * ROUND_S)
        assert [*await ends.extents(places)] == places
        assert ends.requests.failures == failures

    played(play)
    [told] = [each for each in lines() if each["event"] == "ends of logs are unknown"]
    assert told["why"] == "ListOffsets of partition 1 of orders: OFFSET_NOT_AVAILABLE"


def test_a_leader_that_does_not_answer_hides_no_end_of_the_others(lines: Lines) -> None:
    async def play(leaders: Leaders, groups: dict[str, TopicOffsets], ends: LogEnds) -> None:
        leaders.topics, leaders.silent = {"orders": 3}, {1}
        put(groups, "g", "orders", 3)
        await virtual(2 * ROUND_S)
        places = [("orders", number) for number in range(3)]
        assert [*await ends.extents(places)] == [places[0], places[2]]
        assert len(leaders.calls) <= 2 * ROUND_S

    played(play)
    [told] = [each for each in lines() if each["event"] == "ends of logs are unknown"]
    assert "REQUEST_TIMED_OUT" in told["why"]


def test_after_a_failure_it_is_asked_again(lines: Lines) -> None:
    async def play(leaders: Leaders, groups: dict[str, TopicOffsets], ends: LogEnds) -> None:
        leaders.topics = {"orders": 1}
        put(groups, "g", "orders", 1)
        leaders.down = True
        await virtual(60)
        assert 2 <= ends.requests.failures <= 7
        leaders.down = False
        await virtual(90)
        assert await ends.extents([("orders", 0)])

    played(play)
    assert [each["event"] for each in lines()].count("ends of logs are unknown") <= 2


def test_partitions_beyond_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places_module, "PARTITIONS_MOST", 3)

    async def play(leaders: Leaders, groups: dict[str, TopicOffsets], ends: LogEnds) -> None:
        leaders.topics = {"orders": 5}
        put(groups, "g", "orders", 5)
        put(groups, "h", "orders", 5)
        await virtual(2 * ROUND_S)
        assert ends.beyond == 2
        assert len(await ends.extents([("orders", number) for number in range(5)])) == 3
        monkeypatch.setattr(places_module, "BEYOND_MOST", 1)
        await virtual(2 * ROUND_S)
        assert ends.beyond == 1

    played(play)


def test_the_same_partitions_are_beyond_the_limit_in_each_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(places_module, "PARTITIONS_MOST", 3)

    async def play(leaders: Leaders, groups: dict[str, TopicOffsets], ends: LogEnds) -> None:
        leaders.topics = {"a": 1, "orders": 5, "z": 1}
        places = [("orders", 0), ("orders", 1), ("orders", 2), ("orders", 3), ("a", 0), ("z", 0)]
        put(groups, "g", "orders", 4)
        await virtual(2 * ROUND_S)
        for topic in ("a", "z"):
            put(groups, topic, topic, 1)
        groups |= {"g": groups.pop("g")}  # the others are looked at before it
        await virtual(3 * ROUND_S)
        assert [*await ends.extents(places)] == places[:3]
        assert (ends.beyond, ends.catalog.counts) == (3, {"orders": 5})
        del groups["g"]
        await virtual(3 * ROUND_S)
        assert [*await ends.extents(places)] == places[4:]
        assert (ends.beyond, ends.catalog.counts) == (0, {"a": 1, "z": 1})

    played(play)


class Name(str):
    """The name of a topic, which counts how often names are compared."""

    __slots__ = ()
    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Name.compared += 1
        return str.__eq__(self, other)

    def __lt__(self, other: str) -> bool:
        Name.compared += 1
        return str.__lt__(self, other)


class ComparingTurns(PacedTurns):
    """Notes the most comparisons of names in a slice."""

    most = 0

    async def run(self, slices: Slices[Any]) -> Any:
        while True:
            before = Name.compared
            try:
                next(slices)
            except StopIteration as end:
                return end.value
            finally:
                self.most = max(self.most, Name.compared - before)


def test_very_many_partitions_are_gone_through_in_slices() -> None:
    turns, names = ComparingTurns(), [Name(f"t{number}") for number in range(20 * ITEMS)]

    async def play(leaders: Leaders, groups: dict[str, TopicOffsets], ends: LogEnds) -> None:
        leaders.topics = dict.fromkeys(names, 1)
        for name in names:
            put(groups, name, name, 1)
        await virtual(3 * ROUND_S)
        assert len(await ends.extents([(name, 0) for name in names])) == len(names)

    played(play, turns)
    assert turns.most <= ITEMS
