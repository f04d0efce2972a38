"""Loading partitions: beside everything else, a few at a time, and not as fast as they fail."""

import asyncio
import json
import sys
from typing import Any

import pytest

from groupkeeper.groups import driver, loader
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.offset_commit import OffsetCommitRequest
from groupkeeper.turns import Slices
from tests.support.broken import break_handler
from tests.support.served import Lines, Serve, Served, groups_apart, settle
from tests.support.virtual_loop import VirtualExecutor, VirtualLoop

PARTITIONS = 20


def restarted(serve: Serve, commits: int = 1) -> tuple[Served, list[str]]:
    """A server that has just been started, and groups in as many partitions that have a log."""
    served = serve(f"offsets.topic.num.partitions={PARTITIONS}")
    groups = sorted(groups_apart(PARTITIONS, PARTITIONS), key=lambda g: served.driver(g).index)
    client = served.client()
    for group in groups:
        for offset in range(commits):
            assert client.commit(offset, group) == 0
    served.stop()
    served.start()
    return served, groups


def loads(served: Served) -> int:
    """How often a partition was loaded so far."""
    return served.server.metrics.replay_seconds.count()


# -- beside everything else ------------------------------------------------------------------------


def test_the_first_active_partition_commits_while_the_others_load(serve: Serve) -> None:
    served, groups = restarted(serve)
    served.until(lambda: "active" in served.states())
    first = groups[served.states().index("active")]
    assert served.client().commit(7, first) == 0
    assert served.states().count("loading") > PARTITIONS // 2
    served.settled()


def test_only_a_few_partitions_load_at_a_time(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    most: list[int] = []
    under_way: list[int] = []
    load = driver.PartitionDriver._load

    async def counted(self: driver.PartitionDriver) -> None:
        under_way.append(self.index)
        most.append(len(under_way))
        await load(self)
        under_way.remove(self.index)

    monkeypatch.setattr(driver.PartitionDriver, "_load", counted)
    served, _ = restarted(serve)
    served.settled()
    assert len(most) == PARTITIONS
    assert max(most) == loader.AT_ONCE


def test_the_rounds_thread_does_not_read_what_is_loaded(serve: Serve) -> None:
    served, _ = restarted(serve, commits=3)
    writer = served.machine.executors["writer"]
    jobs = writer.jobs
    served.settled()
    # One look each: is it open? And one whether its events are. Then these are written.
    looks = 2 * PARTITIONS
    assert writer.jobs - jobs <= looks + PARTITIONS // 2


# -- the loader itself -----------------------------------------------------------------------------


class Loading:
    """A loader on virtual time, on which every slice takes a millisecond."""

    def __init__(self) -> None:
        self.loop = VirtualLoop()
        asyncio.set_event_loop(self.loop)
        self.done: list[str] = []
        self.loader = self.loop.run_until_complete(self._make())

    async def _make(self) -> loader.Loader:
        return loader.Loader(VirtualExecutor(self.loop))

    def slices(self, name: str, count: int) -> Slices[str]:
        for _ in range(count):
            self.loop.idle.now += 0.001
            yield
        self.done.append(name)
        return name

    async def load(self, name: str, count: int) -> str:
        async with self.loader.place():
            return await self.loader.run(self.slices(name, count))

    def all(self, **counts: int) -> list[str]:
        """Load them all, beginning in this order; in which order they were done."""

        async def gather() -> None:
            await asyncio.gather(*(self.load(name, count) for name, count in counts.items()))

        self.loop.run_until_complete(gather())
        return self.done


@pytest.fixture
def loading() -> Any:
    loading = Loading()
    yield loading
    asyncio.set_event_loop(None)
    loading.loop.close()


def test_a_long_load_does_not_keep_short_ones_waiting(loading: Loading) -> None:
    assert loading.all(long=2_000, a=10, b=10, c=10) == ["a", "b", "c", "long"]


def test_two_long_loads_keep_others_waiting_until_one_is_done(loading: Loading) -> None:
    assert loading.all(long=2_000, longer=4_000, short=10) == ["long", "short", "longer"]


def test_a_cancelled_load_gives_its_place_up(loading: Loading) -> None:
    async def cancel_two() -> None:
        tasks = [loading.loop.create_task(loading.load(name, 10_000)) for name in "ab"]
        await asyncio.sleep(0.1)
        for task in tasks:
            task.cancel()
        assert await loading.load("c", 10) == "c"

    loading.loop.run_until_complete(cancel_two())
    assert loading.done == ["c"]


def test_the_interpreter_changes_hands_sooner_while_partitions_load(loading: Loading) -> None:
    before = sys.getswitchinterval()

    async def look() -> float:
        async with loading.loader.place(), loading.loader.place():
            return sys.getswitchinterval()

    assert loading.loop.run_until_complete(look()) == pytest.approx(loader.SWITCH_S)
    assert sys.getswitchinterval() == before


# -- what fails over and over ----------------------------------------------------------------------


def test_ten_seconds_of_commits_on_a_full_disk_cost_at_most_ten_reloads(serve: Serve) -> None:
    """There is room for segments, and none for the zeros ahead of a round of the journal."""
    served = serve("offsets.topic.num.partitions=4")
    groups = groups_apart(4, 4)
    clients = [served.client() for _ in groups]
    members = [settle(c, group) for c, group in zip(clients, groups, strict=True)]
    served.advance(0.1)
    journal = served.server.store._journals._writer
    assert journal is not None
    journal._filled = journal.size
    journal._files.truncate(journal._handle, journal.size)
    served.disk.capacity = served.disk.used() + 600_000
    before, codes = loads(served), []
    for _ in range(100):
        for client, group, (member_id, generation) in zip(clients, groups, members, strict=True):
            codes.append(client.commit(1, group, member_id=member_id, generation=generation))
        served.advance(0.1)
    assert 0 not in codes
    assert loads(served) - before <= len(groups) * 10


def test_a_disk_with_room_again_is_used_within_five_seconds(served: Served) -> None:
    client = served.client()
    client.commit(1)
    served.advance(0.1)
    served.disk.capacity = served.disk.used()
    for _ in range(600):
        client.commit(2)
        served.advance(0.1)
    served.disk.capacity = None
    served.advance(loader.RELOAD_MOST_S + 0.1)
    assert client.commit(3) == 0
    assert client.fetched() == {("orders", 0): 3}


def fail(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the partition of group g fail, by a commit that meets a bug."""
    with monkeypatch.context() as patch:
        break_handler(patch, OffsetCommitRequest)
        assert served.client().commit(2) == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_request_that_always_raises_costs_few_reloads(
    served: Served, monkeypatch: pytest.MonkeyPatch, lines: Lines
) -> None:
    client = served.client()
    client.commit(1)
    before = loads(served)
    break_handler(monkeypatch, OffsetCommitRequest)
    for _ in range(500):
        client.commit(2)
        served.advance(0.01)
    assert loads(served) - before <= 7  # after 0.1, 0.3, 0.7, 1.5, 3.1, 6.3 seconds
    assert len([line for line in lines() if line["event"] == "a decision failed"]) <= 7


def test_while_it_waits_a_partition_answers_as_one_that_loads(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = served.client()
    member_id, generation = settle(client)
    fail(served, monkeypatch)
    assert client.beat(member_id, generation) == 0
    assert client.commit(1) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    status, body = served.page("/readyz")
    [problem] = json.loads(body)["not_active"]
    assert status == 503
    assert problem["reason"] == "a decision failed: a bug; tried again in 0.1 s"
    served.settled()
    assert client.commit(1, member_id=member_id, generation=generation) == 0


def test_after_some_healthy_seconds_the_first_pause_is_short_again(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.client().commit(1)
    pauses = []
    for wait in (0.0, 0.0, 0.0, loader.HEALTHY_S + 0.1):
        began = served.loop.time()
        fail(served, monkeypatch)
        served.settled()
        pauses.append(served.loop.time() - began)
        served.advance(wait)
    began = served.loop.time()
    fail(served, monkeypatch)
    served.settled()
    assert pauses == pytest.approx([0.1, 0.2, 0.4, 0.8], abs=0.06)
    assert served.loop.time() - began == pytest.approx(0.1, abs=0.06)
