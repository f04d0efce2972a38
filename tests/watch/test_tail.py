"""The reader of all partitions: leaders that move, brokers that fail, records that are lost."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from groupkeeper.client import CallFailed, Client
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.record_batch import CorruptBatch, encode_batch, iter_batches, patch
from groupkeeper.settings.options import Address
from groupkeeper.watch import tail as tail_module
from groupkeeper.watch.tail import (
    DELETED,
    FETCH_S,
    LOOK_S,
    MUCH_BYTES,
    PAUSE_MOST_S,
    RECREATED,
    TRUNCATED,
    Tail,
)
from groupkeeper.watch.topic import NoRight, TopicChanged, look
from groupkeeper.watch.waiting import wait_for_topic
from tests.conftest import Lines
from tests.support.virtual_loop import VirtualLoop
from tests.watch.cluster import TOPIC, FakeCluster, virtual

Play = Callable[[FakeCluster, "Notes", Tail], Awaitable[None]]


def one(offset: int, epoch: int = 0) -> bytes:
    """A batch of one record."""
    return encode_batch(offset, epoch, 1_000, [(b"key", b"%d" % offset)])


class Notes:
    """A sink that notes what it gets."""

    def __init__(self, partitions: int) -> None:
        self.positions = dict.fromkeys(range(partitions), 0)
        self.read: dict[int, list[int]] = {number: [] for number in range(partitions)}
        self.epochs = dict.fromkeys(range(partitions), -1)
        self.losses: list[tuple[int, int, str]] = []
        self.ids: list[str] = []
        self.broken: set[int] = set()
        """Partitions whose next batch cannot be told apart."""

    def position(self, partition: int) -> int:
        return self.positions[partition]

    def epoch(self, partition: int) -> int:
        return self.epochs[partition]

    async def take(self, partition: int, start: int, data: bytes, end: int) -> None:
        if start != self.positions[partition]:  # the topic was created anew meanwhile
            return
        if data and partition in self.broken:
            raise CorruptBatch("a batch of -5 bytes")
        with contextlib.suppress(CorruptBatch):  # the last one may be cut off
            for each in iter_batches(data):
                if each.base_offset >= start:
                    self.read[partition].append(each.base_offset)
                    self.positions[partition] = each.next_offset
                    self.epochs[partition] = each.leader_epoch

    def identified(self, topic_id: str) -> None:
        self.ids.append(topic_id)

    async def lost(self, partition: int, offset: int, why: str, topic_id: str) -> None:
        self.losses.append((partition, offset, why))
        self.epochs[partition] = -1
        self.positions[partition] = offset


def played(
    play: Play,
    partitions: int = 1,
    *,
    ends_with: type[Exception] | None = None,
    topic_id: bytes = bytes(15) + b"\1",
) -> Notes:
    """Run a tail while `play` runs; then what the sink got."""
    loop = VirtualLoop()

    async def run() -> Notes:
        cluster, notes = FakeCluster(partitions), Notes(partitions)
        cluster.topic_id = topic_id
        client = cast("Client", cluster)
        seen = await look(client, TOPIC)
        tail = Tail(client, TOPIC, seen, notes)
        running = asyncio.create_task(tail.run())
        await play(cluster, notes, tail)
        if ends_with is not None:
            with pytest.raises(ends_with):
                await running
        assert not running.done() or ends_with
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return notes

    return loop.run_until_complete(run())


async def until(condition: Callable[[], Any], seconds: float = 60.0) -> None:
    """Wait, in virtual time, for a condition."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  # conditions of several parts
            await asyncio.sleep(0.01)


def test_all_partitions_are_read_from_their_leaders_one_fetch_at_a_time() -> None:
    async def play(cluster: FakeCluster, notes: Notes, tail: Tail) -> None:
        for number in range(5):
            cluster.append(number, one(0), one(1))
        await until(lambda: all(len(each) == 2 for each in notes.read.values()))
        cluster.append(3, one(2))
        await until(lambda: notes.read[3] == [0, 1, 2])
        assert cluster.most_at_once == 1
        assert {node for _, api, node in cluster.calls if api == "FetchRequest"} == {0, 1}

    played(play, 5)


def test_without_records_a_broker_is_asked_twice_a_second() -> None:
    async def play(cluster: FakeCluster, notes: Notes, tail: Tail) -> None:
        await virtual(10)
        assert 15 <= cluster.fetches(0) <= 22

    played(play)


def test_with_few_records_a_broker_is_asked_twenty_times_a_second() -> None:
    async def play(cluster: FakeCluster, notes: Notes, tail: Tail) -> None:
        for number in range(1000):
            cluster.append(0, one(number))
            await virtual(0.01)
        assert 150 <= cluster.fetches(0) <= 10 / FETCH_S + 1
        await until(lambda: len(notes.read[0]) == 1000, 1)

    played(play)


def test_with_many_records_a_broker_is_asked_again_at_once() -> None:
    async def play(cluster: FakeCluster, notes: Notes, tail: Tail) -> None:
        many = encode_batch(0, 0, 1_000, [(b"key", bytes(MUCH_BYTES))])
        cluster.append(0, *(patch(many, number, 0) for number in range(50)))
        await until(lambda: len(notes.read[0]) == 50, 50 * FETCH_S / 2)

    played(play)


def test_partitions_follow_their_leader() -> None:
    async def play(cluster: FakeCluster, notes: Notes, tail: Tail) -> None:
        cluster.append(0, one(0))
        await until(lambda: notes.read[0] == [0])
        cluster.leaders[0] = 1
        cluster.append(0, one(1))
        await until(lambda: notes.read[0] == [0, 1])
        assert cluster.fetches(1)

    played(play)


def test_a_broker_that_is_down_is_asked_ever_more_rarely_and_told_once(lines: Lines) -> None:
    async def play(cluster: FakeCluster, notes: Notes, tail: Tail) -> None:
        await until(lambda: cluster.fetches(0) > 1)
        cluster.down = {0}
        await virtual(60)
        asked = cluster.fetches(0)
        await virtual(60)
        assert cluster.fetches(0) - asked <= 60 / PAUSE_MOST_S + 1
        assert tail.stats.failures > 5
        cluster.append(0, one(0))
        cluster.append(1, one(0))
        await until(lambda: notes.read[1] == [0])
        assert notes.read[0] == []
        cluster.down = set()
        await until(lambda: notes.read[0] == [0])

    played(play, 2)
    told = [line["event"] for line in lines() if line["logger"] == "observer"]
    assert told == ["partitions cannot be read", "all partitions are read again"]


def test_it_says_how_many_partitions_cannot_be_read_and_for_how_long() -> None:
    async def play(cluster: FakeCluster, notes: Notes, tail: Tail) -> None:
        await until(lambda: cluster.fetches(0) > 1 and cluster.fetches(1) > 1)
        assert tail.unread is None
        cluster.down = {0}
        await until(lambda: tail.unread is not None)
        await virtual(60)
        assert tail.unread is not None
        assert tail.unread["partitions"] == 1
        assert 60_000 <= tail.unread["for_ms"] <= 61_000
        cluster.down = set()
        await until(lambda: tail.unread is None)

    played(play, 2)


def test_a_partition_without_leader_does_not_stop_the_others() -> None:
    async def play(cluster: FakeCluster, notes: Notes, tail: Tail) -> None:
        cluster.leaders[0] = -1
        cluster.errors[0] = [ErrorCode.LEADER_NOT_AVAILABLE]
        cluster.append(0, one(0))
        cluster.append(2, one(0))
        await until(lambda: notes.read[2] == [0])
        await virtual(20)
        assert notes.read[0] == []
        cluster.leaders[0] = 1
        await until(lambda: notes.read[0] == [0])

    played(play, 3)


def test_records_that_were_deleted_are_told_and_reading_goes_on_behind_them(lines: Lines) -> None:
    async def play(cluster: FakeCluster, notes: Notes, tail: Tail) -> None:
        cluster.append(0, one(0))
        await until(lambda: notes.read[0] == [0])
        cluster.starts[0] = 7
        cluster.logs[0] = []
        cluster.append(0, one(7))
        await until(lambda: notes.read[0] == [0, 7])
        assert tail.stats.losses == 1

    assert played(play).losses == [(0, 7, DELETED)]
    [line] = [line for line in lines() if line["event"] == "history is lost"]
    assert (line["partition"], line["from_offset"], line["to_offset"]) == (0, 1, 7)
    assert line["why"] == DELETED


def test_a_log_that_ends_before_the_position_was_truncated() -> None:
    async def play(cluster: FakeCluster, notes: Notes, tail: Tail) -> None:
        cluster.append(0, one(0), one(1), one(2))
        await until(lambda: len(notes.read[0]) == 3)
        cluster.logs[0] = [one(0)]
        await until(lambda: notes.losses)
        cluster.append(0, one(1))
        await until(lambda: notes.read[0] == [0, 1, 2, 1])

    assert played(play).losses == [(0, 1, TRUNCATED)]


def test_a_log_that_has_grown_past_the_position_since_it_was_truncated_is_noticed() -> None:
    async def play(cluster: FakeCluster, notes: Notes, tail: Tail) -> None:
        cluster.append(0, one(0, 3), one(1, 3), one(2, 3))
        await until(lambda: len(notes.read[0]) == 3)
        cluster.logs[0] = [one(0, 3), *(one(offset, 5) for offset in range(1, 6))]
        await until(lambda: notes.positions[0] == 6)
        assert notes.read[0] == [0, 1, 2, 1, 2, 3, 4, 5]
        cluster.append(0, one(6, 6))
        await until(lambda: notes.positions[0] == 7)

    assert played(play).losses == [(0, 1, TRUNCATED)]


def test_brokers_that_know_no_epochs_are_read_without() -> None:
    async def play(cluster: FakeCluster, notes: Notes, tail: Tail) -> None:
        cluster.is_old = True
        cluster.append(0, one(0, 3))
        await until(lambda: notes.read[0] == [0])
        cluster.append(0, one(1, 3))
        await until(lambda: notes.read[0] == [0, 1])
        assert not tail.stats.failures
        cluster.is_old = False
        await virtual(LOOK_S + 1)
        cluster.logs[0] = [one(0, 3), one(1, 5), one(2, 5)]
        await until(lambda: notes.losses == [(0, 1, TRUNCATED)])

    played(play)


def test_an_election_that_loses_nothing_is_no_loss() -> None:
    async def play(cluster: FakeCluster, notes: Notes, tail: Tail) -> None:
        cluster.append(0, one(0, 3), one(1, 3))
        await until(lambda: len(notes.read[0]) == 2)
        cluster.leaders[0] = 1
        cluster.append(0, one(2, 5))
        await until(lambda: notes.read[0] == [0, 1, 2])
        await virtual(5)

    assert played(play).losses == []


def test_a_topic_that_was_created_anew_is_read_from_its_start() -> None:
    async def play(cluster: FakeCluster, notes: Notes, tail: Tail) -> None:
        cluster.append(0, one(0), one(1))
        cluster.append(1, one(0))
        await until(lambda: len(notes.read[0]) == 2)
        await until(lambda: notes.read[1])
        cluster.topic_error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await virtual(5)
        cluster.topic_error = ErrorCode.NONE
        cluster.topic_id = bytes(15) + b"\2"
        cluster.logs = {0: [one(0)], 1: [one(0), one(1)]}
        await until(lambda: notes.read == {0: [0, 1, 0], 1: [0, 0, 1]})

    assert played(play, 2).losses == [(0, 0, RECREATED), (1, 0, RECREATED)]


def test_a_topic_that_was_created_anew_is_noticed_after_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its new log may be shorter than the old one was, and is not taken for a truncated one."""
    failures = [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NETWORK_EXCEPTION]
    list_offsets = tail_module.list_offsets

    async def fail_first(*asked: Any) -> Any:
        if failures:
            raise CallFailed("ListOffsets", 0, failures.pop())
        return await list_offsets(*asked)

    async def play(cluster: FakeCluster, notes: Notes, tail: Tail) -> None:
        cluster.append(0, *(one(number) for number in range(5)))
        await until(lambda: len(notes.read[0]) == 5)
        monkeypatch.setattr(tail_module, "list_offsets", fail_first)
        cluster.topic_id = bytes(15) + b"\2"
        cluster.logs = {0: [one(0), one(1)]}
        await until(lambda: notes.read[0][5:] == [0, 1])
        await virtual(2 * LOOK_S)

    assert played(play).losses == [(0, 0, RECREATED)]
    assert not failures


def test_an_id_that_brokers_begin_to_tell_is_no_other_topic() -> None:
    """Brokers are upgraded one by one, and any of them answers."""

    async def play(cluster: FakeCluster, notes: Notes, tail: Tail) -> None:
        known = cluster.topic_id
        cluster.append(0, one(0))
        await until(lambda: len(notes.read[0]) == 1)
        for each in (bytes(16), known, bytes(16), known):
            cluster.topic_id = each
            await virtual(1.1 * LOOK_S)
        assert not notes.ids, "the first id stays"
        cluster.topic_id = bytes(15) + b"\2"
        await until(lambda: len(notes.read[0]) == 2)

    assert played(play).losses == [(0, 0, RECREATED)]


def test_an_id_that_was_not_told_before_is_noted_once() -> None:
    async def play(cluster: FakeCluster, notes: Notes, tail: Tail) -> None:
        await virtual(1.1 * LOOK_S)
        cluster.topic_id = bytes(15) + b"\1"
        await virtual(3 * LOOK_S)

    notes = played(play, topic_id=bytes(16))
    assert (notes.losses, notes.ids) == ([], [(bytes(15) + b"\1").hex()])


def test_a_partition_whose_bytes_are_no_batch_waits_and_others_are_read(lines: Lines) -> None:
    async def play(cluster: FakeCluster, notes: Notes, tail: Tail) -> None:
        notes.broken.add(0)
        cluster.append(0, one(0))
        cluster.append(2, one(0))
        await until(lambda: notes.read[2] == [0])
        await virtual(60)
        assert tail.unread is not None
        assert tail.unread["partitions"] == 1
        assert tail.stats.failures < 60 / PAUSE_MOST_S + 10
        cluster.append(2, one(1))
        await until(lambda: notes.read[2] == [0, 1], 1)
        notes.broken.clear()
        await until(lambda: notes.read[0] == [0])
        assert tail.unread is None

    played(play, 3)
    [first, _] = [line for line in lines() if line["logger"] == "observer"]
    assert first["why"] == "partition 0 at offset 0: a batch of -5 bytes"


def test_another_number_of_partitions_ends_the_tail() -> None:
    async def play(cluster: FakeCluster, notes: Notes, tail: Tail) -> None:
        cluster.leaders |= {1: 1}
        cluster.errors[0] = [ErrorCode.NOT_LEADER_OR_FOLLOWER]

    played(play, ends_with=TopicChanged)


def test_a_right_that_is_missing_names_the_right() -> None:
    async def run() -> None:
        cluster = FakeCluster()
        cluster.topic_error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        with pytest.raises(NoRight, match="this user DESCRIBE on the topic __consumer_offsets: gr"):
            await look(cast("Client", cluster), TOPIC)

    VirtualLoop().run_until_complete(run())


def test_without_the_right_to_read_the_tail_ends() -> None:
    async def play(cluster: FakeCluster, notes: Notes, tail: Tail) -> None:
        cluster.errors[0] = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]

    played(play, ends_with=NoRight)


def test_a_right_that_is_taken_away_is_told_and_waited_for(lines: Lines) -> None:
    async def play(cluster: FakeCluster, notes: Notes, tail: Tail) -> None:
        cluster.append(0, one(0))
        await until(lambda: notes.read[0] == [0])
        cluster.topic_error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        await virtual(20)
        cluster.topic_error = ErrorCode.NONE
        cluster.append(0, one(1))
        await until(lambda: notes.read[0] == [0, 1])

    played(play)
    [first, _] = [line for line in lines() if line["logger"] == "observer"]
    assert "denies this user READ on the topic __consumer_offsets: grant READ" in first["why"]


def test_an_error_of_the_sink_ends_the_tail() -> None:
    async def play(cluster: FakeCluster, notes: Notes, tail: Tail) -> None:
        async def fail(*_: object) -> None:
            raise OSError("the disk is full")

        notes.take = fail  # type: ignore[method-assign]
        cluster.append(0, one(0))

    played(play, ends_with=OSError)


def test_large_responses_are_bounded_and_no_partition_waits_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tail_module, "PARTITION_BYTES", 200)

    async def play(cluster: FakeCluster, notes: Notes, tail: Tail) -> None:
        for number in (0, 2):
            cluster.append(number, *map(one, range(50)))
        await until(lambda: all(len(notes.read[number]) == 50 for number in (0, 2)))

    played(play, 3)


def test_a_failure_of_metadata_is_retried() -> None:
    async def play(cluster: FakeCluster, notes: Notes, tail: Tail) -> None:
        cluster.down = {0, 1}
        await virtual(30)
        cluster.down = set()
        cluster.append(0, one(0))
        await until(lambda: notes.read[0] == [0])

    played(play)


def test_a_topic_that_is_not_there_yet_is_waited_for(lines: Lines) -> None:
    async def missing() -> Address:
        return "127.0.0.1", 9644

    async def run() -> None:
        cluster = FakeCluster()
        cluster.topic_error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        work = wait_for_topic(cast("Client", cluster), TOPIC, missing)
        waiting = asyncio.create_task(work)
        await virtual(60)
        assert 60 / PAUSE_MOST_S <= len(cluster.calls) < 30
        cluster.down = {0, 1}
        await virtual(60)
        cluster.down = set()
        cluster.topic_error = ErrorCode.NONE
        assert (await waiting).partitions == 1

    VirtualLoop().run_until_complete(run())
    [line] = lines()
    assert line["event"] == "the cluster has no topic __consumer_offsets"
    assert line["http"] == "127.0.0.1:9644"


def test_a_topic_that_is_not_there_is_an_error_of_the_first_look() -> None:
    async def run() -> None:
        cluster = FakeCluster()
        cluster.topic_error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        with pytest.raises(CallFailed):
            await look(cast("Client", cluster), TOPIC)

    VirtualLoop().run_until_complete(run())
