"""A server compacts its logs while it serves: what it answers does not change."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from groupkeeper.cleaner.process import CompactionHung
from groupkeeper.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from groupkeeper.protocol.record_batch import iter_batches
from groupkeeper.storage.compaction.compaction import Compacted, compact
from tests.simulation.cluster import CleanerThread
from tests.support.batches import offsets_of
from tests.support.fake_files import Crash
from tests.support.served import Client, Lines, Served, settle

Serve = Callable[..., Served]

SMALL = (
    "offsets.topic.num.partitions=1",
    "offsets.topic.segment.bytes=2000",
    "log.cleaner.backoff.ms=1000",
)
FOLDER = "data/__consumer_offsets-0"


def commit(served: Served, commits: int, groups: int = 3) -> None:
    client = served.client()
    for number in range(commits):
        assert client.commit(number, f"group-{number % groups}") == 0
    served.advance(0.1)
    client.hang_up()


def size_of(served: Served) -> int:
    names = served.disk.children(FOLDER)
    return sum(len(served.disk.contents(f"{FOLDER}/{n}")) for n in names if n.endswith(".log"))


def offsets(served: Served, groups: int = 3) -> list[dict[tuple[str, int], int]]:
    client = served.client()
    return [client.fetched(f"group-{n}") for n in range(groups)]


def test_old_commits_are_compacted_and_the_newest_are_found_by_the_next_start(serve: Serve) -> None:
    served = serve(*SMALL)
    commit(served, 200)
    before, known = size_of(served), offsets(served)
    served.advance(5)
    assert size_of(served) < before / 4
    assert served.server.metrics.cleaner.runs == 1
    assert offsets(served) == known
    served.machine.kill()
    served.start()
    served.settled()
    assert offsets(served) == known
    commit(served, 1)


def test_members_and_generations_survive_compaction(serve: Serve) -> None:
    served = serve(*SMALL)
    client = served.client()
    member_id, generation = settle(client, "g", group_instance_id="one")
    commit(served, 200)
    served.advance(5)
    assert served.server.metrics.cleaner.runs
    served.cut_power()
    served.settled()
    assert served.client().beat(member_id, generation, instance_id="one") == 0


def test_nothing_is_compacted_while_the_cleaner_is_off(serve: Serve) -> None:
    served = serve(*SMALL, "log.cleaner.enable=false")
    commit(served, 200)
    before = size_of(served)
    served.advance(60)
    assert size_of(served) == before


def test_a_log_is_left_alone_until_enough_of_it_is_dirty(serve: Serve) -> None:
    served = serve(*SMALL, "log.cleaner.min.cleanable.ratio=0.6")
    commit(served, 200, groups=100)
    served.advance(5)
    assert served.server.metrics.cleaner.runs == 1, "all of it was"
    commit(served, 80)
    served.advance(5)
    assert served.server.metrics.cleaner.runs == 1
    commit(served, 200)
    served.advance(5)
    assert served.server.metrics.cleaner.runs == 2


def test_young_segments_are_left_alone(serve: Serve) -> None:
    served = serve(*SMALL, "log.cleaner.min.compaction.lag.ms=60000")
    commit(served, 200)
    before = size_of(served)
    served.advance(50)
    assert size_of(served) == before
    served.advance(20)
    assert size_of(served) < before / 4


def test_a_damaged_segment_is_not_compacted_and_named(serve: Serve, lines: Lines) -> None:
    served = serve(*SMALL)
    commit(served, 200)
    served.disk.flip(f"{FOLDER}/00000000000000000000.log", 500)
    before = size_of(served)
    served.advance(60)
    [line] = [line for line in lines() if line["event"] == "log cannot be compacted"]
    assert line["log"] == "__consumer_offsets-0"
    assert line["error"].startswith(f"{FOLDER}/00000000000000000000.log: at byte ")
    assert size_of(served) == before
    assert served.server.metrics.cleaner.uncleanable == 1
    commit(served, 3)


def test_a_full_disk_fails_the_compaction_and_nothing_else(serve: Serve, lines: Lines) -> None:
    served = serve(*SMALL)
    commit(served, 200)
    known = offsets(served)
    served.disk.capacity = served.disk.used() + 100
    served.advance(14)
    failures = [line for line in lines() if line["event"] == "compaction failed"]
    assert len(failures) == 2, "tried again at once, and then not for fifteen seconds"
    assert not [name for name in served.disk.children(FOLDER) if name.endswith(".cleaned")]
    assert offsets(served) == known
    served.disk.capacity = None
    before = size_of(served)
    served.advance(60)
    assert size_of(served) < before / 4


def test_raw_segments_are_kept_as_long_as_wanted(serve: Serve) -> None:
    served = serve(
        *SMALL, "offsets.raw.retention.ms=600000", "log.retention.check.interval.ms=60000"
    )
    commit(served, 200)
    before = size_of(served)
    served.advance(5)
    archive = "data/archive/__consumer_offsets-0"

    def archived() -> int:
        names = served.disk.children(archive)
        return sum(len(served.disk.contents(f"{archive}/{n}")) for n in names if ".log" in n)

    assert before - 2_000 <= archived() <= before
    served.advance(590)
    assert archived() >= before - 2_000
    served.advance(120)
    assert not archived()


def test_a_fetch_that_waits_on_the_offsets_topic_is_answered_after_a_compaction(
    serve: Serve,
) -> None:
    served = serve(*SMALL)
    commit(served, 200)
    served.advance(5)
    client = served.client()
    end = _fetch(client, 0, wait_ms=0).high_watermark
    client.send(11, _fetch_request(end, wait_ms=60_000))
    commit(served, 1)
    before = served.loop.time()
    [found] = client.take().responses[0].partitions
    assert served.loop.time() - before < 1
    assert offsets_of(found.records) == [end]


def test_fetches_of_every_offset_of_a_compacted_log_lead_to_its_end(serve: Serve) -> None:
    served = serve(*SMALL)
    commit(served, 200)
    served.advance(5)
    client = served.client()
    end = _fetch(client, 0, wait_ms=0).high_watermark
    seen: list[int] = []
    position = 0
    while position < end:
        data = _fetch(client, position, wait_ms=0, size=500).records
        seen += [offset for offset in offsets_of(data) if offset >= position]
        # The last batch of a segment may be empty: consumers go on behind it.
        position = [header.next_offset for header in iter_batches(data)][-1]
    assert seen == sorted(set(seen))
    assert len(seen) < 60
    for offset in range(end):
        data = _fetch(client, offset, wait_ms=0, size=1).records
        [header] = iter_batches(data)
        assert header.next_offset > offset, "what follows, not what was before"
        assert not [each for each in seen if offset <= each < header.base_offset]


def _fetch_request(offset: int, wait_ms: int, size: int = 1 << 20) -> FetchRequest:
    part = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=size)
    topic = FetchTopic(topic="__consumer_offsets", partitions=[part])
    return FetchRequest(max_wait_ms=wait_ms, min_bytes=1, max_bytes=size, topics=[topic])


def _fetch(client: Client, offset: int, wait_ms: int, size: int = 1 << 20) -> Any:
    [found] = client.call(11, _fetch_request(offset, wait_ms, size)).responses[0].partitions
    assert not found.error_code
    return found


def test_a_stop_does_not_wait_for_a_compaction(serve: Serve) -> None:
    served = serve(*SMALL)
    commit(served, 200)
    served.advance(0.9)
    served.stop()
    served.start()
    served.settled()
    assert len(offsets(served)) == 3


@pytest.mark.parametrize("mode", ["lose", "tear", "kill"])
def test_wherever_a_server_dies_in_a_compaction_nothing_is_lost(serve: Serve, mode: str) -> None:
    for after in range(1, 60, 2):
        served = Served(*SMALL, seed=after)
        commit(served, 100)
        known = offsets(served)
        served.disk.crash_at = served.disk.calls + after
        with suppress(Crash):  # of the process, when the disk has so many calls
            served.advance(5)
        served.machine.kill()
        served.disk.revive() if mode == "kill" else served.disk.power_cut(mode, seed=after)
        served.start()
        served.settled()
        assert offsets(served) == known
        served.advance(5)
        assert offsets(served) == known
        served.close()


def test_a_compaction_that_hung_is_counted_and_tried_again(
    serve: Serve, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve(*SMALL)
    cleaner, left = served.server.metrics.cleaner, [1, 2]
    commit(served, 200)
    before = size_of(served)

    def hanging(*job: Any) -> Compacted:
        if left:
            raise CompactionHung(f"made no progress {left.pop()}")
        return compact(*job)

    monkeypatch.setattr("tests.simulation.cluster.compact", hanging)
    served.advance(14)
    assert (cleaner.runs, cleaner.failures, cleaner.hung) == (0, 2, 2)
    failed = [line["error"] for line in lines() if line["event"] == "compaction failed"]
    assert failed == ["made no progress 2", "made no progress 1"]
    served.advance(30)
    assert cleaner.runs == 1
    assert size_of(served) < before / 4


def test_how_long_a_compaction_runs_and_when_the_last_one_ended_is_told(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CleanerThread, "LATER_S", (60, 60))
    served = serve(*SMALL)
    cleaner = served.server.metrics.cleaner
    served.advance(20)
    assert (cleaner.running_s, cleaner.since_s) == (0, pytest.approx(20, abs=2))
    commit(served, 200)
    served.advance(30)
    assert 25 < cleaner.running_s < 35
    served.advance(40)
    assert (cleaner.runs, cleaner.running_s) == (1, 0)
    assert 3 < cleaner.since_s < 15
