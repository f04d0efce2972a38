"""Compacted segments take the places of their sources: whole or not at all, whatever crashes."""

import errno
from collections.abc import Callable

import pytest

from groupkeeper.storage.compaction.segment_writer import remove_cleaned
from groupkeeper.storage.compaction.swap import Swap
from groupkeeper.storage.errors import AppendFailed, Corrupt
from groupkeeper.storage.log.limits import Limits
from groupkeeper.storage.log.log import Log
from groupkeeper.storage.recovery.opening import open_log
from tests.support.batches import batch, values_of
from tests.support.cleaned import TOKEN, clean
from tests.support.fake_files import Crash, FakeDisk, FakeFiles
from tests.support.stored import cut_file, write_file

LIMITS = Limits(segment_bytes=700, index_interval_bytes=200)
FOLDER = "data/__consumer_offsets-0"
ARCHIVE = "data/archive/__consumer_offsets-0"
RECORDS = 60
MODES = ["lose", "names", "keep", "tear", "spoil", "kill"]


def opened(files: FakeFiles) -> Log:
    return open_log(files, FOLDER, LIMITS)


def filled(files: FakeFiles, records: int = RECORDS) -> Log:
    """A log of several segments, all of it on the disk."""
    log = opened(files)
    add(log, records)
    return log


def add(log: Log, records: int = 1) -> None:
    """Append records, each on the disk before the next one."""
    for _ in range(records):
        log.append(batch(log.next_offset, value(log.next_offset)))
        log.sync()


def contents(log: Log) -> list[bytes]:
    found = [value for chunk in log.batches() for value in values_of(chunk) if value is not None]
    assert len(found) == len(set(found)), "no record comes twice"
    return found


def value(offset: int) -> bytes:
    return b"%d is the offset of this value" % offset


def number_of(found: bytes) -> int:
    return int(found.split()[0])


def swap(files: FakeFiles, log: Log, *groups: int, archive: str = "") -> None:
    one = Swap(log, clean(files, log, *groups))
    assert one.prepare(TOKEN, archive)
    assert one.switch()
    one.finish()


def new_disk() -> FakeDisk:
    """One with an empty data directory, as a store leaves it."""
    disk = FakeDisk()
    FakeFiles(disk).make_folder("data")
    disk.write_back()
    return disk


def leftovers(disk: FakeDisk) -> list[str]:
    return [name for name in disk.children(FOLDER) if name.endswith((".cleaned", ".swap"))]


def test_a_swapped_log_has_what_was_kept_and_takes_appends(
    disk: FakeDisk, files: FakeFiles
) -> None:
    log = filled(files)
    ends, before = [end for _, end in log.finished], log.size
    swap(files, log)
    kept = [value(n) for n in range(RECORDS) if n % 3 == 0 or n == ends[-1] - 1 or n >= ends[-1]]
    assert contents(log) == kept
    assert [end for _, end in log.finished] == ends[-1:]
    assert log.size < before
    assert log.first_dirty == ends[-1]
    add(log)
    assert contents(log) == [*kept, value(RECORDS)]
    log.close()
    again = opened(files)
    assert contents(again) == [*kept, value(RECORDS)]
    assert again.first_dirty == ends[-1]
    assert not again.repairs
    assert not leftovers(disk)


def test_new_segments_get_their_names_from_the_oldest_on(disk: FakeDisk, files: FakeFiles) -> None:
    """So that a tombstone never goes before the values that it deletes."""
    log = filled(files)
    swap(files, log, 2, 2, 2)
    renames = [step for step in disk.trace if step.startswith("rename") and ".log" in step]
    bases = [base for base, *_ in (step.split("/")[-1].split(".") for step in renames)]
    first = bases[: len(bases) // 2]
    assert len(first) == 3
    assert first == sorted(first)


def test_every_offset_can_be_read_after_a_swap_and_leads_to_the_next_one_kept(
    files: FakeFiles,
) -> None:
    log = filled(files)
    swap(files, log, 2, 3)
    kept = [number_of(each) for each in contents(log)]
    for _ in range(2):
        for offset in range(RECORDS):
            [first, *_] = values_of(log.read(offset, 1))
            assert number_of(first) == min(each for each in kept if each >= offset)
        log = reopened(log, files)


def reopened(log: Log, files: FakeFiles) -> Log:
    log.close()
    return opened(files)


def test_a_reader_goes_on_with_the_old_segments(files: FakeFiles) -> None:
    log = filled(files)
    reading = log.batches()
    first = values_of(next(reading))
    swap(files, log)
    found = [*first, *(each for chunk in reading for each in values_of(chunk))]
    assert found == [value(n) for n in range(RECORDS)]


def test_segments_are_swapped_again_with_those_that_came_later(files: FakeFiles) -> None:
    log = filled(files)
    for _ in range(3):
        swap(files, log)
        add(log, RECORDS)
    swap(files, log)
    assert len(log.finished) == 1
    found = contents(log)
    assert contents(reopened(log, files)) == found


def run(disk: FakeDisk, *, archive: str = "") -> None:
    """A log, two compactions of it, more records between and after them, and a clean stop."""
    files = FakeFiles(disk)
    log = filled(files)
    swap(files, log, 3, len(log.finished) - 3, archive=archive)
    add(log, RECORDS)
    swap(files, log, archive=archive)
    add(log)
    log.close()


def calls_of(**how: str) -> int:
    disk = new_disk()
    run(disk, **how)
    return disk.calls


def check_after(disk: FakeDisk) -> None:
    """Every record that no compaction has removed is there, in its order, and the log goes on."""
    files = FakeFiles(disk)
    log = opened(files)
    found = contents(log)
    numbers = [number_of(each) for each in found]
    assert numbers == sorted(numbers)
    must = [n for n in range(log.next_offset) if n % 3 == 0]
    assert set(must) <= set(numbers)
    assert not leftovers(disk)
    entries = {segment.base_offset: segment.finished for segment, _ in log.finished}
    for at, (segment, end) in enumerate(log.finished):
        entry = entries[segment.base_offset]
        if entry is None or not entry.compacted:
            assert set(range(segment.base_offset, end)) <= set(numbers), at
    assert log.first_dirty <= log.next_offset
    add(log, 20)
    if len(log.finished) > 1:
        swap(files, log)
    end = log.next_offset
    log.close()
    disk.power_cut("lose")
    again = opened(FakeFiles(disk))
    assert again.next_offset == end
    assert set(must) <= {number_of(each) for each in contents(again)}


@pytest.mark.parametrize("mode", MODES)
def test_wherever_it_crashes_a_segment_is_old_or_new(mode: str) -> None:
    reached: set[int] = set()
    for call in range(2, calls_of() + 1):
        disk = new_disk()
        disk.crash_at = call
        with pytest.raises(Crash):
            run(disk)
        disk.revive() if mode == "kill" else disk.power_cut(mode, seed=call)
        files = FakeFiles(disk)
        reached.add(opened(files).next_offset)
        check_after(disk)
    assert max(reached) > 2 * RECORDS - 1


@pytest.mark.parametrize("mode", MODES)
def test_a_crash_while_a_start_completes_a_swap(mode: str) -> None:
    for call in range(calls_of() // 4, calls_of(), 9):
        for again in range(1, 12, 2):
            disk = new_disk()
            disk.crash_at = call
            with pytest.raises(Crash):
                run(disk)
            disk.revive() if mode == "kill" else disk.power_cut(mode, seed=call)
            disk.crash_at = disk.calls + again
            try:
                opened(FakeFiles(disk))
            except Crash:
                disk.revive() if mode == "kill" else disk.power_cut(mode, seed=again)
            else:
                disk.revive()
            check_after(disk)


def test_a_disk_that_fails_at_any_call_leaves_a_log_that_opens() -> None:
    for call in range(2, calls_of(archive=ARCHIVE) + 1):
        disk = new_disk()
        disk.failures[call] = OSError(errno.EIO, "Input/output error")
        try:
            run(disk, archive=ARCHIVE)
        except (OSError, AppendFailed):
            disk.revive()
        check_after(disk)


@pytest.mark.parametrize("ends", [Swap.finish, Swap.discard])
def test_a_swap_that_stops_half_way_fails_the_log_until_a_start_completes_it(
    ends: Callable[[Swap], None],
) -> None:
    disk = new_disk()
    files = FakeFiles(disk)
    log = filled(files)
    one = Swap(log, clean(files, log))
    assert one.prepare(TOKEN)
    if ends is Swap.finish:
        assert one.switch()
    disk.failures[disk.calls + 1] = OSError(errno.EIO, "Input/output error")
    with pytest.raises(OSError, match="Input/output"):
        ends(one)
    assert leftovers(disk)
    assert log.failed
    log.close()
    check_after(disk)


def test_raw_segments_are_in_the_archive_before_they_are_replaced() -> None:
    disk = new_disk()
    run(disk, archive=ARCHIVE)
    files = FakeFiles(disk)
    log = opened(files)
    end = log.first_dirty
    raw = open_log(files, ARCHIVE, LIMITS)
    assert contents(raw) == [value(n) for n in range(end)]


# -- damage ------------------------------------------------------------------------------------


def half_done(disk: FakeDisk, crash_before: str) -> FakeFiles:
    """A process killed in the middle of a swap."""
    files = FakeFiles(disk)
    log = filled(files)
    one = Swap(log, clean(files, log))
    one.prepare(TOKEN)
    if crash_before == "finish":
        assert one.switch()
    disk.revive()
    return FakeFiles(disk)


def swapped_path(disk: FakeDisk) -> str:
    [name] = [name for name in disk.children(FOLDER) if name.endswith(".log.swap")]
    return f"{FOLDER}/{name}"


def test_a_damaged_new_segment_is_dropped_while_its_sources_are_there(disk: FakeDisk) -> None:
    files = half_done(disk, "switch")
    disk.flip(swapped_path(disk), 100)
    log = opened(files)
    assert contents(log) == [value(n) for n in range(RECORDS)]
    assert ".log.swap is damaged: removed, and its source segments" in log.repairs[0]
    assert not leftovers(disk)


def test_a_new_segment_with_more_than_its_batches_is_dropped(disk: FakeDisk) -> None:
    files = half_done(disk, "switch")
    path = swapped_path(disk)
    write_file(disk, path, b"more", len(disk.contents(path)))
    log = opened(files)
    assert contents(log) == [value(n) for n in range(RECORDS)]
    assert ".log.swap is damaged" in log.repairs[0]


def test_a_damaged_new_segment_is_refused_once_its_sources_may_be_gone(disk: FakeDisk) -> None:
    half_done(disk, "finish")
    disk.flip(swapped_path(disk), 100)
    for _ in range(2):
        with pytest.raises(Corrupt, match=r"\.log\.swap is damaged"):
            opened(FakeFiles(disk))
    write_file(disk, f"{FOLDER}/accept-loss", b"")
    log = opened(FakeFiles(disk))
    assert len(contents(log)) > RECORDS // 4
    assert not leftovers(disk)


@pytest.mark.parametrize("damage", ["removed", "cut", "flip"])
def test_a_lost_compacted_segment_is_noticed(disk: FakeDisk, files: FakeFiles, damage: str) -> None:
    log = filled(files)
    swap(files, log)
    path = log.finished[0][0].path
    log.close()
    if damage == "removed":
        disk.remove(path)
    elif damage == "cut":
        cut_file(disk, path, len(disk.contents(path)) // 2)
    else:
        disk.flip(path, 7)  # an offset, which no checksum of a batch covers
    with pytest.raises(Corrupt, match=r"0\.log"):
        contents(opened(FakeFiles(disk)))


def test_without_a_manifest_a_swap_is_completed_once_losses_are_accepted(disk: FakeDisk) -> None:
    files = half_done(disk, "finish")
    disk.remove(f"{FOLDER}/manifest")
    with pytest.raises(Corrupt, match="if the folder is not from a broker: restore it from a"):
        opened(files)
    write_file(disk, f"{FOLDER}/accept-loss", b"")
    log = opened(files)
    found = contents(log)
    assert len(found) < RECORDS
    assert {value(n) for n in range(0, RECORDS, 3)} <= set(found)
    assert contents(reopened(log, files)) == found


# -- refusals ----------------------------------------------------------------------------------


def test_a_closed_log_is_not_switched(disk: FakeDisk, files: FakeFiles) -> None:
    log = filled(files)
    one = Swap(log, clean(files, log))
    one.prepare(TOKEN)
    log.close()
    assert not one.switch()
    one.discard()
    assert not leftovers(disk)
    assert contents(opened(files)) == [value(n) for n in range(RECORDS)]


def test_nothing_is_renamed_in_the_folder_of_a_closed_log(disk: FakeDisk, files: FakeFiles) -> None:
    """Another owner may have it, whose start would complete the swap."""
    log = filled(files)
    one = Swap(log, clean(files, log))
    log.close()
    assert not one.prepare(TOKEN, ARCHIVE)
    assert all(name.endswith(".cleaned") for name in leftovers(disk))
    assert not disk.has(ARCHIVE)


def test_a_log_whose_segments_were_deleted_meanwhile_is_not_switched(
    disk: FakeDisk, files: FakeFiles
) -> None:
    log = filled(files)
    one = Swap(log, clean(files, log))
    one.prepare(TOKEN)
    log.delete_before(log.finished[1][1])
    assert not one.switch()
    one.discard()
    start = log.start_offset
    assert contents(log) == [value(n) for n in range(start, RECORDS)]
    assert contents(reopened(log, files)) == [value(n) for n in range(start, RECORDS)]
    assert not leftovers(disk)


def test_what_a_compaction_left_behind_is_removed_by_its_token_or_by_a_start(
    disk: FakeDisk, files: FakeFiles
) -> None:
    log = filled(files)
    clean(files, log)
    remove_cleaned(files, FOLDER, "another")
    assert len(leftovers(disk)) == 3
    remove_cleaned(files, FOLDER, TOKEN)
    assert not leftovers(disk)
    clean(files, log)
    reopened(log, files)
    assert not leftovers(disk)


def test_files_that_are_not_what_the_compaction_wrote_are_refused(
    disk: FakeDisk, files: FakeFiles
) -> None:
    log = filled(files)
    compacted = clean(files, log)
    path = f"{FOLDER}/00000000000000000000.log.{TOKEN}.cleaned"
    cut_file(disk, path, 100)
    with pytest.raises(Corrupt, match="is not what the compaction wrote"):
        Swap(log, compacted).prepare(TOKEN)
    assert not leftovers(disk)
    assert contents(log) == [value(n) for n in range(RECORDS)]


# -- a folder of a Kafka broker --------------------------------------------------------------------


def test_files_of_a_brokers_cleaner_are_removed_or_refused(
    disk: FakeDisk, files: FakeFiles
) -> None:
    files.make_folder(FOLDER)
    stem = f"{FOLDER}/{0:020}"
    write_file(disk, f"{stem}.log", batch(0, b"value"))
    for suffix in (".log.deleted", ".index.cleaned", ".snapshot"):
        write_file(disk, stem + suffix, b"of the broker")
    write_file(disk, f"{stem}.log.swap", batch(0, b"value"))
    with pytest.raises(Corrupt, match=r"replacing \(\*\.swap\): start and stop the broker"):
        open_log(files, FOLDER, Limits())
    assert len(disk.children(FOLDER)) == 5
    files.remove(f"{stem}.log.swap")
    assert open_log(files, FOLDER, Limits()).next_offset == 1
    names = {name.rpartition(".")[2] for name in disk.children(FOLDER)}
    assert not names & {"deleted", "cleaned"}
