"""Where a log begins: the checkpoint, and what a log makes of it after every kind of end."""

import pytest

from groupkeeper.storage.errors import Corrupt
from groupkeeper.storage.log.limits import Limits
from groupkeeper.storage.log.log import Log
from groupkeeper.storage.log.start import FILE_NAME, read_start, write_start
from groupkeeper.storage.recovery.opening import open_log
from tests.support.batches import batch
from tests.support.fake_files import Crash, FakeDisk, FakeFiles
from tests.support.stored import cut_file, segment_paths, write_file

FOLDER = "data/my-topic-12"
PATH = f"{FOLDER}/{FILE_NAME}"


@pytest.fixture
def folder(files: FakeFiles) -> FakeFiles:
    files.make_folder(FOLDER)
    files.sync_folder(".")
    return files


def opened(disk: FakeDisk) -> Log:
    return open_log(FakeFiles(disk), FOLDER, Limits(segment_bytes=200))


def filled(disk: FakeDisk, batches: int) -> Log:
    log = opened(disk)
    for offset in range(log.next_offset, log.next_offset + batches):
        log.append(batch(offset, b"v"))
    return log


def test_it_has_kafkas_format(folder: FakeFiles, disk: FakeDisk) -> None:
    write_start(folder, FOLDER, 345)
    assert disk.contents(PATH) == b"0\n1\nmy-topic 12 345\n"
    write_start(folder, FOLDER, 7)
    assert read_start(folder, FOLDER) == 7
    assert disk.children(FOLDER) == [FILE_NAME]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"0\n1\n",
        b"0\n1\nt 0 4",
        b"0\n1\nt 0 x\n",
        b"0\n1\nt 0 -4\n",
        b"1\n1\nt 0 4\n",
        b"\xff\n1\nt 0 4",
    ],
)
def test_damage_is_named(folder: FakeFiles, disk: FakeDisk, data: bytes) -> None:
    write_file(disk, PATH, data)
    with pytest.raises(Corrupt, match=FILE_NAME):
        read_start(folder, FOLDER)


@pytest.mark.parametrize("mode", ["lose", "names", "keep", "tear"])
def test_a_power_cut_leaves_the_old_or_the_new_one(mode: str) -> None:
    for call in range(1, 20):
        disk = FakeDisk()
        files = FakeFiles(disk)
        files.make_folder(FOLDER)
        files.sync_folder(".")
        write_start(files, FOLDER, 3)
        disk.crash_at = disk.calls + call
        try:
            write_start(files, FOLDER, 9)
            expected = {9}
        except Crash:
            expected = {3, 9}
        disk.power_cut(mode, seed=call)
        assert read_start(FakeFiles(disk), FOLDER) in expected


def test_a_log_forgets_what_was_before(disk: FakeDisk) -> None:
    filled(disk, 7).close()
    write_start(FakeFiles(disk), FOLDER, 5)
    log = opened(disk)
    assert (log.start_offset, log.next_offset) == (5, 7)
    paths = segment_paths(disk, "my-topic-12")
    assert paths == [f"{FOLDER}/{base:020}.log" for base in (4, 6)]
    assert not disk.has(f"{FOLDER}/{0:020}.index")


def test_a_log_that_lost_its_end_goes_on_where_it_was_to_begin(
    disk: FakeDisk, folder: FakeFiles
) -> None:
    log = filled(disk, 5)
    log.sync()
    filled(disk, 4)
    write_start(FakeFiles(disk), FOLDER, 8)
    disk.power_cut("lose")
    log = opened(disk)
    assert (log.start_offset, log.next_offset) == (8, 8)
    log.append(batch(8, b"v"))
    log.close()
    log = opened(disk)
    assert (log.start_offset, log.next_offset) == (8, 9)


def test_a_log_that_lost_a_torn_end_can_be_closed(disk: FakeDisk) -> None:
    filled(disk, 5).close()
    cut_file(disk, f"{FOLDER}/{4:020}.log", 10)
    write_start(FakeFiles(disk), FOLDER, 8)
    log = opened(disk)
    log.close()
    assert (log.start_offset, log.next_offset) == (8, 8)


def test_a_log_with_nothing_but_a_start(disk: FakeDisk, folder: FakeFiles) -> None:
    write_start(folder, FOLDER, 8)
    assert (opened(disk).start_offset, opened(disk).next_offset) == (8, 8)


def test_begin_at_gives_what_is_to_be_removed_and_never_goes_back(disk: FakeDisk) -> None:
    log = filled(disk, 7)
    assert [segment.base_offset for segment in log.begin_at(4)] == [0, 2]
    assert log.begin_at(3) == ()
    assert log.start_offset == 4
    assert [segment.base_offset for segment in log.begin_at(7)] == [4, 6]
    assert log.read(7, 100) == b""
    assert log.size == 0


def test_a_log_whose_records_are_all_deleted_goes_on(disk: FakeDisk) -> None:
    log = filled(disk, 7)
    gone = log.begin_at(7)
    log.sync()
    log.append(batch(7, b"v"))
    for segment in gone:
        segment.remove()
    assert (log.begin_at(7), log.next_offset) == ((), 8)
    log.close()
    log = opened(disk)
    assert (log.start_offset, log.next_offset) == (7, 8)


def test_the_file_that_the_next_append_goes_to_is_never_removed(disk: FakeDisk) -> None:
    log = filled(disk, 4)  # two segments
    write_start(FakeFiles(disk), FOLDER, 4)
    for segment in log.begin_at(4):
        segment.remove()
    handle = FakeFiles(disk).open(f"{FOLDER}/{4:020}.log", create=True)  # an append that was killed
    assert handle
    log = opened(disk)
    assert log.begin_at(4) == ()
    log.append(batch(4, b"v"))
    assert opened(disk).next_offset == 5
