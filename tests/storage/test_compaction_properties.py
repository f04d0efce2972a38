"""Random logs, compacted again and again: readers see the same, and only what may go is gone."""

from dataclasses import dataclass
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from groupkeeper.protocol.record_batch import Record, decode_records, iter_batches
from tests.support.compacting import HOUR, Folder, with_limits
from tests.support.fake_files import FakeDisk, FakeFiles
from tests.support.random_log import RandomLog
from tests.support.raw_batches import COMMIT, TIME, newest_values, records_of

ROUNDS = 5


def random_folder(random: Random) -> Folder:
    folder = with_limits(
        Folder(FakeFiles(FakeDisk())),
        segment_bytes=random.choice((1_000, 5_000, 1 << 20)),
        index_interval_bytes=random.choice((0, 200, 4_096)),
    )
    folder.retention_ms = 2 * HOUR
    folder.expiration_ms = random.choice((0, 2 * HOUR, 30 * HOUR))
    return folder


def grow(folder: Folder, log: RandomLog, random: Random) -> None:
    for _ in range(random.randrange(1, 4)):
        base = folder.end
        folder.add(*log.batches(random.randrange(1, 15)), base=base, end=log.next_offset)
        if random.random() < 0.2:
            folder.forget_checksums()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_readers_see_the_same_before_and_after(seed: int) -> None:
    random = Random(seed)
    log, folder = RandomLog(random), random_folder(random)
    now_ms = TIME + HOUR
    for _ in range(ROUNDS):
        grow(folder, log, random)
        folder.dedupe_bytes = random.choice((1, 800, 2_000, 1 << 30))
        before, first_dirty = folder.contents(), folder.first_dirty
        result = folder.compact(now_ms)
        after = folder.contents()
        assert newest_values(after) == newest_values(before)
        assert first_dirty <= folder.first_dirty <= log.stable_offset
        assert result.records_kept <= result.records_read
        check_what_is_left(before, after, first_dirty, folder.first_dirty, now_ms)
        now_ms += random.choice((0, HOUR, 3 * HOUR))


@dataclass(slots=True)
class Fate:
    """A record of a log, and what is known of it."""

    record: Record
    producer_id: int | None
    """Of its transaction, if it has one."""
    horizon_ms: int | None
    outcome: bytes | None = COMMIT
    """COMMIT, ABORT, or None of an open transaction."""


def fates(data: bytes) -> list[Fate]:
    found: list[Fate] = []
    is_open: dict[int, list[Fate]] = {}
    for header in iter_batches(data):
        records = list(decode_records(data, header))
        if header.is_control:
            for fate in is_open.pop(header.producer_id, []) if records else ():
                fate.outcome = records[0].key
            continue
        producer_id = header.producer_id if header.is_transactional else None
        these = [Fate(each, producer_id, header.delete_horizon_ms) for each in records]
        if producer_id is not None:
            for fate in these:
                fate.outcome = None
            is_open.setdefault(producer_id, []).extend(these)
        found += these
    return found


def check_what_is_left(before: bytes, after: bytes, dirty: int, end: int, now_ms: int) -> None:
    """Every record is kept or gone, as the rules have it, and no record has changed."""
    left = records_of(after)
    kept = {each.offset: each for each in left}
    assert [each.offset for each in left] == sorted(kept)
    all_fates = fates(before)
    assert kept.keys() <= {fate.record.offset for fate in all_fates}
    newest: dict[bytes | None, int] = {}
    newest_in_range: dict[bytes | None, int] = {}
    for fate in all_fates:
        record = fate.record
        if fate.outcome == COMMIT:
            newest[record.key] = record.offset
            if dirty <= record.offset < end:
                newest_in_range[record.key] = record.offset
    for fate in all_fates:
        record = fate.record
        if record.offset >= end:
            must_stay, must_go = True, False
        else:
            has_passed = fate.horizon_ms is not None and fate.horizon_ms <= now_ms
            gone = record.key is None or fate.outcome not in (COMMIT, None)
            gone = gone or (record.value is None and has_passed)
            must_go = gone or record.offset < newest_in_range.get(record.key, -1)
            must_stay = not gone and record.offset >= newest.get(record.key, -1)
        assert not must_stay or kept.get(record.offset) == record, record
        assert not must_go or record.offset not in kept, record
        assert record.offset not in kept or kept[record.offset] == record


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_compacting_again_at_the_same_time_changes_nothing_more(seed: int) -> None:
    """Once markers have seen the records of their transactions go, and segments have merged."""
    random = Random(seed)
    log, folder = RandomLog(random), random_folder(random)
    for _ in range(3):
        grow(folder, log, random)
        folder.compact(TIME + HOUR)
    folder.add(*log.end_transactions(), *log.batches(3), base=folder.end, end=log.next_offset)
    seen = [folder.contents()]
    while len(seen) < 2 or seen[-1] != seen[-2]:
        folder.compact(TIME + HOUR)
        seen.append(folder.contents())
        assert len(seen) < 10
    segments, first_dirty = folder.segments, folder.first_dirty
    folder.compact(TIME + HOUR)
    assert folder.contents() == seen[-1]
    assert (folder.segments, folder.first_dirty) == (segments, first_dirty)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_little_memory_comes_to_the_same_in_more_passes(seed: int) -> None:
    random = Random(seed)
    log, folder = RandomLog(random), random_folder(random)
    for _ in range(3):
        folder.add(*log.batches(10), base=folder.end, end=log.next_offset)
    folder.add(*log.end_transactions(), base=folder.end, end=log.next_offset)
    other = with_limits(Folder(FakeFiles(FakeDisk())), segment_bytes=folder.limits.segment_bytes)
    for segment in folder.segments:
        other.add(folder.read(segment.base), base=segment.base, end=segment.end)
    other.dedupe_bytes = 700
    folder.compact(TIME + HOUR)
    passes = 0
    while other.first_dirty < other.end:
        before = other.first_dirty
        other.compact(TIME + HOUR)
        assert other.first_dirty > before
        passes += 1
    assert passes > 1
    assert records_of(other.contents()) == records_of(folder.contents())
