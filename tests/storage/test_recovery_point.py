"""Where opening a log begins to scan it: what is spared, and what is noticed all the same."""

from collections import deque
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from groupkeeper.storage.errors import Corrupt
from groupkeeper.storage.journal.journal import JournalReader
from groupkeeper.storage.log.index import IndexState
from groupkeeper.storage.log.limits import Limits
from groupkeeper.storage.log.log import Log
from groupkeeper.storage.log.scan import Batch
from groupkeeper.storage.recovery import recovery
from groupkeeper.storage.recovery.manifest import ManifestFile
from groupkeeper.storage.recovery.marks import Mark, RecoveryPoint, newest
from groupkeeper.storage.recovery.opening import open_log
from groupkeeper.storage.store import Store
from tests.support.batches import TIME, batch, values_of
from tests.support.fake_files import CountingFiles, FakeDisk, FakeFiles
from tests.support.stored import (
    ASIDE,
    NAME,
    append,
    cut_file,
    journal_paths,
    open_store,
    put,
    segment_paths,
    values_in,
    write_file,
)

LIMITS = Limits(segment_bytes=1 << 20, index_interval_bytes=500)
FOLDER = "data/t-0"
FIRST = f"{FOLDER}/{0:020}"
SIZE = len(batch(0, bytes(100)))


class Scanned(list[int]):
    """The offsets of the batches that were scanned since the last call of `taken`."""

    def taken(self) -> list[int]:
        offsets = list(self)
        self.clear()
        return offsets


@pytest.fixture
def scanned(monkeypatch: pytest.MonkeyPatch) -> Scanned:
    found, scan = Scanned(), recovery.valid_batches

    def counting(*arguments: Any) -> Iterator[Batch]:
        for each in scan(*arguments):
            found.append(each.base_offset)
            yield each

    monkeypatch.setattr(recovery, "valid_batches", counting)
    return found


def opened(disk: FakeDisk, limits: Limits = LIMITS, **options: int) -> Log:
    return open_log(FakeFiles(disk), FOLDER, limits, **options)


def fill(log: Log, count: int, epoch: int = 0, size: int = 100) -> None:
    for _ in range(count):
        offset = log.next_offset
        log.append(batch(offset, bytes(size), epoch=epoch, time=TIME + offset))


def checkpoint(log: Log) -> None:
    """As for a log that no journal knows."""
    stand = log.stand()
    assert stand is not None
    mark = log.checkpoint(stand)
    assert mark is not None
    log.save(mark)


def filled(disk: FakeDisk, count: int = 40, epochs: int = 2) -> None:
    """A log that was closed."""
    log = opened(disk)
    for epoch in range(epochs):
        fill(log, count // epochs, epoch)
    log.close()


def index_files(disk: FakeDisk) -> list[bytes]:
    return [disk.contents(f"{FIRST}.{suffix}") for suffix in ("index", "timeindex")]


# -- what is spared --------------------------------------------------------------------------------


def test_after_a_clean_stop_nothing_is_scanned(disk: FakeDisk, scanned: Scanned) -> None:
    filled(disk)
    scanned.taken()
    log = opened(disk)
    assert (log.next_offset, log.last_epoch, log.segments[0].largest_timestamp) == (
        40,
        1,
        TIME + 39,
    )
    assert log.epochs == [(0, 0), (1, 20)]
    assert scanned.taken() == []
    assert len(values_in(log)) == 40
    for offset in range(40):
        assert values_of(log.read(offset, 1)) == [bytes(100)]


def test_after_a_kill_the_scan_begins_at_the_last_checkpoint(
    disk: FakeDisk, scanned: Scanned
) -> None:
    log = opened(disk)
    fill(log, 20)
    checkpoint(log)
    fill(log, 7)
    disk.revive()
    log = opened(disk)
    assert scanned.taken() == list(range(20, 27))
    assert len(values_in(log)) == log.next_offset == 27
    log.close()  # what was scanned is not scanned again
    assert opened(disk).next_offset == 27
    assert scanned.taken() == []


def test_a_log_that_was_only_opened_is_not_written_to(disk: FakeDisk) -> None:
    filled(disk)
    calls = disk.calls
    opened(disk).close()
    written = [call for call in disk.trace[calls:] if "index" not in call]
    assert written == []


def test_only_what_is_needed_is_read(disk: FakeDisk) -> None:
    filled(disk, 400)
    files = CountingFiles(disk)
    log = open_log(files, FOLDER, LIMITS, read_most=100)
    assert files.bytes_read < 400 * SIZE // 20
    assert log.next_offset == 400


@pytest.mark.parametrize("seed", range(30))
def test_a_log_goes_on_as_if_it_had_never_been_closed(disk: FakeDisk, seed: int) -> None:
    """Its index files are those of a log that was not closed: Kafka's rule for entries holds."""
    random, other = Random(seed), FakeDisk()
    once, log = opened(other), opened(disk)
    for offset in range(120):
        data = batch(
            offset,
            bytes(random.randrange(400)),
            time=TIME + random.randrange(50),
            epoch=offset // 9,
        )
        once.append(data)
        log.append(data)
        match random.randrange(8):
            case 0:
                log.close()
                log = opened(disk)
            case 1:
                checkpoint(log)
                if random.randrange(2):
                    disk.revive()
                    log = opened(disk)
    once.close()
    log.close()
    assert index_files(disk) == index_files(other)
    assert disk.contents(f"{FIRST}.log") == other.contents(f"{FIRST}.log")


def test_a_log_whose_index_grew_while_a_point_was_made_is_resumed(
    disk: FakeDisk, scanned: Scanned
) -> None:
    log = opened(disk)
    fill(log, 20)
    stand = log.stand()
    assert stand is not None
    fill(log, 20, epoch=3)
    mark = log.checkpoint(stand)
    assert mark is not None and (mark.end, mark.size) == (20, 20 * SIZE)
    log.save(mark)
    disk.revive()
    assert opened(disk).last_epoch == 3
    assert scanned.taken() == list(range(20, 40))


@pytest.mark.usefixtures("often")
def test_an_older_point_serves_if_the_index_of_the_newer_one_is_lost(
    disk: FakeDisk, scanned: Scanned
) -> None:
    """As by a power cut: the index files are not synced."""
    jobs, store = beside(disk)
    write(store, jobs, 80)
    store.close()
    index = segment_paths(disk, NAME)[-1].replace(".log", ".index")
    size = len(disk.contents(index))
    jobs, store = beside(disk)
    write(store, jobs, 80)
    disk.revive()
    assert size < len(disk.contents(index))
    cut_file(disk, index, size)
    scanned.taken()
    assert len(values_in(open_store(disk).open_log(NAME))) == 160
    assert scanned.taken() == list(range(80, 160))


# -- logs that flushes are written to --------------------------------------------------------------


def beside(disk: FakeDisk, limits: Limits | None = None) -> tuple[deque[Callable[[], None]], Store]:
    """A store, and the jobs that it wants to be done on another thread."""
    store = open_store(disk, limits=limits)
    store.claim(0)
    jobs: deque[Callable[[], None]] = deque()
    store.write_back_on(jobs.append)
    return jobs, store


def write(store: Store, jobs: deque[Callable[[], None]], count: int) -> None:
    """Flushes that reach the segments; what is to be done beside them is done before the next."""
    log = store.open_log(NAME)
    for _ in range(count):
        assert store.commit([append(log, bytes(100))]) == [None]
        store.catch_up()
        while jobs:
            jobs.popleft()()


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("groupkeeper.storage.journal.flush_writer.WRITE_BACK_BYTES", 2_000)


@pytest.mark.usefixtures("often")
def test_a_log_that_is_synced_beside_the_flushes_is_scanned_from_there(
    disk: FakeDisk, scanned: Scanned
) -> None:
    jobs, store = beside(disk)
    write(store, jobs, 50)
    disk.revive()
    store = open_store(disk)
    log = store.open_log(NAME)
    assert len(values_in(log)) == 50
    assert 0 < len(scanned.taken()) < 15
    disk.revive()  # and what was scanned is not scanned again, once a flush has the mark
    store = open_store(disk)
    store.claim(0)
    store.open_log(NAME)
    put(store, b"more", name=ASIDE, epoch=2)
    disk.revive()
    scanned.taken()
    assert open_store(disk).open_log(NAME).next_offset == 50
    assert scanned.taken() == []


def test_a_log_that_is_synced_for_a_full_journal_is_scanned_from_there(
    disk: FakeDisk, scanned: Scanned
) -> None:
    jobs, store = beside(disk, Limits(journal_bytes=10_000))
    write(store, jobs, 50)
    disk.revive()
    assert len(values_in(open_store(disk).open_log(NAME))) == 50
    assert 0 < len(scanned.taken()) < 40


@pytest.mark.usefixtures("often")
def test_a_mark_that_comes_late_takes_the_place_of_no_newer_one(disk: FakeDisk) -> None:
    """A torn append may spoil the sector of the newest mark only: that one must not be lost."""
    jobs, store = beside(disk, Limits(journal_bytes=4_000))
    log = store.open_log(NAME)
    put(store, bytes(3_000))
    late = jobs.popleft()
    put(store, bytes(100))
    end = log.next_offset
    while log.durable is None or log.durable.end < end:  # until a full journal is to be removed
        put(store, bytes(100), name=ASIDE)
    late()
    for _ in range(20):  # another journal begins with the marks of all logs
        put(store, b"v", name=ASIDE)
    reader = JournalReader(FakeFiles(disk), journal_paths(disk)[-1])
    assert reader.marks[NAME].end == end


def test_a_log_that_was_closed_meanwhile_gets_no_point(disk: FakeDisk) -> None:
    log = opened(disk)
    fill(log, 20)
    stand = log.stand()
    assert stand is not None
    log.close()
    calls = disk.calls
    assert log.checkpoint(stand) is None
    assert disk.calls == calls


def test_a_segment_that_was_finished_and_removed_meanwhile_stays_removed(disk: FakeDisk) -> None:
    log = opened(disk)
    fill(log, 20)
    stand = log.stand()
    assert stand is not None
    fill(log, 20)
    log.roll()
    log.delete_before(40)
    names = disk.children(FOLDER)
    log.checkpoint(stand)
    assert disk.children(FOLDER) == names


def test_a_disk_that_is_full_costs_the_point_only(disk: FakeDisk, scanned: Scanned) -> None:
    log = opened(disk)
    fill(log, 20)
    checkpoint(log)
    fill(log, 20)
    disk.capacity = disk.used()
    checkpoint(log)
    disk.capacity = None
    fill(log, 5)
    disk.revive()
    assert opened(disk).next_offset == 45
    assert scanned.taken() == list(range(20, 45))


# -- what is not trusted ---------------------------------------------------------------------------


def damaged(disk: FakeDisk, path: str, how: str) -> None:
    data = disk.contents(path)
    if how == "remove":
        FakeFiles(disk).remove(path)
    elif how == "flip":
        disk.flip(path, len(data) // 2)
    elif how == "cut":
        cut_file(disk, path, len(data) // 2)
    elif how == "empty":
        cut_file(disk, path, 0)
    else:
        write_file(disk, path, bytes(len(data)))


@pytest.mark.parametrize("how", ["remove", "flip", "cut", "empty", "zero"])
@pytest.mark.parametrize(
    "file", [f"{0:020}.index", f"{0:020}.timeindex", "leader-epoch-checkpoint"]
)
def test_a_file_that_is_not_as_it_was_makes_the_scan_begin_at_the_start(
    disk: FakeDisk, scanned: Scanned, file: str, how: str
) -> None:
    filled(disk)
    damaged(disk, f"{FOLDER}/{file}", how)
    log = opened(disk)
    assert scanned.taken() == list(range(40))
    assert (len(values_in(log)), log.last_epoch, log.segments[0].largest_timestamp) == (
        40,
        1,
        TIME + 39,
    )
    log.close()
    assert opened(disk).next_offset == 40  # the file was made again
    assert scanned.taken() == []


@pytest.mark.parametrize("byte", [7, 15, 20, 100])
def test_damage_before_the_point_is_told_as_by_a_scan(disk: FakeDisk, byte: int) -> None:
    filled(disk)
    disk.flip(f"{FIRST}.log", 5 * SIZE + byte, 4)
    for _ in range(2):
        with pytest.raises(Corrupt) as refused:
            opened(disk)
        again = FakeDisk()
        for path in disk.children(FOLDER):
            if "index" not in path:
                write_file_in(again, f"{FOLDER}/{path}", disk.contents(f"{FOLDER}/{path}"))
        with pytest.raises(Corrupt) as scanned:
            opened(again)
        assert str(refused.value) == str(scanned.value)


def write_file_in(disk: FakeDisk, path: str, data: bytes) -> None:
    FakeFiles(disk).make_folder(FOLDER)
    write_file(disk, path, data)


def test_a_log_that_is_cut_before_the_point_is_refused(disk: FakeDisk) -> None:
    filled(disk)
    cut_file(disk, f"{FIRST}.log", 30 * SIZE)
    with pytest.raises(Corrupt, match=f"the file ends at byte {30 * SIZE}"):
        opened(disk)


def test_a_log_that_is_cut_in_what_is_not_read_is_refused(disk: FakeDisk) -> None:
    filled(disk)
    cut_file(disk, f"{FIRST}.log", 30 * SIZE)
    with pytest.raises(Corrupt, match=f"the file ends at byte {30 * SIZE}"):
        opened(disk, read_most=100)


def test_what_an_unchecked_epoch_file_says_refuses_no_log(disk: FakeDisk) -> None:
    log = opened(disk)
    fill(log, 20, epoch=1)
    log.roll()
    fill(log, 20, epoch=2)
    log.close()
    write_file(disk, f"{FOLDER}/leader-epoch-checkpoint", b"0\n1\n9 0\n")
    assert opened(disk).next_offset == 40


def test_an_accepted_loss_is_looked_for_everywhere(disk: FakeDisk, scanned: Scanned) -> None:
    filled(disk)
    write_file(disk, f"{FOLDER}/accept-loss", b"")
    assert opened(disk).next_offset == 40
    assert scanned.taken() == list(range(40))


def test_a_log_without_timestamps_is_resumed(disk: FakeDisk, scanned: Scanned) -> None:
    log = opened(disk)
    for offset in range(40):
        log.append(batch(offset, bytes(100), time=-1))
    log.close()
    assert opened(disk).next_offset == 40
    assert scanned.taken() == []


# -- what is left unread ---------------------------------------------------------------------------


def test_an_offset_that_was_left_unread_is_looked_at_when_it_is_read(disk: FakeDisk) -> None:
    filled(disk)
    disk.flip(f"{FIRST}.log", 5 * SIZE + 7, 1)  # 5 becomes 4
    log = opened(disk, read_most=100)
    with pytest.raises(Corrupt, match=f"the header of the batch at byte {5 * SIZE}"):
        log.read(4, 10 * SIZE)
    assert values_of(log.read(7, 3 * SIZE)) == [bytes(100)] * 3
    assert len(values_of(log.read(38, 10 * SIZE))) == 2


def test_replay_checks_what_was_left_unread(disk: FakeDisk) -> None:
    filled(disk)
    disk.flip(f"{FIRST}.log", 5 * SIZE + 100)
    with pytest.raises(Corrupt, match=f"the batch at byte {5 * SIZE} is damaged"):
        values_in(opened(disk, read_most=100))


# -- how it is kept --------------------------------------------------------------------------------

POINT = RecoveryPoint(4_000, 40, 7, IndexState(3, 2, TIME, 39), 9)
MARKS = [
    Mark(0, 5_000, 50, 8, bytes(5_000 % 512), POINT),
    Mark(0, 5_000, 50, 8, bytes(5_000 % 512)),
    Mark(7, 512, 50, 8, b"", POINT._replace(indexes=IndexState(0, 0, -1, 0))),
]


@pytest.mark.parametrize("mark", MARKS)
def test_a_mark_keeps_its_point(disk: FakeDisk, mark: Mark) -> None:
    assert Mark.from_bytes(mark.to_bytes()) == mark
    files = FakeFiles(disk)
    files.make_folder(FOLDER)
    ManifestFile(files, FOLDER).write((), 0, mark)
    assert ManifestFile(files, FOLDER).on_disk.mark == mark


def test_of_equal_marks_the_one_with_a_point_is_newer() -> None:
    one, other, _ = MARKS
    assert newest(other, one) == newest(one, other) == one
    assert newest(one, other._replace(end=51)) == other._replace(end=51)
