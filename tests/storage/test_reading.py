"""Lookups by timestamp: what is found, and how much is read for it."""

from random import Random

import pytest

from groupkeeper.storage.log.limits import Limits
from groupkeeper.storage.log.log import Log
from groupkeeper.storage.log.times import BATCHES
from groupkeeper.storage.recovery.opening import open_log
from tests.support.batches import TIME, batch
from tests.support.fake_files import CountingFiles, FakeDisk, FakeFiles
from tests.support.log_times import offset_for_timestamp

FOLDER = "data/t-0"


def filled(files: FakeFiles, times: list[int], size: int, segment_bytes: int = 1 << 30) -> Log:
    """One record of so many bytes for each time."""
    log = open_log(files, FOLDER, Limits(segment_bytes=segment_bytes))
    for offset, time in enumerate(times):
        log.append(batch(offset, bytes(size), time=TIME + time))
    return log


@pytest.fixture
def counting(disk: FakeDisk) -> CountingFiles:
    return CountingFiles(disk)


def test_what_is_deleted_is_not_read_again(counting: CountingFiles) -> None:
    log = filled(counting, list(range(500)), 10_000)
    log.begin_at(495)
    assert offset_for_timestamp(log, 0) == (495, TIME + 495)
    assert counting.bytes_read < 100_000


def test_a_long_run_of_older_records_is_not_read(counting: CountingFiles) -> None:
    log = filled(counting, [100, *[50] * 500, 200, 50, 50], 10_000)
    assert offset_for_timestamp(log, TIME + 150) == (501, TIME + 200)
    assert counting.bytes_read < 100_000


def test_young_records_at_the_end_are_not_searched_from_the_start(counting: CountingFiles) -> None:
    log = filled(counting, [*[50] * 500, 200], 10_000)
    assert offset_for_timestamp(log, TIME + 150) == (500, TIME + 200)
    assert counting.bytes_read < 100_000


@pytest.mark.parametrize("last", [50, 200])
def test_younger_records_that_are_deleted_mislead_no_lookup(
    counting: CountingFiles, last: int
) -> None:
    log = filled(counting, [100, *[50] * 500, last], 10_000)
    log.begin_at(1)
    found = None if last < 80 else (501, TIME + last)
    assert offset_for_timestamp(log, TIME + 80) == found
    assert offset_for_timestamp(log, TIME + 40) == (1, TIME + 50)
    log.append(batch(502, bytes(10), time=TIME + 300))
    assert offset_for_timestamp(log, TIME + 250) == (502, TIME + 300)


@pytest.mark.parametrize("seed", range(20))
def test_the_first_that_is_not_older_is_found_in_any_disorder(disk: FakeDisk, seed: int) -> None:
    random = Random(seed)
    times = [random.randrange(60) + offset // 4 for offset in range(120)]
    size = random.choice([10, 700, 3000, 40_000])
    log = filled(FakeFiles(disk), times, size, segment_bytes=random.choice([30_000, 1 << 30]))
    again = None
    for start in (0, 1, 50, 119):
        log.begin_at(start)
        again = again or open_log(FakeFiles(disk), FOLDER, Limits(segment_bytes=30_000))
        again.begin_at(start)
        for time in range(-1, 95):
            found = (at for at in range(start, len(times)) if times[at] >= time)
            first = next(found, None)
            expected = None if first is None else (first, TIME + times[first])
            assert offset_for_timestamp(log, TIME + time) == expected
            assert offset_for_timestamp(again, TIME + time) == expected


def test_promises_are_looked_for_in_pieces(disk: FakeDisk) -> None:
    log = filled(FakeFiles(disk), [50] * 1_000, 10, segment_bytes=1 << 30)
    promises = list(log.promising(TIME + 50))
    assert promises.count(None) == 1_000 // BATCHES
