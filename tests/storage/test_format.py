"""The format of a data directory: written once, refused when of another version or damaged."""

import pytest

from groupkeeper.storage.errors import Corrupt, OtherFormat
from groupkeeper.storage.format import VERSION, read_format, write_format
from groupkeeper.storage.store import Store
from tests.support.fake_files import Crash, FakeDisk, FakeFiles
from tests.support.stored import FULL, cut_file, open_store, rewrite_format, write_file

PATH = "data/format"


def test_a_directory_gets_its_format_once_and_keeps_its_id(disk: FakeDisk) -> None:
    store = open_store(disk)
    assert store.format is None
    directory_id = store.write_format(7)
    store.close()
    disk.power_cut("lose")
    store = open_store(disk)
    assert store.format is not None
    assert store.format.shards == 7
    assert store.write_format(9) == directory_id
    assert store.known_shards() == 7
    assert len(directory_id) == 32


def test_two_directories_have_different_ids(disk: FakeDisk) -> None:
    files = FakeFiles(disk)
    for folder in ("one", "two"):
        files.make_folder(folder)
    ids = {write_format(files, folder, 1).directory_id for folder in ("one", "two")}
    assert len(ids) == 2


@pytest.mark.parametrize("version", [VERSION - 1, VERSION + 1])
def test_another_format_is_refused_in_one_line_and_nothing_is_touched(
    disk: FakeDisk, version: int
) -> None:
    open_store(disk).write_format(3)
    disk.revive()
    rewrite_format(disk, format=version, more="unknown to this version")
    calls = disk.calls
    with pytest.raises(OtherFormat) as refused:
        open_store(disk)
    assert str(refused.value) == (
        f"data is in format {version}, and this version reads format {VERSION}: "
        "start the version that made it, or choose another --data-dir"
    )
    assert disk.calls == calls


@pytest.mark.parametrize("damage", ["flip", "cut", "zeros", "empty"])
def test_a_damaged_file_is_refused_with_its_name_and_what_to_do(
    disk: FakeDisk, damage: str
) -> None:
    open_store(disk).write_format(3)
    disk.revive()
    size = len(disk.contents(PATH))
    if damage == "flip":
        disk.flip(PATH, 12)
    elif damage == "zeros":
        write_file(disk, PATH, bytes(size))
    else:
        cut_file(disk, PATH, 0 if damage == "empty" else size - 1)
    with pytest.raises(Corrupt, match=r"data/format is damaged: .*groupkeeper repair data$"):
        open_store(disk)


def test_every_flipped_bit_is_noticed(disk: FakeDisk) -> None:
    open_store(disk).write_format(3)
    disk.revive()
    for position in range(len(disk.contents(PATH))):
        for bit in range(8):
            disk.flip(PATH, position, 1 << bit)
            with pytest.raises(Corrupt):
                read_format(FakeFiles(disk), "data")
            disk.flip(PATH, position, 1 << bit)


@pytest.mark.parametrize("mode", ["lose", "names", "keep", "tear", "kill"])
def test_wherever_the_writing_crashes_the_next_start_works(mode: str) -> None:
    for call in range(1, 8):
        disk = FakeDisk()
        store = open_store(disk)
        disk.crash_at = disk.calls + call
        try:
            store.write_format(3)
        except Crash:
            pass
        else:
            break
        disk.revive() if mode == "kill" else disk.power_cut(mode, seed=call)
        again = open_store(disk)
        assert again.format is None or again.format.shards == 3
        again.write_format(3)
        again.close()
        disk.power_cut("lose")
        assert open_store(disk).known_shards() == 3
    assert call > 4


def test_a_disk_without_room_leaves_nothing_open(disk: FakeDisk) -> None:
    files = FakeFiles(disk)
    store = Store(files, "data", 0)
    before = files.open_paths
    disk.failures[disk.calls + 2] = FULL
    with pytest.raises(OSError, match="No space"):
        store.write_format(3)
    assert files.open_paths == before
    store.write_format(3)
