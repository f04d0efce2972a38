"""Fetch: what is read, what is refused, and how long it waits."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from groupkeeper.apis.fetch import MAX_WAIT_MS
from groupkeeper.coordinator.caller import Caller
from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    LeaderIdAndEpoch,
)
from groupkeeper.protocol.record_batch import iter_batches
from groupkeeper.storage.errors import NotCached
from groupkeeper.topics.fetch_reader import LEAST_BYTES, RESPONSE_BYTES
from groupkeeper.topics.file_jobs import FileJob, FileJobs
from groupkeeper.topics.names import GROUP_TOPIC
from tests.support.slices import counted
from tests.support.virtual_loop import VirtualLoop
from tests.topics.scene import FirstHeldWorker, HeldWorker, Reply, Scene, batch

LONG = 60_000


def counts(records: bytes) -> list[int]:
    return [header.record_count for header in iter_batches(records)]


async def test_reads_from_the_batch_that_holds_the_offset(scene: Scene) -> None:
    await scene.produce("t", 0, batch("a", "b"))
    await scene.produce("t", 0, batch("c"))
    data = await scene.fetch(("t", 0, 1))
    assert data.error_code == 0
    assert counts(data.records) == [2, 1]
    assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (3, 3, 0)
    assert data.preferred_read_replica == -1


async def test_at_the_end_there_is_nothing_and_no_error(scene: Scene) -> None:
    await scene.produce("t", 0, batch("a"))
    data = await scene.fetch(("t", 0, 1))
    assert (data.error_code, data.records, data.high_watermark) == (0, b"", 1)


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (("nowhere", 0, 0), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (("t", 9, 0), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (("t", 0, 2), ErrorCode.OFFSET_OUT_OF_RANGE),
        (("t", 0, -1), ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
async def test_errors_are_answered_at_once(scene, wanted, code):
    await scene.produce("t", 0, batch("a"))
    data = await scene.fetch(wanted, max_wait_ms=LONG)
    assert (data.error_code, data.high_watermark, data.records) == (code, -1, b"")


# -- topic ids


async def test_a_topic_made_anew_meanwhile_is_not_the_one_that_was_asked_for(scene: Scene) -> None:
    held = FirstHeldWorker()
    again = Scene(scene.disk, worker=held)
    by_id = again.send_fetch(("t", 0, 0), version=13)
    await again.delete("t")
    await again.create("t")
    held.go.set()
    data = (await by_id.wait()).responses[0].partitions[0]
    assert data.error_code == ErrorCode.INCONSISTENT_TOPIC_ID


@pytest.mark.parametrize("version", [15, 16])
async def test_who_has_an_old_leader_epoch_is_told_the_leader(scene: Scene, version: int) -> None:
    scene.serve_group_logs(lambda index: GroupLog(batch("x"), 1))
    reply = scene.send_fetch(("__consumer_offsets", 2, 0), current_leader_epoch=0, version=version)
    response = await reply.wait()
    data = response.responses[0].partitions[0]
    assert data.error_code == ErrorCode.FENCED_LEADER_EPOCH
    if version < 16:
        assert (data.current_leader, response.node_endpoints) == (None, [])
        return
    assert data.current_leader == LeaderIdAndEpoch(leader_id=7, leader_epoch=3)
    (endpoint,) = response.node_endpoints
    assert (endpoint.node_id, endpoint.host, endpoint.port) == (7, "broker.example", 9092)


def in_virtual_time(test: Callable[[Scene], Awaitable[None]]) -> Callable[[], None]:
    """Run a test on a loop where waiting takes no time, with a scene of its own."""

    async def run() -> None:
        scene = Scene()
        await scene.create("t", partitions=2)
        await scene.fetch(("t", 0, 0))
        await test(scene)

    def run_in_virtual_time() -> None:
        loop = VirtualLoop()
        try:
            loop.run_until_complete(run())
        finally:
            loop.close()

    return run_in_virtual_time


# -- sessions


@pytest.mark.parametrize(("session", "epoch"), [(0, -1), (0, 0), (5, -1), (5, 0)])
async def test_a_full_fetch_is_served_and_its_session_declined(scene, session, epoch):
    reply = scene.send_fetch(("t", 0, 0), session_id=session, session_epoch=epoch)
    response = await reply.wait()
    assert (response.error_code, response.session_id, len(response.responses)) == (0, 0, 1)


@pytest.mark.parametrize("session", [0, 5])
async def test_an_incremental_fetch_has_no_session(scene, session):
    response = await scene.send_fetch(session_id=session, session_epoch=1).wait()
    assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (response.session_id, response.responses) == (0, [])


# -- limits


async def test_the_first_batch_is_given_however_large(scene: Scene) -> None:
    await scene.produce("t", 0, batch("a" * 1000))
    await scene.produce("t", 0, batch("b" * 1000))
    assert counts((await scene.fetch(("t", 0, 0), partition_max_bytes=10)).records) == [1]
    assert counts((await scene.fetch(("t", 0, 0), max_bytes=0)).records) == [1]


async def test_a_second_partition_gets_only_what_fits(scene: Scene) -> None:
    for partition in (0, 1):
        await scene.produce("t", partition, batch("a" * 1000))
    size = len(batch("a" * 1000))
    first, second = await scene.fetch(("t", 0, 0), ("t", 1, 0), max_bytes=2 * size - 1)
    assert (len(first.records), second.records, second.error_code) == (size, b"", 0)
    assert second.high_watermark == 1
    both = await scene.fetch(("t", 0, 0), ("t", 1, 0), max_bytes=2 * size)
    assert [len(data.records) for data in both] == [size, size]


async def test_an_empty_first_partition_does_not_use_up_the_exception(scene: Scene) -> None:
    await scene.produce("t", 1, batch("a" * 1000))
    _, second = await scene.fetch(("t", 0, 0), ("t", 1, 0), max_bytes=10)
    assert counts(second.records) == [1]


async def test_the_server_has_a_limit_of_its_own(scene: Scene) -> None:
    small = await scene.restart(fetch_max_bytes=1024)
    for partition in (0, 1):
        await small.produce("t", partition, batch("a" * 1000))
    first, second = await small.fetch(("t", 0, 0), ("t", 1, 0))
    assert (len(first.records) > 1000, second.records) == (True, b"")


# -- waiting


async def test_waits_for_an_append(scene: Scene) -> None:
    await scene.fetch(("t", 0, 0))
    reply = scene.send_fetch(("t", 0, 0), max_wait_ms=LONG)
    assert not reply.answered
    await scene.produce("t", 1, batch("other partition"))
    assert not reply.answered
    await scene.produce("t", 0, batch("a"))
    assert counts(reply.response.responses[0].partitions[0].records) == [1]


async def test_waits_for_enough_bytes(scene: Scene) -> None:
    size = len(batch("a"))
    await scene.produce("t", 0, batch("a"))
    reply = scene.send_fetch(("t", 0, 0), ("t", 1, 0), max_wait_ms=LONG, min_bytes=3 * size)
    await scene.fetch(("t", 1, 0))
    await asyncio.sleep(0)
    await scene.produce("t", 1, batch("a"))
    assert not reply.answered
    await scene.produce("t", 0, batch("a"))
    assert [t.partitions[0].high_watermark for t in reply.response.responses] == [2, 1]


@in_virtual_time
async def test_waits_no_longer_than_the_client_says(scene: Scene) -> None:
    reply = scene.send_fetch(("t", 0, 0), max_wait_ms=LONG)
    await asyncio.sleep(LONG / 1000 - 0.001)
    assert not reply.answered
    await asyncio.sleep(0.002)
    assert reply.response.responses[0].partitions[0].records == b""
    assert scene.topics.snapshot()["fetches_waiting"] == 0


@in_virtual_time
async def test_waits_no_longer_than_the_limit_whatever_the_client_says(scene: Scene) -> None:
    reply = scene.send_fetch(("t", 0, 0), max_wait_ms=2**31 - 1)
    await asyncio.sleep(MAX_WAIT_MS / 1000 - 0.001)
    assert not reply.answered
    await asyncio.sleep(0.002)
    assert (reply.answered, scene.topics.snapshot()["fetches_waiting"]) == (True, 0)


@in_virtual_time
async def test_the_end_of_the_wait_gives_what_came_meanwhile(scene: Scene) -> None:
    reply = scene.send_fetch(("t", 0, 0), max_wait_ms=LONG, min_bytes=1000)
    await scene.produce("t", 0, batch("a"))
    assert not reply.answered
    await asyncio.sleep(LONG / 1000 + 0.001)
    assert counts(reply.response.responses[0].partitions[0].records) == [1]


@pytest.mark.parametrize("more", [{"max_wait_ms": 0}, {"max_wait_ms": LONG, "min_bytes": 0}])
async def test_who_does_not_want_to_wait_does_not(scene, more):
    await scene.fetch(("t", 0, 0))
    assert scene.send_fetch(("t", 0, 0), **more).answered


async def test_a_fetch_of_nothing_is_answered_at_once(scene: Scene) -> None:
    assert scene.send_fetch(max_wait_ms=LONG).answered


async def test_an_answered_fetch_watches_nothing_any_more(scene: Scene) -> None:
    reply = scene.send_fetch(("t", 0, 0), ("t", 1, 0), max_wait_ms=LONG)
    await scene.fetch(("t", 1, 0))
    await scene.produce("t", 0, batch("a"))
    assert reply.answered
    await scene.produce("t", 1, batch("a"))
    assert scene.topics.snapshot()["fetches_waiting"] == 0


async def test_deleting_the_topic_ends_the_wait(scene: Scene) -> None:
    await scene.fetch(("t", 0, 0))
    reply = scene.send_fetch(("t", 0, 0), max_wait_ms=LONG)
    await scene.delete("t")
    data = reply.response.responses[0].partitions[0]
    assert data.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_stopping_answers_those_that_wait(scene: Scene) -> None:
    await scene.fetch(("t", 0, 0))
    waiting = scene.send_fetch(("t", 0, 0), max_wait_ms=LONG)
    await scene.topics.close()
    assert waiting.answered


async def test_stopping_leaves_nobody_to_wait_whose_log_is_just_being_opened(scene: Scene) -> None:
    held = HeldWorker()
    again = Scene(scene.disk, worker=held)
    log_opener = again.send_fetch(("t", 0, 0), max_wait_ms=LONG)
    stopping = asyncio.ensure_future(again.topics.close())
    for _ in range(3):
        await asyncio.sleep(0)
    held.go.set()
    await stopping
    assert log_opener.answered


@in_virtual_time
async def test_an_answered_fetch_has_no_timer_any_more(scene: Scene) -> None:
    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))
    reply = scene.send_fetch(("t", 0, 0), max_wait_ms=LONG)
    await scene.produce("t", 0, batch("a"))
    assert reply.answered
    await asyncio.sleep(2 * LONG / 1000)
    assert told == []


async def test_the_same_partition_twice_in_one_request_is_read_twice(scene: Scene) -> None:
    await scene.produce("t", 0, batch("a"))
    wanted = FetchPartition(partition=0, partition_max_bytes=1 << 20)
    request = FetchRequest(min_bytes=1, topics=[FetchTopic(topic="t", partitions=[wanted, wanted])])
    response = await scene.ask(12, request)
    assert [counts(p.records) for p in response.responses[0].partitions] == [[1], [1]]


async def test_reading_makes_no_folders(scene: Scene) -> None:
    await scene.fetch(("t", 0, 0))
    assert not scene.disk.has("data/t-0")


async def test_a_damaged_log_is_a_storage_error_and_said_aloud(scene: Scene) -> None:
    for value in ("a" * 600, "b"):
        await scene.produce("t", 0, batch(value))
    await scene.topics.close()
    scene.disk.flip("data/t-0/00000000000000000000.log", 65)
    again = Scene(scene.disk)
    assert (await again.fetch(("t", 0, 0))).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert any("t-0" in failure for failure in again.failures)
    assert (await again.produce("t", 0, batch("c"))).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert (await again.produce("t", 1, batch("c"))).error_code == 0


# -- many that wait


class Order:
    """Notes in which order its replies were answered."""

    def __init__(self, expected: int = 0) -> None:
        self.expected = expected
        self.complete = asyncio.Event()
        self.answered: list[int] = []
        self.records: list[bytes] = []

    def reply(self, number: int) -> "Numbered":
        return Numbered(self, number)


class Numbered:
    def __init__(self, order: Order, number: int) -> None:
        self.order = order
        self.number = number

    def answer(self, response: Any) -> None:
        self.order.answered.append(self.number)
        self.order.records.append(response.responses[0].partitions[0].records)
        if len(self.order.answered) == self.order.expected:
            self.order.complete.set()


def wait_for(scene: Scene, order: Order, number: int, *partitions: int) -> None:
    wanted = [FetchPartition(partition=at, partition_max_bytes=1 << 20) for at in partitions]
    request = FetchRequest(
        min_bytes=1, max_wait_ms=LONG, topics=[FetchTopic(topic="t", partitions=wanted)]
    )
    reply = order.reply(number)
    assert counted(scene.handlers[ApiKey.FETCH](request, Caller(12), reply))[0] is None


async def test_all_that_wait_are_answered_once_and_in_their_order(scene: Scene) -> None:
    await scene.fetch(("t", 0, 0))
    order = Order(300)
    for number in range(300):
        wait_for(scene, order, number, 0)
    scene.send_produce("t", 0, batch("a"))
    scene.send_produce("t", 0, batch("b"))
    await order.complete.wait()
    assert order.answered == list(range(300))
    assert {len(records) for records in order.records} == {len(batch("a")) * 2}
    await scene.produce("t", 0, batch("c"))
    await asyncio.sleep(0)
    assert (len(order.answered), scene.topics.snapshot()["fetches_waiting"]) == (300, 0)


async def test_who_comes_before_the_others_are_told_is_not_told_what_it_has_read(
    scene: Scene,
) -> None:
    size = len(batch("a"))
    await scene.fetch(("t", 0, 0))
    order = Order(300)
    for number in range(300):
        wait_for(scene, order, number, 0)
    scene.send_produce("t", 0, batch("a"))
    response_tasks = scene.send_fetch(("t", 0, 0), max_wait_ms=LONG, min_bytes=3 * size)
    scene.send_produce("t", 0, batch("a"))
    await order.complete.wait()
    await asyncio.sleep(0)
    assert not response_tasks.answered
    await scene.produce("t", 0, batch("a"))
    assert (await response_tasks.wait()).responses[0].partitions[0].high_watermark == 3


async def test_an_append_answers_nobody_itself(scene: Scene) -> None:
    await scene.fetch(("t", 0, 0))
    order = Order()
    for number in range(3):
        wait_for(scene, order, number, 0)
    scene.send_produce("t", 0, batch("a"))
    assert order.answered == []


async def test_what_comes_while_a_long_fetch_is_read_ends_its_wait(scene: Scene) -> None:
    await scene.create("wide", 1000)
    await scene.fetch(*(("wide", n, 0) for n in range(1000)))
    wanted = [FetchPartition(partition=n, partition_max_bytes=1 << 20) for n in range(1000)]
    request = FetchRequest(
        min_bytes=1, max_wait_ms=LONG, topics=[FetchTopic(topic="wide", partitions=wanted)]
    )
    reply = Reply()
    slices = scene.handlers[ApiKey.FETCH](request, Caller(12), reply)
    for _ in range(8):
        next(slices)
    await scene.produce("wide", 0, batch("read already"))
    assert counted(slices)[0] is None
    response = await reply.wait()
    assert response.responses[0].partitions[0].high_watermark == 1


async def test_a_long_fetch_that_is_dropped_watches_nothing(scene: Scene) -> None:
    await scene.create("wide", 1000)
    await scene.fetch(*(("wide", n, 0) for n in range(1000)))
    wanted = [FetchPartition(partition=n) for n in range(1000)]
    request = FetchRequest(
        min_bytes=1, max_wait_ms=LONG, topics=[FetchTopic(topic="wide", partitions=wanted)]
    )
    slices = scene.handlers[ApiKey.FETCH](request, Caller(12), Reply())
    for _ in range(8):
        next(slices)
    watched = [scene.topics.partitions.find("wide", n).watchers for n in range(1000)]
    assert any(watched)
    slices.close()
    for _ in range(3):
        await asyncio.sleep(0)
    assert not any(watched)


async def test_a_topic_deleted_while_a_long_fetch_is_read_ends_its_wait(scene: Scene) -> None:
    await scene.create("wide", 1000)
    await scene.fetch(*(("wide", n, 0) for n in range(1000)))
    wanted = [FetchPartition(partition=n) for n in range(999)]
    topics = [FetchTopic(topic="t", partitions=[FetchPartition()])]
    topics.append(FetchTopic(topic="wide", partitions=wanted))
    await scene.fetch(("t", 0, 0))
    request = FetchRequest(min_bytes=1, max_wait_ms=LONG, topics=topics)
    reply = Reply()
    slices = scene.handlers[ApiKey.FETCH](request, Caller(12), reply)
    for _ in range(7):
        next(slices)
    await scene.delete("t")
    assert counted(slices)[0] is None
    response = await reply.wait()
    code = response.responses[0].partitions[0].error_code
    assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_more_than_can_be_watched_is_answered_at_once(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("groupkeeper.apis.fetch.WATCHED_MOST", 3)
    await scene.fetch(("t", 0, 0), ("t", 1, 0))
    first = scene.send_fetch(("t", 0, 0), ("t", 1, 0), max_wait_ms=LONG)
    second = scene.send_fetch(("t", 0, 0), ("t", 1, 0), max_wait_ms=LONG)
    assert (first.answered, second.answered) == (False, True)
    assert "more than 3 partitions" in scene.failures[0]
    await scene.produce("t", 0, batch("a"))
    await first.wait()
    assert not scene.send_fetch(("t", 0, 1), ("t", 1, 0), max_wait_ms=LONG).answered


async def test_answers_shrink_as_room_for_them_ends(scene: Scene) -> None:
    for _ in range(4):
        await scene.produce("t", 0, batch("a" * 50_000))
    size = len(batch("a" * 50_000))
    for room, batches in ((16 * 1_000_000, 4), (16 * 3 * size, 3), (16 * size, 1), (0, 1), (-5, 1)):
        scene.topics.reader.room = lambda room=room: room
        assert len((await scene.fetch(("t", 0, 0))).records) == batches * size
    await scene.produce("t", 1, batch("a" * 100_000))
    assert len((await scene.fetch(("t", 1, 0))).records) > 100_000


WANTED, LARGE = ("__consumer_offsets", 2, 0), {"partition_max_bytes": 2 * RESPONSE_BYTES}


class HeldJobs(FileJobs):
    """Runs jobs when told to, as threads do that wait for a disk."""

    def __init__(self) -> None:
        self.held: list[FileJob[Any]] = []

    def start(self, call: Callable[[], Any], *, wait: bool = True) -> FileJob[Any]:
        self.held.append(FileJob(call))
        return self.held[-1]

    def run_all(self) -> None:
        while self.held:
            job = self.held.pop()
            job.run()
            job.finish()


async def test_responses_that_threads_are_reading_share_the_room() -> None:
    jobs = HeldJobs()
    scene = Scene(file_jobs=lambda: jobs)
    asked: list[int] = []

    class Large(GroupLog):
        def read(self, offset: int, max_bytes: int, **how: bool) -> bytes:
            found = super().read(offset, max_bytes, **how)
            asked.append(max_bytes)
            return found

    scene.serve_group_logs(lambda index: Large(batch("x"), 1))
    room = 64 * 1024 * 1024
    scene.topics.reader.room = lambda: room
    replies = [scene.send_fetch(WANTED, **LARGE) for _ in range(500)]
    jobs.run_all()
    for reply in replies:
        await reply.wait()
    assert room * 3 // 4 < sum(each for each in asked if each > LEAST_BYTES) <= room
    assert asked.count(LEAST_BYTES) > 100
    asked.clear()
    reply = scene.send_fetch(WANTED, **LARGE)
    jobs.run_all()
    await reply.wait()
    assert asked == [RESPONSE_BYTES], "no thread reads any more"


async def test_who_waits_for_more_than_there_is_room_for_need_not(scene: Scene) -> None:
    await scene.fetch(("t", 0, 0))
    scene.topics.reader.room = lambda: 0
    reply = scene.send_fetch(("t", 0, 0), max_wait_ms=LONG, min_bytes=1_000_000)
    await scene.produce("t", 0, batch("a" * 70_000))
    assert (await reply.wait()).responses[0].partitions[0].high_watermark == 1


# -- the group topic


class GroupLog:
    """As much of a Log as reading needs."""

    start_offset = 0
    last_epoch = 3
    segments = ()

    def __init__(self, records: bytes, next_offset: int) -> None:
        self.records = records
        self.next_offset = next_offset

    def bytes_from(self, offset: int) -> int:
        return len(self.records)

    def read(
        self, offset: int, max_bytes: int, *, at_least_one: bool, cached: bool = False
    ) -> bytes:
        if cached:
            raise NotCached
        return self.records


async def test_partitions_of_the_group_topic_can_be_read(scene: Scene) -> None:
    scene.serve_group_logs(lambda index: GroupLog(batch("x"), 1) if index == 2 else None)
    data = await scene.fetch(("__consumer_offsets", 2, 0))
    assert (data.records, data.high_watermark) == (batch("x"), 1)


async def test_a_group_partition_without_a_log_is_empty(scene: Scene) -> None:
    data = await scene.fetch(("__consumer_offsets", 1, 0))
    assert (data.error_code, data.records, data.high_watermark) == (0, b"", 0)
    away = await scene.fetch(("__consumer_offsets", 1, 5))
    assert away.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    unknown = await scene.fetch(("__consumer_offsets", 4, 0))
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_who_waits_for_a_group_partition_is_woken_by_its_owner(scene: Scene) -> None:
    log = GroupLog(b"", 0)
    scene.serve_group_logs(lambda index: log)
    reply = scene.send_fetch(("__consumer_offsets", 2, 0), max_wait_ms=LONG)
    scene.topics.partitions.grew(GROUP_TOPIC, 3, 70)
    assert not reply.answered
    log.records, log.next_offset = batch("x"), 1
    scene.topics.partitions.grew(GROUP_TOPIC, 2, 70)
    assert (await reply.wait()).responses[0].partitions[0].high_watermark == 1
