"""Data directories made of backups: what is in them, what is refused, crashes."""

import errno

import pytest

from groupkeeper.storage.backup.backup import restore
from groupkeeper.storage.backup.note import BackupError
from groupkeeper.storage.errors import StorageError
from groupkeeper.storage.format import RESTORING
from groupkeeper.storage.log.limits import Limits
from groupkeeper.storage.recovery.opening import open_log
from groupkeeper.storage.store import Store
from tests.support.backups import DEST, backed_up, tree
from tests.support.batches import batch
from tests.support.fake_files import Crash, FakeDisk, FakeFiles
from tests.support.stored import cut_file, open_store, put, values_of_log, write_file

pytestmark = pytest.mark.usefixtures("fewer_zeros")

LIMITS = Limits(segment_bytes=300)
VALUES = [b"value %d" % number for number in range(12)]
NEW = "volumes/new"


@pytest.fixture
def disk() -> FakeDisk:
    """A backup of a directory that is gone."""
    disk = FakeDisk()
    store = open_store(disk, limits=LIMITS)
    for value in VALUES:
        put(store, value, epoch=store.claim(0))
    store.write_format(1)
    log = open_log(FakeFiles(disk), "data/orders-0", LIMITS)
    for number in range(5):
        log.append(batch(number, b"message %d" % number * 5))
    log.close()
    backed_up(disk)
    disk.remove("data")
    disk.write_back()
    disk.revive()
    return disk


def restored(disk: FakeDisk, data_dir: str = NEW) -> None:
    files = FakeFiles(disk)
    restore(files, files, DEST, data_dir)


def values(disk: FakeDisk, data_dir: str = NEW) -> list[bytes | None]:
    store = Store(FakeFiles(disk), data_dir, 0, LIMITS)
    assert store.claim(0) > 1
    return values_of_log(store)


def test_a_restored_directory_serves_what_was_in_the_backup(disk: FakeDisk) -> None:
    restored(disk)
    assert values(disk) == VALUES


def test_commits_to_it_are_accepted(disk: FakeDisk) -> None:
    restored(disk)
    store = Store(FakeFiles(disk), NEW, 0, LIMITS)
    put(store, b"new", epoch=store.claim(0))
    assert values_of_log(store) == [*VALUES, b"new"]


def test_the_backup_stays_as_it_is_and_shares_no_file(disk: FakeDisk) -> None:
    before, files = tree(disk, DEST), FakeFiles(disk)
    restored(disk)
    restored_files = tree(disk, NEW)
    assert tree(disk, DEST) == before
    assert restored_files == {name: data for name, data in before.items() if name != "backup"}
    for name in restored_files:
        copy = files.look(f"{NEW}/{name}")
        assert copy is None or copy != files.look(f"{DEST}/{name}")
    put(store := Store(files, NEW, 0, LIMITS), b"new", epoch=store.claim(0))
    store.close()
    assert tree(disk, DEST) == before


def test_a_directory_that_is_not_empty_is_refused(disk: FakeDisk) -> None:
    FakeFiles(disk).make_folder(NEW)
    write_file(disk, f"{NEW}/something", b"of somebody")
    with pytest.raises(BackupError, match=f"{NEW} is not empty"):
        restored(disk)
    assert tree(disk, NEW) == {"something": b"of somebody"}


def test_only_what_the_note_names_is_restored(disk: FakeDisk) -> None:
    write_file(disk, f"{DEST}/something", b"of somebody")
    restored(disk)
    assert not disk.has(f"{NEW}/something")
    assert values(disk) == VALUES


def test_a_folder_that_is_no_backup_is_refused(disk: FakeDisk) -> None:
    disk.remove(f"{DEST}/backup")
    with pytest.raises(BackupError, match=f"{DEST} is not a complete backup: it has no file `back"):
        restored(disk)
    assert not disk.has(NEW)


def change_note(disk: FakeDisk) -> None:
    disk.flip(f"{DEST}/backup", 20)


def lose_segment(disk: FakeDisk) -> None:
    disk.remove(f"{DEST}/orders-0/00000000000000000000.log")


def cut_segment(disk: FakeDisk) -> None:
    cut_file(disk, f"{DEST}/orders-0/00000000000000000000.log", 100)


def flip(disk: FakeDisk) -> None:
    disk.flip(f"{DEST}/orders-0/00000000000000000000.log", 100)


@pytest.mark.parametrize(
    ("damage", "line"),
    [
        (change_note, f"{DEST}/backup is damaged"),
        (lose_segment, "orders-0/00000000000000000000.log is missing"),
        (cut_segment, "00000000000000000000.log has 100 bytes instead of "),
        (flip, f"{DEST}/orders-0/00000000000000000000.log is damaged: its checksum is wrong"),
    ],
)
def test_a_damaged_backup_is_refused_and_nothing_is_left(
    disk: FakeDisk, damage: object, line: str
) -> None:
    assert callable(damage)
    damage(disk)
    with pytest.raises(BackupError) as refused:
        restored(disk)
    assert line in str(refused.value)
    assert not disk.has(NEW)


def test_a_full_disk_leaves_the_folder_as_it_was(disk: FakeDisk) -> None:
    FakeFiles(disk).make_folder(NEW)
    disk.capacity = disk.used() + 1500
    with pytest.raises(OSError, match="No space left"):
        restored(disk)
    assert disk.has(NEW)
    assert disk.children(NEW) == []


def test_a_failed_sync_leaves_nothing(disk: FakeDisk) -> None:
    disk.failures[disk.calls + 60] = OSError(errno.EIO, "Input/output error")
    with pytest.raises(OSError, match="Input/output"):
        restored(disk)
    assert not disk.has(NEW)


@pytest.mark.parametrize("mode", ["lose", "names", "keep", "tear", "kill"])
@pytest.mark.parametrize("exists", [False, True])
def test_a_crash_leaves_a_whole_directory_or_one_that_no_start_takes(
    disk: FakeDisk, mode: str, exists: bool
) -> None:
    before = tree(disk, DEST)
    outcomes = []
    while "complete" not in outcomes:
        if exists:
            FakeFiles(disk).make_folder(NEW)
        disk.write_back()
        disk.crash_at = disk.calls + len(outcomes) + 1
        try:
            restored(disk)
        except Crash:
            disk.revive() if mode == "kill" else disk.power_cut(mode, len(outcomes))
        else:
            outcomes.append("complete")
            disk.crash_at = None
            disk.power_cut("lose")
        outcomes.append(outcome(disk))
        assert tree(disk, DEST) == before
        disk.remove("volumes")
    assert outcomes[-1] == "whole"
    assert {"nothing", "refused"} <= {*outcomes}


def outcome(disk: FakeDisk) -> str:
    if not disk.children(NEW):
        return "nothing"
    if RESTORING in disk.children(NEW):
        with pytest.raises(StorageError, match="its restore was interrupted"):
            values(disk)
        return "refused"
    assert values(disk) == VALUES
    return "whole"
