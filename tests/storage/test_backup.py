"""Backups of a directory that is not served, or changes at one moment; crashes, and refusals."""

from collections.abc import Callable

import pytest
from crc32c import crc32c

from groupkeeper.storage.backup.backup import PASSES, back_up, left_out
from groupkeeper.storage.backup.note import BackupError, read_note
from groupkeeper.storage.errors import OtherFormat, StorageError
from groupkeeper.storage.log.limits import Limits
from groupkeeper.storage.recovery.opening import open_log
from groupkeeper.storage.store import Store
from tests.support.backups import DEST, NOW, backed_up, disk_with, job, tree
from tests.support.batches import batch
from tests.support.fake_files import Crash, FakeDisk, FakeFiles
from tests.support.stored import (
    NAME,
    cut_file,
    journal_paths,
    open_store,
    put,
    segment_paths,
    values_of_log,
    write_file,
)

pytestmark = pytest.mark.usefixtures("fewer_zeros")

LIMITS = Limits(segment_bytes=300)
TOPIC = "orders-0"
VALUES = [b"value %d" % number for number in range(12)]


class Hooked(FakeFiles):
    """Does something before the first call that has these words."""

    def __init__(self, disk: FakeDisk, words: str, action: Callable[[], None]) -> None:
        super().__init__(disk)
        self._words = words
        self._action: Callable[[], None] | None = action
        self.times = 1

    def _called(self, what: str) -> None:
        if self._action is not None and self._words in what and self.times:
            self.times -= 1
            self._action()

    def open(self, path: str, *, create: bool = False) -> int:
        self._called(f"open {path}")
        return super().open(path, create=create)

    def read(self, handle: int, size: int, position: int) -> bytes:
        self._called(f"read {self.path_of(handle)}")
        return super().read(handle, size, position)

    def list_folder(self, path: str) -> list[str]:
        self._called(f"list {path}")
        return super().list_folder(path)


@pytest.fixture
def disk() -> FakeDisk:
    """A directory with a log of three segments, the last record of which is in the journal only,
    a topic of two segments, and a catalog.
    """
    disk = FakeDisk()
    store = open_store(disk, limits=LIMITS)
    store.claim(0)
    for value in VALUES:
        put(store, value)
        store.catch_up()
    put(store, b"in the journal")
    store.write_format(1)
    for name in (TOPIC, "catalog", "catalog-copy"):
        log = open_log(FakeFiles(disk), f"data/{name}", LIMITS)
        for number in range(5):
            log.append(batch(number, b"message %d" % number * 5))
        log.sync()
    write_file(disk, "data/notes.txt", b"not ours")
    disk.write_back()
    disk.revive()
    return disk


def again(disk: FakeDisk) -> FakeDisk:
    """A machine with the backup as its data directory."""
    files = {name: data for name, data in tree(disk, DEST).items() if name != "backup"}
    return disk_with(files)


def values_in_backup(disk: FakeDisk, name: str = NAME) -> list[bytes | None]:
    store = open_store(again(disk), limits=LIMITS)
    store.claim(0)
    return values_of_log(store, name)


# -- what is in it -------------------------------------------------------------------------------


def test_all_that_was_acknowledged_is_in_it(disk: FakeDisk) -> None:
    backed_up(disk)
    assert values_in_backup(disk) == [*VALUES, b"in the journal"]
    assert len(values_in_backup(disk, TOPIC)) == 5


def test_the_source_stays_as_it_was_and_the_copy_has_the_same_files(disk: FakeDisk) -> None:
    before = tree(disk, "data")
    backed_up(disk)
    assert tree(disk, "data") == before
    left = {name for name in before if name.startswith(("nodes", "leases", "journals/", "notes"))}
    copied = {name: data for name, data in tree(disk, DEST).items() if name != "backup"}
    assert {name: before[name] for name in before.keys() - left} == {
        name: data for name, data in copied.items() if not name.startswith("journals/")
    }


def test_what_is_none_of_ours_is_left_out_and_named(disk: FakeDisk) -> None:
    backed_up(disk)
    assert not disk.has(f"{DEST}/notes.txt")
    assert left_out(FakeFiles(disk), job()) == ["notes.txt"]


def test_zeros_at_the_end_of_a_journal_are_left_out(disk: FakeDisk) -> None:
    [journal] = journal_paths(disk)
    backed_up(disk)
    copy = disk.contents(journal.replace("data", DEST, 1))
    assert disk.contents(journal) == copy + bytes(len(disk.contents(journal)) - len(copy))
    assert len(copy) < len(disk.contents(journal))


def logs(disk: FakeDisk, name: str) -> list[str]:
    """The segments of a folder."""
    return [path for path in segment_paths(disk, name) if path.endswith(".log")]


def test_the_note_names_every_file_with_its_size_and_checksum(disk: FakeDisk) -> None:
    made = backed_up(disk)
    note = read_note(FakeFiles(disk), DEST)
    assert note == made
    assert (note.made_at, note.data_dir) == (NOW, "data")
    found = {name: data for name, data in tree(disk, DEST).items() if data is not None}
    del found["backup"]
    assert {each.name: (each.size, each.crc) for each in note.files} == {
        name: (len(data), crc32c(data)) for name, data in found.items()
    }


def test_no_file_is_shared(disk: FakeDisk) -> None:
    files = FakeFiles(disk)
    backed_up(disk)
    for name, data in tree(disk, DEST).items():
        assert data is None or files.look(f"{DEST}/{name}") != files.look(f"data/{name}")


def test_an_archive_is_copied(disk: FakeDisk) -> None:
    files = FakeFiles(disk)
    files.make_folder(f"data/archive/{NAME}")
    for path in segment_paths(disk, NAME)[:1]:
        files.link(path, path.replace("data/", "data/archive/"))
    backed_up(disk)
    name = f"archive/{NAME}/00000000000000000000.log"
    assert disk.contents(f"{DEST}/{name}") == disk.contents(f"data/{name}")


def test_what_has_not_changed_is_not_copied_again(disk: FakeDisk) -> None:
    names = []

    def disturb() -> None:
        log = open_log(FakeFiles(disk), "data/catalog", LIMITS)
        log.append(batch(log.next_offset, b"another topic"))

    class Writes(FakeFiles):
        def write(self, handle: int, data: bytes, position: int) -> None:
            names.append(self.path_of(handle))
            super().write(handle, data, position)

    back_up(Hooked(disk, "list data/archive", disturb), Writes(disk), job())
    segments = [name for name in names if name.endswith(".log")]
    again = {name for name in segments if segments.count(name) > 1}
    assert {name.split("/")[2] for name in again} == {"catalog"}
    assert len(segments) > 10


def test_a_swap_that_a_crash_has_interrupted_is_copied_as_it_is(disk: FakeDisk) -> None:
    for suffix in (".log.swap", ".index.swap", ".log.4711.cleaned", ".log.deleted"):
        write_file(disk, f"data/{NAME}/00000000000000000000{suffix}", b"bytes")
    backed_up(disk)
    names = [name for name in disk.children(f"{DEST}/{NAME}") if name.startswith("0" * 20)]
    assert [name[20:] for name in names] == [
        ".index",
        ".index.swap",
        ".log",
        ".log.swap",
        ".timeindex",
    ]


def test_a_directory_from_a_broker_needs_no_journal_and_no_catalog() -> None:
    disk = FakeDisk()
    log = open_log(FakeFiles(disk), f"data/{NAME}", LIMITS)
    log.append(batch(0, b"from elsewhere"))
    made = backed_up(disk)
    assert [each.name for each in made.files if each.name.endswith(".log")] == [
        f"{NAME}/00000000000000000000.log"
    ]
    assert values_in_backup(disk) == [b"from elsewhere"]


# -- what changes meanwhile ----------------------------------------------------------------------


def backed_up_while(disk: FakeDisk, words: str, action: Callable[[], None], times: int = 1) -> None:
    files = Hooked(disk, words, action)
    files.times = times
    back_up(files, FakeFiles(disk), job())


def test_a_batch_that_is_seen_in_part_is_read_again(disk: FakeDisk) -> None:
    [*_, last] = logs(disk, TOPIC)
    whole = batch(5, b"the last one")
    write_file(disk, last, whole[:40], len(disk.contents(last)))
    size = len(disk.contents(last))

    class Late(FakeFiles):
        """The rest of the batch is there when the file is read for the second time."""

        def read(self, handle: int, count: int, position: int) -> bytes:
            data = super().read(handle, count, position)
            if self.path_of(handle) == last:
                write_file(disk, last, whole[40:], size)
            return data

    back_up(Late(disk), FakeFiles(disk), job())
    assert values_in_backup(disk, TOPIC)[-1] == b"the last one"
    assert disk.contents(last) == disk.contents(last.replace("data", DEST, 1))


def test_a_torn_end_that_stays_is_copied(disk: FakeDisk) -> None:
    [*_, last] = logs(disk, TOPIC)
    write_file(disk, last, b"torn", len(disk.contents(last)))
    backed_up(disk)
    assert disk.contents(last) == disk.contents(last.replace("data", DEST, 1))


def test_an_end_that_a_start_has_cut_off_is_not_kept(disk: FakeDisk) -> None:
    [*_, last] = logs(disk, TOPIC)
    size = len(disk.contents(last))
    write_file(disk, last, batch(5, b"refused"), size)

    def cut_and_append() -> None:
        cut_file(disk, last, size)
        write_file(disk, last, batch(5, b"another one instead"), size)

    # A pass that is disturbed, so that there is a second one.
    def disturb() -> None:
        cut_and_append()
        log = open_log(FakeFiles(disk), "data/catalog", LIMITS)
        log.append(batch(log.next_offset, b"another topic"))

    backed_up_while(disk, "list data/archive", disturb)
    assert values_in_backup(disk, TOPIC)[-1] == b"another one instead"


def test_a_finished_segment_that_becomes_the_last_is_copied_again(disk: FakeDisk) -> None:
    before, last = logs(disk, TOPIC)[-2:]
    contents = disk.contents(before)

    def remove_and_append() -> None:
        disk.remove(last)
        write_file(disk, before, batch(4, b"new"), len(contents))
        log = open_log(FakeFiles(disk), "data/catalog", LIMITS)
        log.append(batch(log.next_offset, b"another topic"))

    backed_up_while(disk, "list data/archive", remove_and_append)
    assert disk.contents(before.replace("data", DEST, 1)) == disk.contents(before)


def test_a_segment_that_is_replaced_under_its_name_is_copied_again(disk: FakeDisk) -> None:
    first = logs(disk, TOPIC)[0]
    files = FakeFiles(disk)

    def replace() -> None:
        write_file(disk, f"{first}.new", batch(0, b"compacted"))
        files.rename(f"{first}.new", first)

    backed_up_while(disk, f"read {logs(disk, TOPIC)[-1]}", replace)
    assert disk.contents(first.replace("data", DEST, 1)) == batch(0, b"compacted")


def test_a_folder_that_is_removed_meanwhile_is_not_in_the_copy(disk: FakeDisk) -> None:
    backed_up_while(disk, "list data/archive", lambda: disk.remove(f"data/{TOPIC}"))
    assert TOPIC not in disk.children(DEST)


def test_a_folder_that_never_holds_still_is_an_error(disk: FakeDisk) -> None:
    numbers = iter(range(10_000))
    epochs = f"data/{TOPIC}/leader-epoch-checkpoint"

    def change() -> None:
        write_file(disk, epochs, b"0\n1\n0 %d\n" % next(numbers))

    with pytest.raises(StorageError, match=f"data/{TOPIC} changed during each of 100 copies"):
        backed_up_while(disk, f"list data/{TOPIC}", change, times=1000)
    assert disk.children("backups") == []


def test_a_directory_that_never_holds_still_is_an_error(disk: FakeDisk) -> None:
    def change() -> None:
        log = open_log(FakeFiles(disk), "data/catalog", LIMITS)
        log.append(batch(log.next_offset, b"another topic"))
        log.close()

    text = f"in each of {PASSES} passes topics were created, changed or deleted; try again"
    with pytest.raises(BackupError, match=text):
        backed_up_while(disk, "list data/archive", change, times=1000)
    assert disk.children("backups") == []


def test_an_upgrade_meanwhile_begins_another_pass(disk: FakeDisk) -> None:
    def upgrade() -> None:
        disk.remove("data/format")
        store = Store(FakeFiles(disk), "data", 1)
        store.write_format(1)

    backed_up_while(disk, "list data/archive", upgrade)
    assert disk.contents(f"{DEST}/format") == disk.contents("data/format")


def test_what_a_start_refuses_is_copied_and_refused_in_the_copy() -> None:
    disk = FakeDisk()
    for _ in range(2):
        store = open_store(disk, limits=LIMITS)
        epoch = store.claim(0)
        for value in VALUES:
            put(store, value, epoch=epoch)
        if epoch == 1:
            store.close()
    for path in segment_paths(disk, NAME):
        disk.remove(path)
    backed_up(disk)
    with pytest.raises(StorageError, match="log is missing: offsets 0 to 2: restore it"):
        values_in_backup(disk)


# -- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (f"{DEST}/something", f"{DEST} is not empty: name a new folder"),
        (f"{DEST}.incomplete/format", f"{DEST}.incomplete exists: another backup"),
    ],
)
def test_a_place_that_is_taken_is_refused_and_left_alone(
    disk: FakeDisk, path: str, line: str
) -> None:
    folder, _, name = path.rpartition("/")
    FakeFiles(disk).make_folder(folder)
    write_file(disk, path, b"here before")
    with pytest.raises(BackupError, match=line):
        backed_up(disk)
    assert disk.children(folder) == [name]


def test_an_empty_folder_is_replaced(disk: FakeDisk) -> None:
    FakeFiles(disk).make_folder(DEST)
    backed_up(disk)
    assert values_in_backup(disk) == [*VALUES, b"in the journal"]


def test_a_directory_without_data_is_refused() -> None:
    with pytest.raises(BackupError, match="data has no Groupkeeper data"):
        backed_up(FakeDisk())


def test_a_newer_directory_is_refused(disk: FakeDisk) -> None:
    line = b'{"format": 99, "directory": "ab", "shards": 1}'
    cut_file(disk, "data/format", 0)
    write_file(disk, "data/format", line + b"\n%08x\n" % crc32c(line))
    with pytest.raises(OtherFormat):
        backed_up(disk)


def test_a_full_disk_leaves_nothing(disk: FakeDisk) -> None:
    for free in range(0, 4000, 500):
        disk.capacity = disk.used() + free
        with pytest.raises(OSError, match="No space left"):
            backed_up(disk)
        assert disk.children("backups") == []


# -- crashes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["lose", "names", "keep", "tear", "kill"])
def test_a_crash_leaves_a_whole_backup_or_none(disk: FakeDisk, mode: str) -> None:
    before = tree(disk, "data")
    first = disk.calls
    backed_up(disk)
    last = disk.calls - first
    disk.remove("backups")
    disk.write_back()
    complete = 0
    for call in range(1, last + 2):
        disk.crash_at = disk.calls + call
        try:
            backed_up(disk)
        except Crash:
            disk.revive() if mode == "kill" else disk.power_cut(mode, call)
        else:
            disk.crash_at = None
            disk.power_cut("lose")
        assert tree(disk, "data") == before
        if disk.has(f"{DEST}/backup"):
            complete += 1
            assert values_in_backup(disk) == [*VALUES, b"in the journal"]
            assert len(values_in_backup(disk, TOPIC)) == 5
        else:
            assert not disk.has(DEST)
        disk.remove("backups")
        disk.write_back()
    assert complete
