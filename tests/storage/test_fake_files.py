"""What the disk in memory models: the worst that a disk and its page cache may do."""

import errno

import pytest

from tests.support.fake_files import SECTOR, FakeDisk, FakeFiles


@pytest.fixture
def handle(files: FakeFiles) -> int:
    """Of a file that is on the disk with two sectors of old bytes."""
    handle = files.open("f", create=True)
    files.write(handle, b"o" * 2 * SECTOR, 0)
    files.sync(handle)
    files.sync_folder(".")
    return handle


def fail_to_sync(disk: FakeDisk, files: FakeFiles, handle: int) -> None:
    disk.failures[disk.calls + 1] = OSError(errno.EIO, "Input/output error")
    with pytest.raises(OSError, match="Input/output"):
        files.sync(handle)


def test_what_a_sync_could_not_write_is_in_the_cache_only(
    disk: FakeDisk, files: FakeFiles, handle: int
) -> None:
    files.write(handle, b"new", 0)
    fail_to_sync(disk, files, handle)
    assert files.read(handle, 3, 0) == b"new"
    files.sync(handle)
    disk.power_cut("keep")
    assert disk.contents("f")[:3] == b"ooo"


def test_what_is_written_once_more_after_a_failed_sync_is_synced(
    disk: FakeDisk, files: FakeFiles, handle: int
) -> None:
    files.write(handle, b"new", 0)
    fail_to_sync(disk, files, handle)
    files.write(handle, b"ew", 1)
    files.sync(handle)
    disk.power_cut("lose")
    assert disk.contents("f")[:4] == b"oewo"


def test_a_spoilt_sector_takes_its_neighbours_with_it(
    disk: FakeDisk, files: FakeFiles, handle: int
) -> None:
    files.write(handle, b"new", SECTOR + 100)
    disk.power_cut("spoil")
    data = disk.contents("f")
    assert data[:SECTOR] == b"o" * SECTOR
    assert data[SECTOR : SECTOR + 100] != b"o" * 100
    assert data[SECTOR + 103 :] != b"o" * (SECTOR - 103)


def left_of_a_write(seed: int) -> bytes:
    disk = FakeDisk()
    files = FakeFiles(disk)
    handle = files.open("f", create=True)
    files.write(handle, b"o" * 2 * SECTOR, 0)
    files.sync(handle)
    files.sync_folder(".")
    files.write(handle, b"n" * 3 * SECTOR, 0)
    disk.power_cut("tear", seed)
    return disk.contents("f")


def test_a_torn_write_is_there_in_part_or_not_or_as_zeros() -> None:
    left = {left_of_a_write(seed) for seed in range(100)}
    assert {b"o" * 2 * SECTOR, b"n" * 3 * SECTOR, bytes(3 * SECTOR)} <= left
    assert len(left) > 6


def names_after_a_cut(seed: int) -> tuple[list[str], list[str]]:
    disk = FakeDisk()
    files = FakeFiles(disk)
    for folder in ("a", "b"):
        files.make_folder(folder)
    files.sync_folder(".")
    for number in range(3):
        for folder in ("a", "b"):
            files.open(f"{folder}/{number}", create=True)
    disk.power_cut("tear", seed)
    return disk.children("a"), disk.children("b")


def test_names_of_one_folder_keep_their_order_and_those_of_two_do_not() -> None:
    left = [names_after_a_cut(seed) for seed in range(100)]
    for names in left:
        for each in names:
            assert each == ["0", "1", "2"][: len(each)]
    assert {(len(a), len(b)) for a, b in left} == {(a, b) for a in range(4) for b in range(4)}


def test_a_renamed_file_has_one_of_its_names() -> None:
    for seed in range(10):
        disk = FakeDisk()
        files = FakeFiles(disk)
        files.open("f", create=True)
        files.sync_folder(".")
        files.rename("f", "g")
        disk.power_cut("tear", seed)
        assert disk.children(".") in (["f"], ["g"]), seed


def test_a_copy_has_the_disk_and_the_cache_of_the_moment_and_no_process(
    disk: FakeDisk, files: FakeFiles, handle: int
) -> None:
    files.make_folder("other")
    files.link("f", "linked")
    files.write(handle, b"new", 0)
    files.open("other/left out", create=True)
    assert files.lock(handle)
    copy = disk.copy(leave_out="other")
    files.write(handle, b"newer", 0)
    files.remove("linked")
    theirs = FakeFiles(copy)
    assert copy.contents("f")[:5] == b"newoo"
    assert not copy.has("other")
    assert theirs.lock(theirs.open("f"))
    theirs.write(theirs.open("linked"), b"same", 0)
    assert copy.contents("f")[:4] == b"same"
    copy.power_cut("lose")
    assert copy.contents("f") == b"o" * 2 * SECTOR
    assert copy.children(".") == ["f"]
    assert disk.contents("f")[:5] == b"newer"
