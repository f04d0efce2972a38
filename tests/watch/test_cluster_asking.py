"""What records do not say is asked of the cluster: names of topics and settings of sessions."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from typing import Any, cast

import pytest

from groupkeeper.client import CallFailed, Client
from groupkeeper.history.newer import NewerStory
from groupkeeper.history.newer_departures import SessionLimit
from groupkeeper.history.newer_topics import id_text
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.message import Message
from groupkeeper.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from groupkeeper.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from groupkeeper.topics.slices import ITEMS
from groupkeeper.watch import answers as answers_module
from groupkeeper.watch import cluster_asking
from groupkeeper.watch.answers import ClusterAnswers
from groupkeeper.watch.cluster_asking import (
    AGAIN_S,
    ASK_S,
    ASKED_AT_ONCE,
    PAUSE_MOST_S,
    SESSION_CONFIGS,
    ClusterAsker,
    topic_names,
)
from tests.conftest import Lines
from tests.support.newer_log import ORDERS, OTHERS
from tests.support.virtual_loop import VirtualLoop
from tests.support.work import instructions
from tests.watch.cluster import virtual

Play = Callable[["SaidCluster", ClusterAsker, ClusterAnswers], Awaitable[None]]


class SaidCluster:
    """Two topics, and groups whose sessions end after 50 s."""

    timeout_s = 5.0
    nodes = (0,)

    def __init__(self) -> None:
        self.topics = {ORDERS: "orders", OTHERS: "others"}
        self.is_down = False
        self.session_ms = 50_000
        self.errors = {"no": int(ErrorCode.GROUP_AUTHORIZATION_FAILED)}
        """Errors by group."""
        self.configs = set[str | None]()
        """Names of configs that were asked for; with None if all were."""
        self.asked: list[tuple[float, int]] = []
        """Time of each request, and how many things it asked for."""

    async def call_in_slices(self, request: Message) -> MetadataResponse:
        await virtual(0)
        assert isinstance(request, MetadataRequest)
        self.asked.append((asyncio.get_running_loop().time(), len(request.topics or ())))
        if self.is_down:
            raise CallFailed("Metadata", None, ErrorCode.BROKER_NOT_AVAILABLE)
        wanted = [each.topic_id for each in request.topics or ()] or [*self.topics]
        rows = [MetadataResponseTopic(topic_id=each, name=self.topics.get(each)) for each in wanted]
        return MetadataResponse(topics=rows)

    async def call(self, request: Message, *, node: int | None = None) -> Any:
        await virtual(0)
        now = asyncio.get_running_loop().time()
        assert isinstance(request, DescribeConfigsRequest)
        self.asked.append((now, len(request.resources)))
        for each in request.resources:
            self.configs |= {*(each.configuration_keys or [None])}
        return DescribeConfigsResponse(
            results=[self._described(each.resource_name) for each in request.resources]
        )

    def _described(self, group: str) -> DescribeConfigsResult:
        if group in self.errors:
            return DescribeConfigsResult(resource_name=group, error_code=self.errors[group])
        values = {
            "consumer.session.timeout.ms": f"{self.session_ms}",
            "consumer.heartbeat.interval.ms": "7000",
        }
        configs = [
            DescribeConfigsResourceResult(name=name, value=value) for name, value in values.items()
        ]
        return DescribeConfigsResult(resource_name=group, configs=configs)


def want(asker: ClusterAsker, topics: Sequence[str] = (), groups: Sequence[str] = ()) -> None:
    """Let a fold read records that say nothing of these."""
    newer = NewerStory()
    newer.topics.unnamed += topics
    if topics:
        newer.kind = "share"  # whose sessions are not asked for
        asker.answers.want("other", newer)
    newer.kind = "consumer"
    for group in groups:
        asker.answers.want(group, newer)


def play(playing: Play) -> None:
    cluster = SaidCluster()

    async def run() -> None:
        asker = ClusterAsker(cast("Client", cluster))
        running = asyncio.create_task(asker.run())
        try:
            await playing(cluster, asker, asker.answers)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    loop = VirtualLoop()
    try:
        loop.run_until_complete(run())
    finally:
        loop.close()


def test_names_of_all_topics_are_asked_for_at_once() -> None:
    async def playing(cluster: SaidCluster, asker: ClusterAsker, answers: ClusterAnswers) -> None:
        await asker.ask_all_names()
        assert answers.names == {ORDERS: "orders", OTHERS: "others"}
        assert len(cluster.asked) == 1

    play(playing)


class Metadata:
    """Answers at once."""

    def __init__(self, topics: int, partitions: int) -> None:
        parts = [MetadataResponsePartition(partition_index=each) for each in range(partitions)]
        self.answer = MetadataResponse(
            topics=[
                MetadataResponseTopic(
                    topic_id=each.to_bytes(16, "big"), name=f"t{each}", partitions=parts
                )
                for each in range(1, topics + 1)
            ]
        )

    async def call_in_slices(self, request: Message) -> MetadataResponse:
        return self.answer


def longest_step(topics: int, partitions: int) -> int:
    """The most instructions in one callback that reads the names of topics; -1 if some lack."""
    client = cast("Client", Metadata(topics, partitions))

    async def read() -> list[str]:
        return [name async for _, name in topic_names(client)]

    work, most = read(), 0
    while True:
        try:
            _, count = instructions(work.send, None)
        except StopIteration as end:
            return most if len(end.value) == topics else -1
        most = max(most, count)


def test_names_of_very_many_topics_are_read_in_slices() -> None:
    few = longest_step(2 * ITEMS, 1)
    assert 0 < longest_step(20 * ITEMS, 1) <= 1.5 * few
    assert 0 < longest_step(2 * ITEMS, 50) <= 1.5 * few


def test_a_topic_that_is_new_is_asked_for_by_its_id() -> None:
    async def playing(cluster: SaidCluster, asker: ClusterAsker, answers: ClusterAnswers) -> None:
        want(asker, topics=[id_text(ORDERS)])
        await virtual(ASK_S)
        assert answers.names == {ORDERS: "orders"}
        await virtual(60)
        assert len(cluster.asked) == 1

    play(playing)


def test_a_topic_that_is_gone_is_not_asked_for_again_and_again() -> None:
    async def playing(cluster: SaidCluster, asker: ClusterAsker, answers: ClusterAnswers) -> None:
        cluster.topics.clear()
        want(asker, topics=[id_text(ORDERS)])
        await virtual(60)
        assert (answers.names, len(cluster.asked)) == ({}, 1)

    play(playing)


def test_settings_of_sessions_are_asked_for_by_group(lines: Lines) -> None:
    async def playing(cluster: SaidCluster, asker: ClusterAsker, answers: ClusterAnswers) -> None:
        want(asker, groups=["g", "no"])
        await virtual(ASK_S)
        assert answers.sessions == {"g": SessionLimit(50_000, 7_000)}
        assert cluster.configs == {*SESSION_CONFIGS}
        want(asker, groups=["no"])  # its next record
        await virtual(60)
        assert len(cluster.asked) == 1
        [told] = [each for each in lines() if "are not known" in each["event"]]
        assert (told["group"], told["level"]) == ("no", "warning")

    play(playing)


def test_a_group_without_an_answer_is_asked_for_again_after_a_while() -> None:
    async def playing(cluster: SaidCluster, asker: ClusterAsker, answers: ClusterAnswers) -> None:
        want(asker, groups=["no"])
        await virtual(2 * ASK_S)
        cluster.errors.clear()  # the right is granted
        want(asker, groups=["no"])
        await virtual(2 * ASK_S)
        assert (len(cluster.asked), len(answers.sessions)) == (1, 0)
        await virtual(AGAIN_S)
        want(asker, groups=["no"])
        await virtual(2 * ASK_S)
        assert (len(cluster.asked), [*answers.sessions]) == (2, ["no"])

    play(playing)


def test_settings_that_change_are_asked_for_again_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster_asking, "SESSIONS_MOST", 1)  # a known group needs no room

    async def playing(cluster: SaidCluster, asker: ClusterAsker, answers: ClusterAnswers) -> None:
        want(asker, groups=["g"])
        await virtual(2 * ASK_S)
        cluster.session_ms = 60_000
        for _ in range(9):
            want(asker, groups=["g"])  # records
            await virtual(AGAIN_S / 10)
        assert (len(cluster.asked), answers.sessions["g"].timeout_ms) == (1, 50_000)
        await virtual(2 * AGAIN_S)
        assert len(cluster.asked) == 1, "without a record"
        want(asker, groups=["g"])
        await virtual(2 * ASK_S)
        assert (len(cluster.asked), answers.sessions["g"].timeout_ms) == (2, 60_000)

    play(playing)


def test_topics_that_do_not_fit_are_asked_for_with_the_next_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(answers_module, "WANTED_MOST", 1)

    async def playing(cluster: SaidCluster, asker: ClusterAsker, answers: ClusterAnswers) -> None:
        newer = NewerStory()
        newer.topics.unnamed += [id_text(ORDERS), id_text(OTHERS)]
        for known in ({ORDERS}, {ORDERS, OTHERS}):
            answers.want("g", newer)
            await virtual(2 * ASK_S)
            assert answers.names.keys() == known

    play(playing)


def test_an_error_of_a_later_kafka_ends_nothing() -> None:
    async def playing(cluster: SaidCluster, asker: ClusterAsker, answers: ClusterAnswers) -> None:
        cluster.errors["later"] = 999
        want(asker, groups=["later"])
        await virtual(2 * ASK_S)
        want(asker, groups=["g"])
        await virtual(2 * ASK_S)
        assert [*answers.sessions] == ["g"]

    play(playing)


def test_many_are_asked_for_in_several_requests() -> None:
    async def playing(cluster: SaidCluster, asker: ClusterAsker, answers: ClusterAnswers) -> None:
        want(asker, groups=[f"g{number}" for number in range(ASKED_AT_ONCE + 10)])
        await virtual(3 * ASK_S)
        assert [each for _, each in cluster.asked] == [ASKED_AT_ONCE, 10]
        assert len(answers.sessions) == ASKED_AT_ONCE + 10

    play(playing)


def test_what_waits_and_what_is_known_is_bounded(
    monkeypatch: pytest.MonkeyPatch, lines: Lines
) -> None:
    monkeypatch.setattr(answers_module, "WANTED_MOST", 3)
    monkeypatch.setattr(cluster_asking, "SESSIONS_MOST", 4)

    async def playing(cluster: SaidCluster, asker: ClusterAsker, answers: ClusterAnswers) -> None:
        for first in ("a", "b"):
            want(asker, groups=[f"{first}{number}" for number in range(9)])
            await virtual(3 * ASK_S)
        assert [each for _, each in cluster.asked] == [3, 3]
        assert (len(answers.sessions), asker.requests.dropped) == (4, 2)

    play(playing)
    [told] = [each for each in lines() if each["event"] == "limit reached"]
    assert (told["limit"], told["most"]) == ("session timeouts of groups", 4)


def test_names_beyond_the_limit_are_counted_and_told(
    monkeypatch: pytest.MonkeyPatch, lines: Lines
) -> None:
    monkeypatch.setattr(cluster_asking, "NAMES_MOST", 1)

    async def playing(cluster: SaidCluster, asker: ClusterAsker, answers: ClusterAnswers) -> None:
        await asker.ask_all_names()
        assert (len(answers.names), asker.requests.dropped) == (1, 1)
        [left] = cluster.topics.keys() - answers.names.keys()
        want(asker, topics=[id_text(left)])
        await virtual(2 * ASK_S)
        assert (len(answers.names), asker.requests.dropped) == (1, 2)

    play(playing)
    [told] = [each for each in lines() if each["event"] == "limit reached"]
    assert (told["limit"], told["most"]) == ("names of topics", 1)


def test_a_cluster_that_does_not_answer_is_asked_after_longer_and_longer_pauses(
    lines: Lines,
) -> None:
    async def playing(cluster: SaidCluster, asker: ClusterAsker, answers: ClusterAnswers) -> None:
        cluster.is_down = True
        want(asker, topics=[id_text(ORDERS)], groups=["g"])
        await virtual(400)
        times = [at for at, _ in cluster.asked]
        pauses = [round(then - before) for before, then in pairwise(times)]
        assert pauses[:4] == [1, 2, 4, 8]
        assert pauses[-1] == PAUSE_MOST_S
        cluster.is_down = False
        await virtual(PAUSE_MOST_S)
        assert (answers.names, len(answers.sessions)) == ({ORDERS: "orders"}, 1)

    play(playing)
    told = [each for each in lines() if "does not answer about groups" in each["event"]]
    assert len(told) == 1
