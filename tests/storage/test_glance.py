"""The cheap look at a log that is not open says what opening it would say."""

from random import Random

import pytest

from groupkeeper.storage.log.glance import glance, time_at
from groupkeeper.storage.log.limits import Limits
from groupkeeper.storage.log.log import Log
from groupkeeper.storage.log.start import write_start
from groupkeeper.storage.recovery.opening import open_log
from tests.support.batches import TIME, batch
from tests.support.fake_files import CountingFiles, FakeDisk, FakeFiles

FOLDER = "data/t-0"


def filled(files: FakeFiles, records: int, size: int = 100, segment_bytes: int = 1 << 30) -> Log:
    """A batch of two records for each number, a second apart."""
    log = open_log(files, FOLDER, Limits(segment_bytes=segment_bytes))
    for number in range(records):
        log.append(batch(2 * number, bytes(size), b"", time=TIME + 1000 * number))
    return log


@pytest.fixture
def counting(disk: FakeDisk) -> CountingFiles:
    files = CountingFiles(disk)
    files.make_folder("data")
    return files


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("segment_bytes", [1 << 30, 3_000])
def test_a_look_knows_start_end_and_size(
    counting: CountingFiles, *, closed: bool, segment_bytes: int
) -> None:
    """Not closed: as after a kill, without the index of the last segment."""
    log = filled(counting, 100, segment_bytes=segment_bytes)
    size = log.size
    if closed:
        log.close()
    seen = glance(counting, FOLDER)
    assert (seen.start_offset, seen.end_offset, seen.size) == (0, 200, size)


def test_a_missing_folder_is_an_empty_log(counting: CountingFiles) -> None:
    assert glance(counting, FOLDER)[:3] == (0, 0, 0)
    assert time_at(counting, FOLDER, 0) is None


def test_a_closed_log_costs_one_interval_of_its_index(counting: CountingFiles) -> None:
    filled(counting, 1_000, size=10_000).close()
    counting.bytes_read = 0
    assert glance(counting, FOLDER).end_offset == 2_000
    assert counting.bytes_read < 40_000


def test_what_has_not_changed_is_not_read_again(counting: CountingFiles) -> None:
    log = filled(counting, 10)
    seen = glance(counting, FOLDER)
    counting.bytes_read = 0
    assert glance(counting, FOLDER, seen) is seen
    assert counting.bytes_read == 0
    log.append(batch(20, b"v"))
    assert glance(counting, FOLDER, seen).end_offset == 21


def test_deleted_records_are_before_the_start(counting: CountingFiles) -> None:
    log = filled(counting, 100, segment_bytes=3_000)
    seen = glance(counting, FOLDER)
    write_start(counting, FOLDER, 151)
    for segment in log.begin_at(151):
        segment.remove()
    again = glance(counting, FOLDER, seen)
    assert (again.start_offset, again.end_offset) == (151, 200)
    assert again.size == log.size


def test_a_batch_that_is_cut_off_does_not_count(counting: CountingFiles) -> None:
    filled(counting, 10)
    handle = counting.open(f"{FOLDER}/{0:020d}.log")
    counting.truncate(handle, counting.size(handle) - 1)
    assert glance(counting, FOLDER).end_offset == 18


@pytest.mark.parametrize("segment_bytes", [1 << 30, 3_000])
def test_the_time_at_an_offset_is_that_of_its_batch(
    counting: CountingFiles, segment_bytes: int
) -> None:
    log = filled(counting, 100, segment_bytes=segment_bytes)
    for closed in (False, True):
        if closed:
            log.close()
        for offset in Random(7).sample(range(200), 30):
            expected = TIME + 1000 * (offset // 2)
            assert time_at(counting, FOLDER, offset) == pytest.approx(expected, abs=1)
            if not closed:
                assert log.timestamp_at(offset) == pytest.approx(expected, abs=1)
        assert time_at(counting, FOLDER, 200) is None
    assert open_log(counting, FOLDER, Limits()).timestamp_at(200) is None


def test_a_batch_without_a_timestamp_has_no_time(counting: CountingFiles) -> None:
    log = open_log(counting, FOLDER, Limits())
    log.append(batch(0, b"v", time=-1))
    assert time_at(counting, FOLDER, 0) is None
    assert log.timestamp_at(0) is None
