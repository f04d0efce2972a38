"""A stop in order: afterwards the segments have all that was acknowledged, and nothing else is left
that only a start understands.
"""

import errno
import itertools
from collections.abc import Callable, Iterator

import pytest

from groupkeeper.cleaner.log_cleaner import STOP_S
from groupkeeper.protocol.record_batch import decode_records, iter_batches
from groupkeeper.protocol.records.consumer_offsets import (
    OffsetCommitKey,
    decode_key,
    decode_offset_value,
)
from groupkeeper.server import stopping
from groupkeeper.storage.errors import AppendFailed, StorageError, SyncFailed
from groupkeeper.storage.files.files import Files
from groupkeeper.storage.journal.journal import JournalReader
from tests.simulation.cluster import CleanerThread
from tests.support.fake_files import FakeDisk, FakeFiles
from tests.support.requests import produce_request
from tests.support.served import Lines, Serve, Served, groups_apart

SMALL = (
    "offsets.topic.num.partitions=1",
    "offsets.topic.segment.bytes=2000",
    "log.cleaner.backoff.ms=1000",
)
PARTITIONS = 6
FULL = OSError(errno.ENOSPC, "No space left on device")


def committed(disk: FakeDisk) -> dict[str, int]:
    """What the segments alone tell: the newest commit of each group."""
    newest: dict[str, tuple[int, int]] = {}
    for folder in (each for each in disk.children("data") if each.startswith("__consumer_off")):
        for name in disk.children(f"data/{folder}"):
            data = disk.contents(f"data/{folder}/{name}") if name.endswith(".log") else b""
            for group, *told in commits_in(data):
                newest[group] = max(newest.get(group, (-1, -1)), (told[0], told[1]))
    return {group: offset for group, (_, offset) in newest.items()}


def commits_in(data: bytes) -> Iterator[tuple[str, int, int]]:
    """Group, offset in the log, committed offset."""
    for header in iter_batches(data):
        for record in decode_records(data, header):
            key = decode_key(record.key or b"")
            if isinstance(key, OffsetCommitKey) and record.value is not None:
                yield key.group, record.offset, decode_offset_value(record.value).offset


def left(disk: FakeDisk) -> list[str]:
    """What a stop in order leaves neither in a log's folder nor in the journals."""
    paths = [path for path, _ in disk.files()]
    journals = [path for path in paths if path.startswith("data/journals/")]
    readers = [JournalReader(FakeFiles(disk), path) for path in journals]
    unfinished = [path for path in paths if path.endswith((".swap", ".cleaned"))]
    return [*unfinished, *(name for reader in readers for name in reader.names)]


def commit(served: Served, commits: int, groups: list[str]) -> dict[str, int]:
    """What was acknowledged last."""
    client = served.client()
    for number in range(commits):
        assert client.commit(number, groups[number % len(groups)]) == 0
    client.hang_up()
    return {group: commits - 1 - at for at, group in enumerate(reversed(groups))}


# -- partitions that are not loaded ------------------------------------------------------------


def killed(serve: Serve, *settings: str) -> tuple[Served, dict[str, int]]:
    """A server that died when the last commits of all partitions were in the journal only."""
    served = serve(f"offsets.topic.num.partitions={PARTITIONS}", *settings)
    groups = groups_apart(PARTITIONS, PARTITIONS)
    known = commit(served, 2 * PARTITIONS, groups)
    served.machine.kill()
    assert committed(served.disk) != known
    return served, known


@pytest.mark.parametrize("after_s", [0.0, 0.002, 0.005, 0.01, 0.02])
def test_what_was_not_loaded_yet_is_in_the_segments(serve: Serve, after_s: float) -> None:
    served, known = killed(serve)
    served.start()
    served.advance(after_s)
    assert "loading" in served.states()
    served.stop()
    assert committed(served.disk) == known
    assert not left(served.disk)


def test_repairs_of_a_stop_are_told(serve: Serve, lines: Lines) -> None:
    served, known = killed(serve)
    [name, *_] = [each for each in served.disk.children("data") if each.startswith("__consumer_of")]
    torn(served.disk, f"data/{name}/{0:020d}.log")
    served.start()
    served.stop()
    assert committed(served.disk) == known
    [line] = [line for line in lines() if line["event"] == "log repaired"]
    assert line["log"] == name


def torn(disk: FakeDisk, path: str) -> None:
    """As a crash in the middle of an append leaves it."""
    inode = disk.lookup(path)
    assert inode is not None
    inode.apply(len(inode.data), b"\0\0\0")


def test_a_log_that_cannot_be_written_is_named_and_the_others_are_whole(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    served, known = killed(serve)
    served.start()
    [name, *_] = names = [n for n in served.disk.children("data") if n.startswith("__consumer_of")]
    monkeypatch.setattr(served.machine.files, "write", no_room_in(served.machine.files, name))
    with pytest.raises(StorageError, match=rf"{name}.*No space left") as refused:
        served.stop()
    assert "\n" not in str(refused.value)
    whole = committed(served.disk)
    assert sum(whole.get(group) == offset for group, offset in known.items()) == len(names) - 1
    served.start()
    served.settled()
    served.stop()
    assert committed(served.disk) == known
    assert not left(served.disk)


def no_room_in(files: Files, name: str) -> Callable[[int, bytes, int], None]:
    write = files.write

    def refuse(handle: int, data: bytes, position: int) -> None:
        assert isinstance(files, FakeFiles)
        if f"/{name}/" in files.path_of(handle):
            raise FULL
        write(handle, data, position)

    return refuse


def test_a_topics_log_that_cannot_be_synced_is_named_and_the_others_are_closed(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stop of a program that was told to keep records does not end with exit code 0."""
    served = serve()
    for topic in ("orders", "payments"):
        answer = served.client().call(9, produce_request(topic, 0, b"value"))
        assert answer.responses[0].partition_responses[0].error_code == 0
    files = served.machine.files
    assert isinstance(files, FakeFiles)
    sync = files.sync

    def refuse(handle: int) -> None:
        if "/orders-0/" in files.path_of(handle):
            raise OSError(errno.EIO, "Input/output error")
        sync(handle)

    monkeypatch.setattr(files, "sync", refuse)
    with pytest.raises(SyncFailed, match=r"topic logs \(1: orders-0\).*Input/output error"):
        served.stop()
    assert not any("payments" in path for path in files.open_paths)


def test_a_stop_opens_no_more_logs_after_some_seconds(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    served, known = killed(serve)
    monkeypatch.setattr(stopping, "MOST_S", 0.0)
    served.start()
    with pytest.raises(AppendFailed, match=rf"{2 * PARTITIONS} logs.*no time was left"):
        served.stop()
    monkeypatch.undo()
    served.start()
    served.stop()
    assert committed(served.disk) == known


# -- logs that have failed ---------------------------------------------------------------------


def test_a_log_that_failed_behind_its_last_commit_is_whole(serve: Serve) -> None:
    served = serve("offsets.topic.num.partitions=1")
    assert served.client().commit(1) == 0
    with pytest.MonkeyPatch.context() as patch:
        files = served.machine.files
        patch.setattr(files, "write", no_room_in(files, "__consumer_offsets-0"))
        assert served.client().commit(2) == 0
        served.advance(1)
    assert served.log().failed
    served.stop()
    assert committed(served.disk) == {"g": 2}
    assert not left(served.disk)


@pytest.mark.parametrize("room", [0, 40, 200])
def test_a_disk_that_is_full_at_the_stop_is_told_and_nothing_is_lost(
    serve: Serve, room: int
) -> None:
    served = serve(f"offsets.topic.num.partitions={PARTITIONS}")
    known = commit(served, 2 * PARTITIONS, groups_apart(PARTITIONS, PARTITIONS))
    served.disk.capacity = served.disk.used() + room
    with pytest.raises(AppendFailed, match=r"lack.*No space left"):
        served.stop()
    served.disk.capacity = None
    served.start()
    served.stop()
    assert committed(served.disk) == known
    assert not left(served.disk)


# -- compaction --------------------------------------------------------------------------------


@pytest.fixture
def prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cleaner hears of the end of a compaction at once."""
    monkeypatch.setattr(CleanerThread, "LATER_S", (0.0001, 0.002))


def compacting(seed: int = 0) -> tuple[Served, dict[str, int]]:
    """A server with a compaction that has just written its files."""
    served = Served(*SMALL, seed=seed)
    known = commit(served, 60, ["a", "b", "c"])
    ended: list[bool] = []
    served.machine.compacted = lambda: ended.append(True)
    served.advance(0.4)
    served.until(lambda: bool(ended))
    return served, known


@pytest.mark.usefixtures("prompt")
def test_wherever_a_stop_meets_a_compaction_nothing_of_it_is_left() -> None:
    kinds = set()
    for step in range(24):
        served, known = compacting(seed=step)
        served.advance(step % 12 * 0.0008)
        files = left(served.disk)
        kinds |= {path.rpartition(".")[2] for path in files if path.startswith("data/__consumer")}
        served.stop()
        assert committed(served.disk) == known
        assert not left(served.disk), step
        served.start()
        served.settled()
        served.close()
    assert kinds >= {"cleaned", "swap"}


@pytest.mark.usefixtures("prompt")
def test_wherever_a_swap_fails_the_stop_after_it_leaves_everything_in_the_segments() -> None:
    for call in itertools.count(1):
        served, known = compacting()
        at = served.disk.calls + call
        served.disk.failures[at] = OSError(errno.EIO, "Input/output error")
        served.advance(0.02)
        if served.disk.calls < at:
            break
        served.stop()
        assert committed(served.disk) == known
        assert not left(served.disk), call
        served.close()
    served.close()
    assert call > 15, "the swap is over before"


def test_a_stop_does_not_wait_for_a_long_compaction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CleanerThread, "LATER_S", (60, 60))
    served, known = compacting()
    began = served.loop.time()
    served.stop()
    assert served.loop.time() - began < STOP_S + 0.5
    assert committed(served.disk) == known
    monkeypatch.undo()
    served.start()
    served.settled()
    assert not [path for path in left(served.disk) if path.startswith("data/__consumer")]
    served.close()
