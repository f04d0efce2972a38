"""One log: appended to, read, rolled, indexed, closed and opened again."""

import errno
import struct
from pathlib import Path

import pytest

from groupkeeper.storage.errors import AppendFailed, Corrupt, OffsetOutOfRange, SyncFailed
from groupkeeper.storage.files.files import Files
from groupkeeper.storage.log.limits import Limits
from groupkeeper.storage.log.log import Log
from groupkeeper.storage.recovery.opening import open_log
from tests.support.batches import TIME, batch, offsets_of, values_of
from tests.support.fake_files import FakeDisk, FakeFiles
from tests.support.log_times import offset_for_timestamp
from tests.support.stored import cut_file, segment_paths, write_file

LIMITS = Limits(segment_bytes=400, index_interval_bytes=100)
FIRST = "data/t-0/00000000000000000000.log"
SIZE = len(batch(0, b"v"))


@pytest.fixture
def files(disk: FakeDisk) -> FakeFiles:
    files = FakeFiles(disk)
    files.make_folder("data")
    files.sync_folder(".")
    return files


@pytest.fixture
def log(files: FakeFiles) -> Log:
    return open_log(files, "data/t-0", LIMITS)


def fill(log: Log, count: int, epoch: int = 0) -> None:
    for _ in range(count):
        offset = log.next_offset
        log.append(batch(offset, b"v", epoch=epoch, time=TIME + offset))


def reopen(log: Log, files: FakeFiles, limits: Limits = LIMITS) -> Log:
    log.close()
    return open_log(files, "data/t-0", limits)


def all_offsets(log: Log) -> list[int]:
    return [offset for chunk in log.batches() for offset in offsets_of(chunk)]


def test_a_missing_folder_is_an_empty_log_and_stays_missing(log: Log, disk: FakeDisk) -> None:
    assert (log.start_offset, log.next_offset, log.last_epoch) == (0, 0, -1)
    assert log.read(0, 100) == b""
    assert list(log.batches()) == []
    log.close()
    assert not disk.has("data/t-0")


def test_the_first_append_creates_the_folder(log: Log, disk: FakeDisk) -> None:
    log.append(batch(0, b"a", b"b"))
    assert log.next_offset == 2
    assert disk.children("data/t-0") == ["00000000000000000000.log", "leader-epoch-checkpoint"]


def test_several_batches_are_appended_at_once(log: Log, files: FakeFiles) -> None:
    log.append(batch(0, b"a", b"b") + batch(2, b"c"))
    assert all_offsets(reopen(log, files)) == [0, 1, 2]


@pytest.mark.parametrize(
    "data", [b"", batch(1, b"v"), batch(0, b"v")[:-1], batch(0, b"v") + batch(3, b"v"), b"short"]
)
def test_what_does_not_continue_the_log_is_refused(log: Log, data: bytes) -> None:
    with pytest.raises(ValueError, match=r"continue|cut off|nothing"):
        log.append(data)
    log.append(batch(0, b"v"))


def test_segments_are_named_by_their_first_offset(log: Log, disk: FakeDisk) -> None:
    fill(log, 12)
    paths = segment_paths(disk, "t-0")
    assert paths == [f"data/t-0/{base:020}.log" for base in (0, 5, 10)]
    assert all(len(disk.contents(path)) <= 400 for path in paths)


def test_a_batch_larger_than_a_segment_gets_one_of_its_own(log: Log) -> None:
    log.append(batch(0, b"v"))
    log.append(batch(1, bytes(900)))
    log.append(batch(2, b"v"))
    assert all_offsets(log) == [0, 1, 2]


def test_a_full_index_rolls_the_segment(files: FakeFiles, disk: FakeDisk) -> None:
    log = open_log(files, "data/t-0", Limits(index_interval_bytes=10, index_bytes=40))
    fill(log, 20)
    assert len(segment_paths(disk, "t-0")) > 3
    assert all_offsets(log) == list(range(20))


AGED = Limits(segment_ms=1_000)


def at(log: Log, *times: int) -> None:
    """Append a batch with each of these times."""
    for time in times:
        log.append(batch(log.next_offset, b"v", time=time))


def bases(disk: FakeDisk) -> list[int]:
    return [int(path.rpartition("/")[2][:20]) for path in segment_paths(disk, "t-0")]


@pytest.fixture
def aged(files: FakeFiles) -> Log:
    return open_log(files, "data/t-0", AGED)


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ((0, 1_000), [0]),
        ((0, 1_000, 1_001, 1_002), [0, 2]),
        ((5_000, 0, 6_000), [0]),  # from the first batch: later ones may have any time, as in Kafka
        ((5_000, 0, 6_000, 6_001, 0, 7_002), [0, 3, 5]),
        ((-1 - TIME, 0, 1_000), [0]),  # a first batch without a timestamp does not count
        ((-1 - TIME, 0, 1_000, 1_001, -1 - TIME), [0, 3]),
    ],
)
def test_a_segment_rolls_when_a_batch_is_younger_than_its_first_by_more(
    aged: Log, files: FakeFiles, disk: FakeDisk, times: tuple[int, ...], expected: list[int]
) -> None:
    at(aged, *(TIME + time for time in times[:-1]))
    log = reopen(aged, files, AGED)  # the age is known after opening
    at(log, TIME + times[-1])
    assert bases(disk) == expected
    assert all_offsets(log) == list(range(len(times)))


def test_the_age_is_known_after_a_torn_end(aged: Log, files: FakeFiles, disk: FakeDisk) -> None:
    at(aged, TIME, TIME + 900)
    cut_file(disk, FIRST, 2 * SIZE - 1)
    log = open_log(files, "data/t-0", AGED)
    at(log, TIME + 1_001)
    assert bases(disk) == [0, 1]


def test_an_empty_segment_has_no_age(aged: Log, files: FakeFiles, disk: FakeDisk) -> None:
    at(aged, TIME)
    aged.roll()
    log = reopen(aged, files, AGED)
    at(log, TIME + 5_000)
    assert bases(disk) == [0, 1]


def test_other_limits_hold_from_the_next_append_on(aged: Log, disk: FakeDisk) -> None:
    at(aged, TIME, TIME + 500)
    aged.limits = Limits(segment_ms=499)
    assert not aged.has_room(SIZE, TIME + 500)
    assert aged.has_room(SIZE, TIME + 499)
    at(aged, TIME + 500)
    assert bases(disk) == [0, 2]
    aged.limits = Limits(segment_bytes=2 * SIZE)
    at(aged, TIME, TIME)
    assert bases(disk) == [0, 2, 4]


def test_everything_is_read_again_after_reopening(log: Log, files: FakeFiles) -> None:
    fill(log, 23, epoch=4)
    log = reopen(log, files)
    assert (log.start_offset, log.next_offset, log.last_epoch) == (0, 23, 4)
    assert all_offsets(log) == list(range(23))
    fill(log, 3, epoch=5)
    assert all_offsets(log) == list(range(26))


def test_a_read_begins_with_the_batch_that_holds_the_offset(log: Log) -> None:
    fill(log, 23)
    assert [offsets_of(log.read(offset, 1)) for offset in range(23)] == [[o] for o in range(23)]


def test_a_read_inside_a_batch_returns_all_of_it(log: Log) -> None:
    log.append(batch(0, b"a", b"b", b"c"))
    assert offsets_of(log.read(1, 1)) == [0, 1, 2]


def test_a_read_returns_as_many_whole_batches_as_fit(log: Log) -> None:
    fill(log, 5)
    assert offsets_of(log.read(1, 3 * SIZE + 5)) == [1, 2, 3]


def test_a_read_at_the_end_is_empty_and_beyond_it_refused(log: Log) -> None:
    fill(log, 5)
    assert log.read(5, 100) == b""
    with pytest.raises(OffsetOutOfRange, match="holds 0 to 5, not 6"):
        log.read(6, 100)
    with pytest.raises(OffsetOutOfRange):
        log.read(-1, 100)


def test_a_read_steps_over_offsets_that_are_gone(files: FakeFiles, disk: FakeDisk) -> None:
    files.make_folder("data/t-0")
    write_file(disk, FIRST, batch(0, b"a") + batch(7, b"b"))
    log = open_log(files, "data/t-0", LIMITS)
    assert offsets_of(log.read(3, 100)) == [7]


def test_replay_can_begin_in_the_middle(log: Log) -> None:
    fill(log, 23)
    assert [o for chunk in log.batches(from_offset=13) for o in offsets_of(chunk)] == [
        *range(13, 23)
    ]


@pytest.mark.parametrize("limits", [LIMITS, Limits(index_interval_bytes=100)])
def test_a_timestamp_leads_to_the_first_record_that_is_not_older(
    files: FakeFiles, limits: Limits
) -> None:
    log = open_log(files, "data/t-0", limits)
    fill(log, 23)
    log = reopen(log, files, limits)
    assert [offset_for_timestamp(log, TIME + at) for at in range(23)] == [
        (at, TIME + at) for at in range(23)
    ]
    assert offset_for_timestamp(log, 0) == (0, TIME)
    assert offset_for_timestamp(log, TIME + 23) is None


@pytest.mark.parametrize("damage", ["1", "10", f"{SIZE - 1}", "flip", "zeros"])
def test_a_torn_end_is_cut_off(log: Log, files: FakeFiles, disk: FakeDisk, damage: str) -> None:
    """So many bytes are lost, or one is wrong, or zeros follow."""
    fill(log, 4)
    files.kill()
    kept = 3
    if damage == "flip":
        disk.flip(FIRST, 4 * SIZE - 1)
    elif damage == "zeros":
        kept = 4
        write_file(disk, FIRST, bytes(4096), 4 * SIZE)
    else:
        cut_file(disk, FIRST, 4 * SIZE - int(damage))
    log = open_log(files, "data/t-0", LIMITS)
    assert (log.next_offset, len(disk.contents(FIRST))) == (kept, kept * SIZE)
    fill(log, 1)
    assert all_offsets(log) == list(range(kept + 1))


@pytest.mark.parametrize("place", [0, 8, 11, 16, 30, 70])
def test_sound_batches_after_a_bad_one_stop_the_opening(
    log: Log, files: FakeFiles, disk: FakeDisk, place: int
) -> None:
    fill(log, 5)
    files.kill()
    before = disk.contents(FIRST)
    disk.flip(FIRST, SIZE + place, 0x80)
    with pytest.raises(Corrupt, match=rf"{FIRST}: the batch at byte {SIZE} is damaged, 3 sound"):
        open_log(files, "data/t-0", LIMITS)
    assert len(disk.contents(FIRST)) == len(before)


def test_a_damaged_base_offset_stops_the_opening(
    log: Log, files: FakeFiles, disk: FakeDisk
) -> None:
    fill(log, 5)
    files.kill()
    disk.flip(FIRST, SIZE + 7, 0x80)
    with pytest.raises(Corrupt, match=f"the batch at byte {2 * SIZE} is damaged, 3 sound"):
        open_log(files, "data/t-0", LIMITS)


def test_damage_in_an_older_segment_is_found_by_replay(
    log: Log, files: FakeFiles, disk: FakeDisk
) -> None:
    fill(log, 12)
    log.close()
    disk.flip(FIRST, SIZE + 70)
    log = open_log(files, "data/t-0", LIMITS)
    with pytest.raises(Corrupt, match=f"byte {SIZE} is damaged"):
        list(log.batches())


def test_an_epoch_that_goes_backwards_is_refused(log: Log, files: FakeFiles) -> None:
    fill(log, 2, epoch=3)
    fill(log, 2, epoch=2)
    with pytest.raises(Corrupt, match="offset 2 was written in epoch 2, after epoch 3"):
        list(log.batches())
    with pytest.raises(Corrupt, match="offset 2 was written in epoch 2, after epoch 3"):
        reopen(log, files)


def test_epochs_are_listed_as_kafka_lists_them(log: Log, files: FakeFiles, disk: FakeDisk) -> None:
    fill(log, 6, epoch=3)
    fill(log, 7, epoch=4)
    log = reopen(log, files)
    fill(log, 1, epoch=9)
    text = disk.contents("data/t-0/leader-epoch-checkpoint").decode()
    assert text == "0\n3\n3 0\n4 6\n9 13\n"


def test_a_lost_epoch_file_is_no_harm(log: Log, files: FakeFiles) -> None:
    fill(log, 13, epoch=3)
    files.remove("data/t-0/leader-epoch-checkpoint")
    assert reopen(log, files).last_epoch == 3


def test_a_failed_append_breaks_the_log_until_it_is_opened_again(
    log: Log, files: FakeFiles, disk: FakeDisk
) -> None:
    fill(log, 2)
    disk.capacity = 2 * SIZE + 30
    with pytest.raises(AppendFailed, match=r"cannot append to data/t-0: .*No space left"):
        fill(log, 1)
    disk.capacity = None
    with pytest.raises(AppendFailed, match="opened again"):
        fill(log, 1)
    log = reopen(log, files)
    assert (log.next_offset, disk.contents(FIRST)) == (2, disk.contents(FIRST)[: 2 * SIZE])


def test_a_failed_sync_says_so(log: Log, disk: FakeDisk) -> None:
    fill(log, 1)
    disk.failures[disk.calls + 1] = OSError(errno.EIO, "Input/output error")
    with pytest.raises(SyncFailed, match="cannot sync data/t-0"):
        log.sync()
    assert log.failed


def test_a_failed_sync_of_a_finished_segment_says_so(log: Log, disk: FakeDisk) -> None:
    fill(log, 5)
    disk.failures[disk.calls + 1] = OSError(errno.EIO, "Input/output error")
    with pytest.raises(SyncFailed):
        fill(log, 1)


def test_synced_appends_survive_a_power_cut(log: Log, disk: FakeDisk) -> None:
    fill(log, 7)
    log.sync()
    fill(log, 1)
    disk.power_cut("lose")
    assert open_log(FakeFiles(disk), "data/t-0", LIMITS).next_offset == 7


def test_delete_removes_the_folder(log: Log, files: FakeFiles, disk: FakeDisk) -> None:
    fill(log, 12)
    log.delete()
    assert disk.children("data") == []
    assert open_log(files, "data/t-0", LIMITS).next_offset == 0


def index_files(disk: FakeDisk) -> dict[str, bytes]:
    return {
        name: disk.contents(f"data/t-0/{name}")
        for name in disk.children("data/t-0")
        if name.endswith("index")
    }


@pytest.mark.parametrize("damage", ["missing", "empty", "short", "zeros"])
def test_indexes_are_rebuilt_as_they_were(
    log: Log, files: FakeFiles, disk: FakeDisk, damage: str
) -> None:
    fill(log, 33)
    log.close()
    written = index_files(disk)
    for name, data in written.items():
        files.remove(f"data/t-0/{name}")
        if damage != "missing":
            spoilt = {"empty": b"", "short": data[:-1], "zeros": bytes(len(data))}[damage]
            write_file(disk, f"data/t-0/{name}", spoilt)
    log = open_log(files, "data/t-0", LIMITS)
    assert [offsets_of(log.read(offset, 1)) for offset in range(33)] == [[o] for o in range(33)]
    log.close()
    assert index_files(disk) == written


def test_index_entries_follow_kafkas_rule(files: FakeFiles, disk: FakeDisk) -> None:
    log = open_log(files, "data/t-0", Limits(index_interval_bytes=2 * SIZE))
    # After more than the interval: entries for the fourth batch and the seventh. A time that does
    # not rise gets no entry, and closing adds the largest time of all.
    for offset, time in enumerate([5, 5, 5, 3, 5, 5, 4, 9]):
        log.append(batch(offset, b"v", time=time))
    log.close()
    offsets, times = index_files(disk).values()
    assert list(struct.iter_unpack(">ii", offsets)) == [(3, 3 * SIZE), (6, 6 * SIZE)]
    assert list(struct.iter_unpack(">qi", times)) == [(5, 0), (9, 7)]


def test_values_are_read_as_they_were_written(log: Log) -> None:
    log.append(batch(0, b"a", b"b"))
    assert values_of(log.read(0, 100)) == [b"a", b"b"]


def test_a_reader_of_a_log_that_is_closed_reads_no_other_file(tmp_path: Path) -> None:
    """The system gives the number of a closed file to the next one that is opened."""
    (tmp_path / "data").mkdir()
    one, two = (open_log(Files(), f"{tmp_path}/data/{name}-0", LIMITS) for name in "ab")
    fill(one, 20)
    chunks = one.batches()
    offsets = offsets_of(next(chunks))
    one.close()
    two.append(batch(0, *[b"another's"] * 20))
    offsets += [offset for chunk in chunks for offset in offsets_of(chunk)]
    assert offsets == list(range(20))
    assert one.read(0, 100) == b""


def test_a_closed_log_leaves_no_file_open(log: Log, files: FakeFiles) -> None:
    fill(log, 20)
    list(log.batches())
    log.close()
    assert files.open_paths == []


def test_a_log_that_cannot_be_opened_leaves_no_file_open(
    log: Log, files: FakeFiles, disk: FakeDisk
) -> None:
    fill(log, 4)
    files.kill()
    disk.flip(FIRST, SIZE + 70)
    with pytest.raises(Corrupt):
        open_log(files, "data/t-0", LIMITS)
    assert files.open_paths == []
