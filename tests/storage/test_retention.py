"""What a log keeps under limits of age and size, and the look at one that is not open."""

from random import Random

import pytest

from groupkeeper.storage.log.limits import Limits
from groupkeeper.storage.log.log import Log
from groupkeeper.storage.log.retention import RetentionLimits, expired_before, may_delete
from groupkeeper.storage.recovery.opening import open_log
from tests.support.batches import TIME, batch
from tests.support.fake_files import CountingFiles, FakeDisk, FakeFiles

FOLDER = "data/t-0"
SIZE = len(batch(0, b"v"))
NEVER = -1


def opened(disk: FakeDisk, files: FakeFiles | None = None) -> Log:
    """Each segment has two batches."""
    sizes = Limits(segment_bytes=2 * SIZE, segment_ms=10**18)
    return open_log(files or FakeFiles(disk), FOLDER, sizes)


@pytest.fixture
def disk(disk: FakeDisk) -> FakeDisk:
    FakeFiles(disk).make_folder("data")
    disk.wall_ms = lambda: TIME
    return disk


def filled(disk: FakeDisk, *times: int) -> Log:
    """A log with a batch of each of these times after TIME; None: without a time."""
    log = opened(disk)
    for time in times:
        log.append(batch(log.next_offset, b"v", time=TIME + time if time != NEVER else -1))
    return log


def kept_from(log: Log, limits: RetentionLimits) -> int:
    """Where the log begins without what is not kept."""
    start = expired_before(log, limits)
    assert start is None or start > log.start_offset
    return log.start_offset if start is None else start


def limits(now: int = 0, *, ms: int = NEVER, size: int = NEVER) -> RetentionLimits:
    """`now` after TIME."""
    return RetentionLimits(TIME + now, ms, size)


@pytest.mark.parametrize(
    ("server_times", "now", "start"),
    [(False, 1_000, 0), (True, 101, 0), (True, 103, 4), (True, 1_000, 6)],
)
def test_a_time_in_the_future_holds_nothing_up_where_the_server_made_it(
    disk: FakeDisk, server_times: bool, now: int, start: int
) -> None:
    log = filled(disk, 10**9, 10**9, 1, 2, 3, 4)
    some = RetentionLimits(TIME + now, 100, NEVER, server_times)
    assert kept_from(log, some) == start


@pytest.mark.parametrize("now", [103, 150])
def test_a_time_in_the_past_takes_nothing_with_it(disk: FakeDisk, now: int) -> None:
    log = filled(disk, 100, 101, -(10**9), -(10**9), 102, 103)
    assert kept_from(log, RetentionLimits(TIME + now, 100, NEVER, True)) == 0


@pytest.mark.parametrize(("server_times", "count"), [(False, 2), (True, 3)])
def test_a_segment_with_a_time_in_the_future_ends_where_the_server_made_it(
    disk: FakeDisk, server_times: bool, count: int
) -> None:
    log = open_log(FakeFiles(disk), FOLDER, Limits(segment_ms=100, server_times=server_times))
    for time in (0, 10**9, 1, 2):
        log.append(batch(log.next_offset, b"v", time=TIME + time))
    assert len(log.segments) == count


def test_without_limits_all_is_kept(disk: FakeDisk) -> None:
    log = filled(disk, *range(7))
    assert kept_from(log, limits(10**12)) == 0


@pytest.mark.parametrize(
    ("now", "start"), [(0, 0), (101, 0), (102, 2), (103, 2), (104, 4), (106, 6), (107, 7)]
)
def test_a_segment_goes_when_its_youngest_batch_is_too_old(
    disk: FakeDisk, now: int, start: int
) -> None:
    assert kept_from(filled(disk, *range(7)), limits(now, ms=100)) == start


def test_a_young_segment_keeps_older_ones_behind_it(disk: FakeDisk) -> None:
    log = filled(disk, 5, 0, 90, 3, 1, 2, 4)
    assert kept_from(log, limits(106, ms=100)) == 2
    assert kept_from(log, limits(190, ms=100)) == 2
    assert kept_from(log, limits(191, ms=100)) == 7


def test_a_timestamp_in_the_future_keeps_a_segment(disk: FakeDisk) -> None:
    log = filled(disk, 0, 10**15, 1)
    assert kept_from(log, limits(10**9, ms=0)) == 0


def test_a_segment_without_timestamps_is_as_old_as_its_file(disk: FakeDisk) -> None:
    disk.wall_ms = lambda: TIME + 50
    log = filled(disk, NEVER, NEVER, NEVER)
    assert kept_from(log, limits(150, ms=100)) == 0
    assert kept_from(log, limits(151, ms=100)) == 3
    log.close()
    assert not may_delete(FakeFiles(disk), FOLDER, limits(150, ms=100))
    assert may_delete(FakeFiles(disk), FOLDER, limits(151, ms=100))


@pytest.mark.parametrize(
    ("batches", "start"),
    [(8, 0), (7, 0), (5.1, 0), (5, 2), (3.1, 2), (3, 4), (1.1, 4), (1, 6), (0.1, 6), (0, 7)],
)
def test_the_oldest_goes_while_the_others_have_enough(
    disk: FakeDisk, batches: float, start: int
) -> None:
    assert kept_from(filled(disk, *range(7)), limits(size=int(batches * SIZE))) == start


def test_either_limit_deletes(disk: FakeDisk) -> None:
    log = filled(disk, *range(7))
    assert kept_from(log, limits(102, ms=100, size=7 * SIZE)) == 2
    assert kept_from(log, limits(102, ms=100, size=3 * SIZE)) == 4
    assert kept_from(log, limits(104, ms=100, size=5 * SIZE)) == 4


def test_an_empty_last_segment_is_kept(disk: FakeDisk) -> None:
    log = filled(disk, 0, 1)
    log.roll()
    assert kept_from(log, limits(10**9, ms=0, size=0)) == 2
    log.delete_before(2)
    assert kept_from(log, limits(10**9, ms=0, size=0)) == log.start_offset == 2
    log.close()
    assert not may_delete(FakeFiles(disk), FOLDER, limits(10**9, ms=0, size=0))


def test_a_log_without_records_keeps_its_start(disk: FakeDisk) -> None:
    log = opened(disk)
    assert kept_from(log, limits(10**9, ms=0, size=0)) == 0
    assert not may_delete(FakeFiles(disk), FOLDER, limits(10**9, ms=0, size=0))


def test_a_start_inside_a_segment_is_not_taken_back(disk: FakeDisk) -> None:
    log = filled(disk, *range(7))
    log.delete_before(3)
    assert kept_from(log, limits(101, ms=100)) == 3
    assert kept_from(log, limits(104, ms=100)) == 4


def test_a_look_at_a_closed_log_agrees_with_the_open_one(disk: FakeDisk) -> None:
    random = Random(7)
    log = filled(disk, *(random.randrange(100) for _ in range(31)))
    for _ in range(15):
        starts = []
        for _ in range(30):
            some = limits(random.randrange(200), ms=random.choice([NEVER, 0, 50, 100]))
            some = some._replace(retention_bytes=random.choice([NEVER, 0, random.randrange(4_000)]))
            starts.append((some, kept_from(log, some), log.start_offset))
        log.close()
        for some, kept, start in starts:
            assert may_delete(FakeFiles(disk), FOLDER, some) == (kept > start), some
        log = opened(disk)
        log.delete_before(min(log.start_offset + 2, log.next_offset))
    assert log.start_offset > 25


def test_a_look_reads_one_entry_however_long_the_log_is(disk: FakeDisk) -> None:
    filled(disk, *range(2_000)).close()
    files = CountingFiles(disk)
    assert may_delete(files, FOLDER, limits(10**6, ms=1))
    assert files.bytes_read == 12
    assert files.open_paths == []


def test_after_a_crash_the_last_write_counts(disk: FakeDisk) -> None:
    disk.wall_ms = lambda: TIME + 70
    log = filled(disk, 0, 1)
    assert kept_from(log, limits(102, ms=100)) == 2
    files = FakeFiles(disk)
    assert not may_delete(files, FOLDER, limits(170, ms=100)), "it has no time index yet"
    assert may_delete(files, FOLDER, limits(171, ms=100))


def test_what_is_kept_is_known_without_reading(disk: FakeDisk) -> None:
    filled(disk, *range(2_000)).close()
    files = CountingFiles(disk)
    log = opened(disk, files)
    files.bytes_read = 0
    assert kept_from(log, limits(1_000, ms=100)) == 900
    assert len(log.begin_at(900)) == 450
    assert files.bytes_read == 0, "nothing of the first segment that is kept is deleted"
    assert log.start_offset == 900
