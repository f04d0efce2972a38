"""Reading a log for replay: what is known to be sound is not checked batch by batch."""

import pytest

from groupkeeper.storage.errors import Corrupt
from groupkeeper.storage.log import chunks
from groupkeeper.storage.log.limits import Limits
from groupkeeper.storage.log.log import Log
from groupkeeper.storage.recovery.opening import open_log
from tests.support.batches import batch
from tests.support.fake_files import FakeDisk, FakeFiles
from tests.support.stored import cut_file, segment_paths, values_in

LIMITS = Limits(segment_bytes=2_000, index_interval_bytes=300)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK", 300)


def value_of(number: int) -> bytes:
    """Some have room in a chunk with others, some are larger than a chunk."""
    return b"%d " % number * (1 + number % 7 * 20)


def filled(disk: FakeDisk, count: int) -> Log:
    """A log that was closed and opened again."""
    log = open_log(FakeFiles(disk), "data/t-0", LIMITS)
    for number in range(count):
        log.append(batch(number, value_of(number)))
    log.close()
    return open_log(FakeFiles(disk), "data/t-0", LIMITS)


def test_chunks_are_whole_batches_in_order(disk: FakeDisk) -> None:
    log = filled(disk, 60)
    expected = [value_of(number) for number in range(60)]
    assert values_in(log) == expected
    log.append(batch(60, b"more"))
    assert values_in(log) == [*expected, b"more"]
    sizes = [len(chunk) for chunk in log.batches()]
    assert len(sizes) > 20
    assert sum(sizes) == log.size


def test_no_batch_of_a_sound_log_is_checked_on_its_own(
    disk: FakeDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filled(disk, 60)
    expected = values_in(log)

    def none_left(window: object, position: int, next_offset: int) -> list[object]:
        return []

    monkeypatch.setattr(chunks, "valid_batches", none_left)
    assert values_in(log) == expected


@pytest.mark.parametrize("segment", [0, -1])
def test_a_file_that_is_cut_after_it_was_compared_is_damaged(disk: FakeDisk, segment: int) -> None:
    log = filled(disk, 60)
    expected = values_in(log)
    path = segment_paths(disk, "t-0")[segment]
    cut_file(disk, path, len(disk.contents(path)) - 10)
    with pytest.raises(Corrupt, match=f"{path}: the batch at byte [0-9]+ is damaged: restore it"):
        values_in(log)
    assert len(expected) == 60
