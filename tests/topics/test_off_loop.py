"""What the event loop must not wait for: the disk. And what fails is not tried over and over."""

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.list_offsets import MAX_TIMESTAMP
from groupkeeper.protocol.record_batch import decode_records, iter_batches
from groupkeeper.topics.file_jobs import FileJob, FileJobs
from tests.support.fake_files import FakeFiles
from tests.topics.scene import NOW, HeldWorker, InlineWorker, Scene, Settings, batch

T = TypeVar("T")
LOG = "data/t-0/00000000000000000000.log"
FULL = ErrorCode.KAFKA_STORAGE_ERROR


class Watched(InlineWorker):
    """Says whether a job is under way."""

    def __init__(self) -> None:
        self.busy = False

    async def __call__(self, job: Callable[[], T]) -> T:
        self.busy = True
        try:
            return job()
        finally:
            self.busy = False


class WatchedJobs(FileJobs):
    """Says so, too."""

    def __init__(self, worker: Watched) -> None:
        self._worker = worker

    def start(self, call: Callable[[], T], *, wait: bool = True) -> FileJob[T]:
        self._worker.busy = True
        try:
            return super().start(call, wait=wait)
        finally:
            self._worker.busy = False


class Calls:
    """The calls of the system that wait for the disk, by where they were made."""

    def __init__(self, worker: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
        self.on_loop: list[str] = []
        self.off_loop: list[str] = []
        sync, read, write = FakeFiles.sync, FakeFiles.read, FakeFiles.write

        def note(what: str) -> None:
            (self.off_loop if worker.busy else self.on_loop).append(what)

        def noted_sync(files: Any, handle: int) -> None:
            note("sync")
            sync(files, handle)

        def noted_read(files: Any, handle: int, size: int, position: int) -> bytes:
            note(f"read at {position}")
            return read(files, handle, size, position)

        def noted_write(files: Any, handle: int, data: bytes, position: int) -> None:
            note("write")
            write(files, handle, data, position)

        monkeypatch.setattr(FakeFiles, "write", noted_write)
        monkeypatch.setattr(FakeFiles, "sync", noted_sync)
        monkeypatch.setattr(FakeFiles, "read", noted_read)


def bases(scene: Scene, folder: str = "data/t-0") -> list[int]:
    """Where the segments of a log begin."""
    return [int(name[:20]) for name in scene.disk.children(folder) if name.endswith(".log")]


def values(records: bytes) -> list[bytes | None]:
    return [r.value for header in iter_batches(records) for r in decode_records(records, header)]


async def watched(monkeypatch: pytest.MonkeyPatch, **settings: int) -> tuple[Scene, Calls]:
    worker = Watched()
    scene = Scene(
        settings=Settings(**settings), worker=worker, file_jobs=lambda: WatchedJobs(worker)
    )
    await scene.create("t", partitions=2)
    return scene, Calls(scene.worker, monkeypatch)


async def test_a_segment_is_finished_off_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    scene, calls = await watched(monkeypatch, log_segment_bytes=1_000)
    for number in range(50):
        assert (await scene.produce("t", 0, batch("v" * 100))).base_offset == number
    names = [name for name in scene.disk.children("data/t-0") if name.endswith(".log")]
    assert len(names) > 5
    assert "sync" not in calls.on_loop
    assert "sync" in calls.off_loop


async def test_an_old_segment_is_finished_off_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    scene, calls = await watched(monkeypatch, log_roll_ms=1_000)
    for number in range(5):
        await scene.produce("t", 0, batch(timestamp=NOW + 600 * number))
    assert bases(scene) == [0, 2, 4]
    assert "sync" not in calls.on_loop
    await scene.topics.close()
    scene = Scene(scene.disk, scene.settings, scene.worker, scene.file_jobs)
    calls.on_loop.clear()
    await scene.produce("t", 0, batch(timestamp=NOW + 3_401))
    assert bases(scene) == [0, 2, 4, 5], "old when its log is opened"
    assert "sync" not in calls.on_loop


async def test_opening_a_log_to_read_it_begins_no_segment(scene: Scene) -> None:
    await scene.produce("t", 0, batch())
    scene = await scene.restart(log_roll_ms=1)
    await scene.fetch(("t", 0, 0))
    assert bases(scene) == [0]


async def test_batches_of_any_size_are_stored_in_order_while_segments_roll(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene, _ = await watched(monkeypatch, log_segment_bytes=1_000)
    for number in range(100):
        size = (number * 37) % 900
        assert (await scene.produce("t", 0, batch("v" * size))).base_offset == number
    found: list[bytes | None] = []
    while len(found) < 100:
        found += values((await scene.fetch(("t", 0, len(found)))).records)
    assert [len(value or b"") for value in found] == [(n * 37) % 900 for n in range(100)]


async def test_batches_that_come_while_a_segment_is_finished_are_stored_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker = HeldWorker()
    worker.go.set()
    scene = Scene(settings=Settings(log_segment_bytes=300), worker=worker)
    await scene.create("t")
    await scene.produce("t", 0, batch("a" * 100))
    worker.go.clear()
    replies = [scene.send_produce("t", 0, batch(value * 50)) for value in "bcdef"]
    worker.go.set()
    answers = [(await reply.wait()).responses[0].partition_responses[0] for reply in replies]
    assert sorted(answer.base_offset for answer in answers) == [1, 2, 3, 4, 5]


async def test_records_are_written_and_read_off_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    scene, calls = await watched(monkeypatch, log_segment_bytes=10_000)
    for number in range(40):
        await scene.produce("t", number % 2, batch(f"{number:03d}" * 300, timestamp=NOW + number))
    await scene.offsets("t", 0, NOW + 20)
    await scene.offsets("t", 0, MAX_TIMESTAMP)
    waiting = scene.send_fetch(("t", 0, 20), max_wait_ms=10_000)
    await scene.produce("t", 0, batch("woken"))
    assert values((await waiting.wait()).responses[0].partitions[0].records) == [b"woken"]
    for offset in (0, 10, 19):
        found = await scene.fetch(("t", 0, offset), partition_max_bytes=2_000)
        assert values(found.records)[0] == f"{2 * offset:03d}".encode() * 300
    assert calls.on_loop == []
    assert calls.off_loop


async def test_no_more_is_read_than_may_be_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    scene, calls = await watched(monkeypatch)
    for index in (0, 1):
        for _ in range(3):
            await scene.produce("t", index, batch("v" * 1_000))
    calls.off_loop.clear()
    await scene.fetch(("t", 0, 0), ("t", 1, 0), partition_max_bytes=1_500, max_bytes=1_500)
    reads = [call for call in calls.off_loop if call.startswith("read")]
    assert len(reads) <= 5  # where the batches begin and end; bytes of the first partition only


async def test_a_log_that_cannot_be_opened_is_not_read_for_every_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("groupkeeper.topics.partitions.RETRY_FIRST_S", 60.0)
    scene = Scene()
    await scene.create("t")
    for _ in range(3):
        await scene.produce("t", 0, batch("v" * 1_000))
    scene = await scene.restart()
    scene.disk.flip(LOG, 65)
    for _ in range(50):
        assert (await scene.fetch(("t", 0, 0))).error_code == FULL
    assert len(scene.failures) == 2  # the second try comes at once
    assert scene.topics.snapshot()["topic_log_open_failures"] == 2


async def test_a_log_that_cannot_be_written_is_not_opened_again_for_every_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("groupkeeper.topics.partitions.RETRY_FIRST_S", 60.0)
    scene = Scene()
    await scene.create("t")
    await scene.produce("t", 0, batch("first"))
    scene.disk.capacity = scene.disk.used()
    for _ in range(50):
        assert (await scene.produce("t", 0, batch("v" * 1_000))).error_code == FULL
    assert len(scene.failures) == 2
    assert scene.topics.snapshot()["topic_log_write_failures"] == 2
    assert values((await scene.fetch(("t", 0, 0))).records) == [b"first"]


async def test_a_disk_with_room_again_is_written_to_after_the_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("groupkeeper.topics.partitions.RETRY_FIRST_S", 0.0)
    scene = Scene()
    await scene.create("t")
    scene.disk.capacity = scene.disk.used()
    for _ in range(5):
        assert (await scene.produce("t", 0, batch("v" * 1_000))).error_code == FULL
    scene.disk.capacity = None
    assert (await scene.produce("t", 0, batch("v"))).error_code == 0


class PageCache:
    """Which reads of `FakeFiles` find their bytes in memory: so many, then no more."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = 0
        self.then: Callable[[], object] = lambda: None
        monkeypatch.setattr(FakeFiles, "may_block", True)
        monkeypatch.setattr(FakeFiles, "fills_cached", True)
        read = FakeFiles.read

        def fill(files: Any, handle: int, buffer: memoryview, position: int) -> bool:
            data = read(files, handle, len(buffer), position)
            buffer[: len(data)] = data
            self.left -= 1
            self.then()
            return self.left >= 0

        monkeypatch.setattr(FakeFiles, "fill_cached", fill)


async def test_a_fetch_of_what_is_cached_needs_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = PageCache(monkeypatch)
    scene, calls = await watched(monkeypatch)
    for partition in (0, 1):
        await scene.produce("t", partition, batch(f"v{partition}"))
    both = ("t", 0, 0), ("t", 1, 0)
    for left, on_threads in ((9, 0), (1, 1), (0, 2)):
        calls.off_loop.clear()
        cache.left = left
        found = await scene.fetch(*both)
        assert [values(data.records) for data in found] == [[b"v0"], [b"v1"]]
        assert [len(calls.off_loop), calls.on_loop] == [on_threads, []]


async def test_a_cached_read_that_fails_is_repeated_on_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cache = PageCache(monkeypatch)
    scene, calls = await watched(monkeypatch)
    await scene.produce("t", 0, batch("v"))
    calls.off_loop.clear()
    cache.left = 9

    def fail() -> None:
        raise OSError("no memory")

    cache.then = fail
    assert values((await scene.fetch(("t", 0, 0))).records) == [b"v"]
    assert calls.off_loop
    assert scene.failures == []


async def test_segments_that_go_during_a_cached_read_are_let_go_on_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cache = PageCache(monkeypatch)
    scene, _ = await watched(monkeypatch, log_segment_bytes=1_000)
    for _ in range(5):
        await scene.produce("t", 0, batch("v" * 600))
    log = scene.topics.partitions.find("t", 0).log
    close, closed = FakeFiles.close, []

    def noted_close(files: Any, handle: int) -> None:
        closed.append(scene.worker.busy)
        close(files, handle)

    monkeypatch.setattr(FakeFiles, "close", noted_close)
    cache.left = 9
    cache.then = lambda: log.begin_at(3)  # nothing else keeps the segments
    assert (await scene.fetch(("t", 0, 0))).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert closed
    assert all(closed)
