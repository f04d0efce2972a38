"""ListOffsets by time: right for every honest log, and cheap for logs that lie."""

import asyncio
import sys
from random import Random

import pytest
from crc32c import crc32c

from groupkeeper import turns
from groupkeeper.protocol.compression import codecs
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.record_batch import encode_batch
from groupkeeper.storage.files.files import Files
from groupkeeper.storage.log import times
from groupkeeper.storage.log.limits import Limits
from groupkeeper.storage.log.log import Log
from groupkeeper.storage.recovery.opening import open_log
from groupkeeper.topics import batch_reader, time_lookup
from groupkeeper.topics.batch_reader import BatchReader
from groupkeeper.topics.file_jobs import FileJobs
from groupkeeper.topics.open_files import OpenFiles
from groupkeeper.topics.time_lookup import TimeLookup
from groupkeeper.turns import Turns
from tests.support.fake_files import FakeDisk, FakeFiles
from tests.support.requests import delete_records_request
from tests.topics.scene import COMPRESSIONS, NOW, InlineWorker, Scene, Settings, batch

LARGEST = -3


def lying(raw: bytes, max_timestamp: int) -> bytes:
    """The same batch, whose header says that a record in it is so young."""
    changed = bytearray(raw)
    changed[35:43] = max_timestamp.to_bytes(8, "big")
    changed[17:21] = crc32c(bytes(changed[21:])).to_bytes(4, "big")
    return bytes(changed)


def lookup_on(worker, turns) -> TimeLookup:
    return TimeLookup(BatchReader(worker, turns), FileJobs())


async def find(scene: Scene, timestamp: int) -> tuple[int, int, int]:
    found = await scene.offsets("t", 0, timestamp)
    return found.error_code, found.offset, found.timestamp


async def delete_before(scene: Scene, offset: int) -> None:
    response = await scene.ask(2, delete_records_request("t", 0, offset))
    assert response.topics[0].partitions[0].error_code == 0


@pytest.fixture
def gone_through(monkeypatch) -> list[int]:
    """Records in the batches that were looked into."""
    counts: list[int] = []
    record_times = time_lookup.record_times

    def counted(data, header):
        counts.append(header.record_count)
        return record_times(data, header)

    monkeypatch.setattr(time_lookup, "record_times", counted)
    return counts


# -- honest logs


@pytest.mark.parametrize("seed", range(12))
async def test_any_log_of_batches_with_its_beginning_deleted(seed):
    random = Random(seed)
    scene = Scene(settings=Settings(log_segment_bytes=random.choice([2_000, 1 << 30])))
    await scene.create("t")
    times: list[int] = []
    for _ in range(60):
        first, count = NOW + random.randrange(500), random.randint(1, 4)
        values = ["v" * random.choice([1, 300])] * count
        codec = random.choice(list(COMPRESSIONS))
        await scene.produce("t", 0, batch(*values, timestamp=first, compression=codec))
        times += range(first, first + count)
    for start in sorted(random.sample(range(len(times)), 4)):
        await delete_before(scene, start)
        if random.random() < 0.5:
            scene = await scene.restart()
        kept = list(enumerate(times))[start:]
        for time in [NOW - 1, *(NOW + random.randrange(510) for _ in range(20))]:
            young = ((0, offset, at) for offset, at in kept if at >= time)
            assert await find(scene, time) == next(young, (0, -1, -1))
        largest = max(at for _, at in kept)
        first_of_them = next(offset for offset, at in kept if at == largest)
        assert await find(scene, LARGEST) == (0, first_of_them, largest)


async def test_the_largest_time_is_looked_for_in_one_batch(scene, gone_through):
    for shift in (5, 50, 7, 50):
        await scene.produce("t", 0, batch("a", "b", timestamp=NOW + shift))
    assert await find(scene, LARGEST) == (0, 3, NOW + 51)
    assert gone_through == [2]


async def test_a_batch_that_unfolds_to_much_is_unfolded_beside_the_loop(scene: Scene) -> None:
    jobs = []
    worker = scene.topics.worker

    class Watched:
        async def __call__(self, job):
            jobs.append(job)
            return await worker(job)

    values = ["x" * 100_000] * 30
    lookup = lookup_on(Watched(), scene.topics.response_tasks.turns)
    for codec in COMPRESSIONS:
        await scene.produce("t", 0, batch(*values[:8], compression=codec))
    log = scene.topics.partitions.find("t", 0).log
    assert await lookup.first(log, NOW) == (0, NOW)
    assert jobs == []
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        raw = batch(*values, compression=codec, timestamp=NOW + 1000 * len(jobs) + 1000)
        base = (await scene.produce("t", 0, raw)).base_offset
        assert await lookup.newest(log) == (base + 29, NOW + 1000 * len(jobs) + 29)
    assert len(jobs) == 4


async def test_the_codecs_are_imported_beside_the_loop(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = []

    class Watched:
        async def __call__(self, job):
            jobs.append(job)
            return job()

    lookup = lookup_on(Watched(), scene.topics.response_tasks.turns)
    await scene.produce("t", 0, batch("a", compression="gzip"))
    monkeypatch.delitem(sys.modules, "cramjam")
    assert await lookup.first(scene.topics.partitions.find("t", 0).log, NOW) == (0, NOW)
    assert jobs == [codecs]


# -- logs that lie


async def test_a_lookup_ends_after_some_false_promises(scene, gone_through):
    for _ in range(10):
        await scene.produce("t", 0, lying(batch("a", "b"), NOW + 9_000))
    assert await find(scene, NOW + 100) == (ErrorCode.CORRUPT_MESSAGE, -1, -1)
    assert len(gone_through) == time_lookup.FALSE_PROMISES
    assert "3 batches do not have the timestamps" in scene.failures[0]


async def test_fewer_false_promises_keep_nobody_from_the_truth(scene: Scene) -> None:
    for _ in range(2):
        await scene.produce("t", 0, lying(batch("a"), NOW + 9_000))
    await scene.produce("t", 0, batch("b", timestamp=NOW + 200))
    assert await find(scene, NOW + 100) == (0, 2, NOW + 200)


async def test_the_largest_time_costs_one_batch_however_many_lie(scene, gone_through):
    for _ in range(10):
        await scene.produce("t", 0, lying(batch("a", "b"), NOW + 9_000))
    assert await find(scene, LARGEST) == (0, 1, NOW + 1)
    assert gone_through == [2]


async def test_a_lookup_goes_through_so_many_records(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time_lookup, "RECORDS_MOST", 3)
    await scene.produce("t", 0, batch("a", "b"))
    await scene.produce("t", 0, lying(batch("a", "b"), NOW + 9_000))
    await scene.produce("t", 0, lying(batch("a", "b"), NOW + 9_000))
    assert await find(scene, NOW) == (0, 0, NOW)
    assert (await find(scene, NOW + 100))[0] == ErrorCode.CORRUPT_MESSAGE
    assert "at most 3 records" in scene.failures[0]


async def test_a_batch_that_unfolds_to_more_than_the_limit_is_corrupt(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_reader, "DECOMPRESSED_LIMIT", 2_000_000)
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        await scene.produce("t", 0, batch(*["x" * 100_000] * 30, compression=codec))
        assert (await find(scene, LARGEST))[0] == ErrorCode.CORRUPT_MESSAGE
        await delete_before(scene, -1)


async def test_records_are_gone_through_in_slices(scene: Scene) -> None:
    class Counted:
        slices = 0

        async def run(self, slices):
            while True:
                try:
                    next(slices)
                except StopIteration as end:
                    return end.value
                self.slices += 1

    turns = Counted()
    await scene.produce("t", 0, lying(batch(*["v"] * 20_000), NOW + 99_999))
    log = scene.topics.partitions.find("t", 0).log
    lookup = lookup_on(scene.topics.worker, turns)
    assert await lookup.newest(log) == (19_999, NOW + 19_999)
    assert turns.slices == 10


# -- deletions meanwhile


def small_log(files: Files) -> Log:
    """A young record at offset 30 and another one at 400, in different segments."""
    log = open_log(files, "t-0", Limits(segment_bytes=4_000))
    for offset in range(401):
        young = offset in (30, 400)
        log.append(encode_batch(offset, 0, NOW + 5 if young else NOW, [(None, b"v")]))
    return log


@pytest.mark.parametrize("wanted", [NOW + 5, LARGEST])
async def test_a_segment_that_goes_while_it_is_looked_through(monkeypatch, wanted):
    monkeypatch.setattr(turns, "TURN_S", -1.0)
    monkeypatch.setattr(times, "BATCHES", 2)
    files = OpenFiles(FakeFiles(FakeDisk()), 1)
    log = small_log(files)
    lookup = lookup_on(InlineWorker(), Turns())
    finding = asyncio.ensure_future(
        lookup.newest(log) if wanted == LARGEST else lookup.first(log, wanted)
    )
    for _ in range(3):
        await asyncio.sleep(0)
    gone = log.begin_at(390)
    files.open("another", create=True)  # with one descriptor, the one in use is closed
    for segment in gone:
        segment.remove()
    assert await finding == (400, NOW + 5)


async def test_a_file_that_is_gone_without_a_reason_is_an_error() -> None:
    files = OpenFiles(FakeFiles(FakeDisk()), 1)
    log = small_log(files)
    for name in files.list_folder("t-0"):
        files.remove(f"t-0/{name}")
    with pytest.raises(FileNotFoundError):
        await lookup_on(InlineWorker(), Turns()).first(log, NOW + 5)


async def test_a_topic_that_goes_while_it_is_looked_through(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "TURN_S", -1.0)
    monkeypatch.setattr(times, "BATCHES", 1)
    for n in range(100):
        await scene.produce("t", 0, batch("v", timestamp=NOW - n))
    await scene.produce("t", 0, batch("v", timestamp=NOW + 5))
    finding = asyncio.ensure_future(find(scene, NOW + 5))
    for _ in range(5):
        await asyncio.sleep(0)
    await scene.delete("t")
    assert not finding.done()
    monkeypatch.setattr(OpenFiles, "read", _gone)
    assert (await finding)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert scene.failures == []


def _gone(files: OpenFiles, handle: int, size: int, position: int) -> bytes:
    raise FileNotFoundError(2, "Removed")
