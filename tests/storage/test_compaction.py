"""What a compaction keeps, by Kafka's rules; compared with its cleaner in tests/kafka_cleaner."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupkeeper.protocol.record_batch import BatchHeader, read_header
from groupkeeper.storage.compaction.key_map import KEY_BYTES
from groupkeeper.storage.log.segment import segment_path
from tests.kafka_cleaner import fixture
from tests.kafka_cleaner.rounds import compare
from tests.protocol.test_record_batch import EMPTY, WITH_HORIZON
from tests.support.compacting import DAY, HOUR, Folder, with_limits
from tests.support.fake_files import FakeDisk, FakeFiles
from tests.support.raw_batches import (
    ABORT,
    COMMIT,
    TIME,
    Kind,
    Written,
    headers_of,
    marker,
    newest_values,
    plain,
    raw_batch,
    records_of,
    transactional,
)

NOW = TIME + HOUR
A, B, C, D = b"a", b"b", b"c", b"d"
PRODUCER, OTHER = 4000, 4001


@pytest.fixture
def folder(files: FakeFiles) -> Folder:
    return Folder(files)


def offsets(folder: Folder) -> list[int]:
    return [record.offset for record in records_of(folder.contents())]


def bases(folder: Folder) -> list[int]:
    """Of all batches, with records or without."""
    return [header.base_offset for header in headers_of(folder.contents())]


def header_at(folder: Folder, base: int) -> BatchHeader:
    [found] = [each for each in headers_of(folder.contents()) if each.base_offset == base]
    return found


def batch_at(folder: Folder, base: int) -> bytes:
    header = header_at(folder, base)
    return folder.contents()[header.position : header.end]


# -- which records are kept ------------------------------------------------------------------------


def test_of_each_key_the_newest_record_is_kept(folder: Folder) -> None:
    folder.add(plain(0, (A, b"1"), (B, b"1"), (A, b"2")), plain(3, (B, b"2")), plain(4, (A, b"3")))
    folder.compact(NOW)
    assert offsets(folder) == [3, 4]


def test_records_are_superseded_across_segments_and_batches(folder: Folder) -> None:
    folder.add(plain(0, (A, b"1"), (B, b"1")))
    folder.add(plain(2, (C, b"1")), plain(3, (A, b"2")))
    result = folder.compact(NOW)
    assert offsets(folder) == [1, 2, 3]
    assert (result.records_read, result.records_kept) == (4, 3)


def test_a_record_that_is_alone_in_its_batch_is_superseded_by_the_next_one(folder: Folder) -> None:
    folder.add(plain(0, (A, b"1")), plain(1, (A, b"2")), plain(2, (B, b"1")))
    folder.compact(NOW)
    assert offsets(folder) == [1, 2]


def test_records_that_were_compacted_before_are_superseded_by_newer_ones(folder: Folder) -> None:
    folder.add(plain(0, (A, b"1"), (B, b"1")))
    assert folder.compact(NOW).first_dirty == 2
    folder.add(plain(2, (A, b"2")))
    folder.compact(NOW)
    assert offsets(folder) == [1, 2]


def test_records_without_a_key_go(folder: Folder) -> None:
    folder.add(plain(0, (None, b"1"), (A, b"1")), plain(2, (None, b"2")), plain(3, (B, b"1")))
    folder.compact(NOW)
    assert offsets(folder) == [1, 3]


@pytest.mark.parametrize("kind", [b"\x00\x63", b"\xff\xff", b"", b"\x00"])
def test_records_of_unknown_types_are_kept_by_key(folder: Folder, kind: bytes) -> None:
    folder.add(plain(0, (kind + A, b"1"), (kind + B, b"1")), plain(2, (kind + A, b"2")))
    folder.compact(NOW)
    assert offsets(folder) == [1, 2]


def test_an_empty_key_is_a_key(folder: Folder) -> None:
    folder.add(plain(0, (b"", b"1")), plain(1, (b"", b"")), plain(2, (A, b"1")))
    folder.compact(NOW)
    assert offsets(folder) == [1, 2]


# -- tombstones ------------------------------------------------------------------------------------


def test_a_tombstone_gets_the_delete_horizon_that_kafka_gives_it(folder: Folder) -> None:
    group = b"\x00\x02\x00\x02g1"
    records = [Written(A), Written(group, None, TIME + 7), Written(B)]
    newer = [Written(A), Written(B)]
    folder.add(plain(0, (C, b"")), raw_batch(8, records, Kind(leader_epoch=5)))
    folder.add(raw_batch(11, newer, Kind(leader_epoch=5)))
    folder.compact(TIME + 1_000)
    assert batch_at(folder, 8) == WITH_HORIZON


def test_a_tombstone_goes_when_its_horizon_has_come(folder: Folder) -> None:
    folder.add(plain(0, (A, b"1")), plain(1, (A, None)), plain(2, (B, b"1")))
    folder.compact(NOW)
    assert offsets(folder) == [1, 2]
    for now in (NOW + 1, NOW + DAY - 1):
        folder.compact(now)
        assert header_at(folder, 1).delete_horizon_ms == NOW + DAY  # a later pass does not move it
    folder.compact(NOW + DAY)
    assert offsets(folder) == [2]


def test_a_tombstone_goes_with_other_records_aflush_it(folder: Folder) -> None:
    folder.add(plain(0, (A, b"1"), (B, None), (C, b"1")))
    folder.compact(NOW)
    before = records_of(folder.contents())
    folder.compact(NOW + DAY)
    assert records_of(folder.contents()) == [before[0], before[2]]


def test_a_superseded_tombstone_goes_at_once(folder: Folder) -> None:
    folder.add(plain(0, (A, None)), plain(1, (A, b"1")), plain(2, (A, None)), plain(3, (B, b"1")))
    folder.compact(NOW)
    assert offsets(folder) == [2, 3]


def test_a_retention_without_end_keeps_tombstones(folder: Folder) -> None:
    folder.retention_ms = 2**63 - 1
    folder.add(plain(0, (A, None)), plain(1, (B, b"1")))
    folder.compact(NOW)
    assert header_at(folder, 0).delete_horizon_ms == 2**63 - 1
    assert [each.timestamp_ms for each in records_of(folder.contents())] == [TIME, TIME]


def test_no_retention_keeps_a_tombstone_for_one_pass(folder: Folder) -> None:
    folder.retention_ms = 0
    folder.add(plain(0, (A, None)), plain(1, (B, b"1")))
    folder.compact(NOW)
    assert offsets(folder) == [0, 1]
    folder.compact(NOW)
    assert offsets(folder) == [1]


# -- bytes -----------------------------------------------------------------------------------------


def test_batches_that_stay_whole_are_copied(folder: Folder) -> None:
    compressed = raw_batch(3, [Written(C, headers=[("h", b"v")]), Written(D)], Kind(codec=4))
    folder.add(plain(0, (A, b"1"), (B, b"1")), plain(2, (A, b"1")), compressed, plain(5, (B, b"")))
    folder.compact(NOW)
    assert folder.contents() == plain(2, (A, b"1")) + compressed + plain(5, (B, b""))


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("append_time", [None, TIME + 99])
def test_a_changed_batch_keeps_all_but_the_records_that_went(
    folder: Folder, codec: int, append_time: int | None
) -> None:
    kind = Kind(
        codec=codec,
        producer_id=PRODUCER,
        producer_epoch=2,
        sequence=17,
        append_time=append_time,
        leader_epoch=6,
        trailing_gap=1,
    )
    written = [
        Written(A, b"old", TIME + 5),
        Written(B, b"b", TIME + 3, [("trace", b"id"), ("none", None)], gap=2),
        Written(A, b"new", TIME + 1),
    ]
    batch = raw_batch(10, written, kind)
    folder.add(batch, raw_batch(17, [Written(C)], Kind(leader_epoch=6)))
    folder.compact(NOW)
    before, after = read_header(batch), header_at(folder, 10)
    assert records_of(batch_at(folder, 10)) == records_of(batch)[1:]
    assert after.max_timestamp == (TIME + 3 if append_time is None else append_time)
    changed = {"base_timestamp", "max_timestamp", "record_count", "size", "crc", "position"}
    for name in set(BatchHeader.__slots__) - changed:
        assert getattr(after, name) == getattr(before, name), name


# -- empty batches ---------------------------------------------------------------------------------


def test_the_last_batch_of_a_segment_is_kept_without_its_records(folder: Folder) -> None:
    with_limits(folder, segment_bytes=200)
    records = [Written(A, time=TIME + 7), Written(B, time=TIME + 8), Written(A, time=TIME + 9)]
    folder.add(plain(0, (C, b"1")), raw_batch(8, records, Kind(leader_epoch=5)))
    folder.add(raw_batch(11, [Written(A), Written(B)], Kind(leader_epoch=5)))
    folder.compact(NOW)
    assert [each.end for each in folder.segments] == [11, 13]
    assert batch_at(folder, 8) == EMPTY


def test_an_empty_batch_in_the_middle_of_a_segment_goes(folder: Folder) -> None:
    with_limits(folder, segment_bytes=300)
    folder.add(*(plain(offset, (A, b"1")) for offset in range(4)))
    folder.add(plain(4, (A, b"2")), plain(5, (B, b"1")))
    folder.compact(NOW)
    assert bases(folder) == [3, 4, 5]
    folder.compact(NOW)
    assert bases(folder) == [4, 5]


def test_the_last_batch_of_a_producer_is_kept_without_its_records(folder: Folder) -> None:
    def data(base: int, sequence: int) -> bytes:
        kind = Kind(producer_id=PRODUCER, producer_epoch=1, sequence=sequence)
        return raw_batch(base, [Written(A, time=TIME)], kind)

    folder.add(data(0, 5), data(1, 6), plain(2, (A, b"2")))
    folder.compact(TIME + DAY - 1)
    assert bases(folder) == [1, 2]
    kept = header_at(folder, 1)
    assert (kept.record_count, kept.base_sequence, kept.producer_epoch) == (0, 6, 1)
    folder.compact(TIME + DAY)  # by now the producer has expired
    assert bases(folder) == [2]


def test_a_producer_that_writes_on_keeps_its_newest_batch_only(folder: Folder) -> None:
    def data(base: int) -> bytes:
        return raw_batch(
            base, [Written(A)], Kind(producer_id=PRODUCER, producer_epoch=1, sequence=base)
        )

    folder.add(data(0), plain(1, (A, b"1")))
    folder.compact(NOW)
    assert bases(folder) == [0, 1]
    folder.add(data(2), plain(3, (A, b"2")))
    folder.compact(NOW)
    assert bases(folder) == [2, 3]


def test_the_epoch_that_a_marker_began_is_kept(folder: Folder) -> None:
    """A newer coordinator raises the epoch of a producer with each marker (KIP-890)."""
    folder.retention_ms = 0
    folder.add(transactional(0, PRODUCER, (A, b"1")), marker(1, PRODUCER, COMMIT, producer_epoch=1))
    folder.add(plain(2, (A, b"2")))
    for _ in range(4):
        folder.compact(NOW)
    kept = header_at(folder, 1)
    assert (bases(folder), kept.producer_epoch, kept.record_count) == ([1, 2], 1, 0)
    folder.compact(TIME + DAY)
    assert bases(folder) == [2]


def test_only_the_newest_epoch_of_a_producer_is_kept(folder: Folder) -> None:
    folder.retention_ms = 0
    markers = [marker(base, PRODUCER, ABORT, producer_epoch=base) for base in range(3)]
    folder.add(*markers, plain(3, (A, b"1")))
    for _ in range(3):
        folder.compact(NOW)
    assert bases(folder) == [2, 3]


# -- transactions ----------------------------------------------------------------------------------


def test_a_committed_record_supersedes_from_its_own_offset_on(folder: Folder) -> None:
    folder.add(
        plain(0, (A, b"1"), (B, b"1")),
        transactional(2, PRODUCER, (A, b"2"), (B, b"2")),
        plain(4, (B, b"3")),
        marker(5, PRODUCER, COMMIT),
    )
    folder.compact(NOW)
    assert offsets(folder) == [2, 4]


def test_an_aborted_record_goes_and_supersedes_nothing(folder: Folder) -> None:
    folder.add(
        plain(0, (A, b"1")),
        transactional(1, PRODUCER, (A, b"2"), (B, b"2")),
        marker(3, PRODUCER, ABORT),
        plain(4, (C, b"1")),
    )
    folder.compact(NOW)
    assert offsets(folder) == [0, 4]


def test_transactions_of_one_producer_do_not_mix(folder: Folder) -> None:
    folder.add(
        *(transactional(0, PRODUCER, (A, b"1")), marker(1, PRODUCER, COMMIT)),
        *(transactional(2, PRODUCER, (A, b"2")), transactional(3, OTHER, (B, b"1"))),
        *(marker(4, PRODUCER, ABORT), transactional(5, PRODUCER, (C, b"1"))),
        *(marker(6, OTHER, ABORT), marker(7, PRODUCER, COMMIT)),
    )
    folder.compact(NOW)
    assert offsets(folder) == [0, 5]


@pytest.mark.parametrize("key", [COMMIT, ABORT])
def test_a_marker_outlives_the_records_of_its_transaction(folder: Folder, key: bytes) -> None:
    folder.expiration_ms = 0
    folder.add(transactional(0, PRODUCER, (A, b"1")), marker(1, PRODUCER, key), plain(2, (A, b"")))
    folder.compact(NOW)
    assert (bases(folder), header_at(folder, 1).delete_horizon_ms) == ([1, 2], None)
    folder.compact(NOW + HOUR)
    assert header_at(folder, 1).delete_horizon_ms == NOW + HOUR + DAY
    folder.compact(NOW + HOUR + DAY - 1)
    assert bases(folder) == [1, 2]
    folder.compact(NOW + HOUR + DAY)
    assert bases(folder) == [2]


def test_a_marker_stays_as_long_as_a_record_of_its_transaction(folder: Folder) -> None:
    data = transactional(0, PRODUCER, (A, b"1"))
    folder.add(data, marker(1, PRODUCER, COMMIT), plain(2, (B, b"")))
    before = folder.contents()
    for days in range(5):
        folder.compact(NOW + days * DAY)
        assert folder.contents() == before


def test_a_marker_of_a_transaction_without_records_gets_its_horizon_at_once(folder: Folder) -> None:
    folder.add(marker(0, PRODUCER, ABORT), plain(1, (A, b"1")))
    folder.compact(NOW)
    assert header_at(folder, 0).delete_horizon_ms == NOW + DAY


def test_a_marker_does_not_go_before_the_records_of_its_transaction(folder: Folder) -> None:
    """Even if its horizon has come: without it, the next marker of the producer would decide."""
    other = Folder(FakeFiles(FakeDisk()))
    other.add(marker(1, PRODUCER, COMMIT), base=1)
    other.compact(NOW)
    folder.add(transactional(0, PRODUCER, (A, b"1")), other.contents(), plain(2, (B, b"1")))
    before = folder.contents()
    folder.compact(NOW + 2 * DAY)
    assert folder.contents() == before


def test_control_records_of_other_kinds_stay(folder: Folder) -> None:
    folder.expiration_ms = 0
    other = marker(0, PRODUCER, b"\x00\x00\x00\x02")
    folder.add(other, plain(1, (A, b"1")))
    for days in range(4):
        folder.compact(NOW + days * DAY)
    assert folder.contents() == other + plain(1, (A, b"1"))


def test_control_records_of_other_kinds_do_not_end_a_transaction(folder: Folder) -> None:
    folder.add(
        *(transactional(0, PRODUCER, (A, b"1")), marker(1, PRODUCER, b"\x00\x00\x00\x02")),
        *(marker(2, PRODUCER, COMMIT), plain(3, (B, b"1"))),
    )
    folder.compact(NOW)
    assert offsets(folder) == [0, 3]


def test_an_open_transaction_ends_the_range(folder: Folder) -> None:
    folder.add(plain(0, (A, b"1")), plain(1, (A, b"2")), transactional(2, PRODUCER, (B, b"1")))
    folder.add(plain(3, (A, b"3")), plain(4, (A, b"4")))
    later = folder.segments[1]
    result = folder.compact(NOW)
    assert (result.first_dirty, result.blocked_by) == (2, PRODUCER)
    assert offsets(folder) == [2, 3, 4]
    assert [segment.sources for segment in result.segments] == [(0,)]
    assert folder.segments[1] == later
    folder.add(marker(5, PRODUCER, COMMIT))
    result = folder.compact(NOW)
    assert (result.first_dirty, result.blocked_by) == (6, -1)
    assert offsets(folder) == [2, 4]


def test_nothing_is_mapped_behind_an_open_transaction_at_the_start(folder: Folder) -> None:
    folder.add(transactional(0, PRODUCER, (A, b"1")), plain(1, (A, b"2")))
    before = folder.contents()
    result = folder.compact(NOW)
    assert (result.first_dirty, result.segments, result.blocked_by) == (0, (), PRODUCER)
    assert folder.contents() == before


def test_what_ends_an_open_transaction_later_decides_then(folder: Folder) -> None:
    folder.add(plain(0, (A, b"1")), transactional(1, PRODUCER, (A, b"2")), plain(2, (B, b"1")))
    folder.compact(NOW)
    folder.add(marker(3, PRODUCER, ABORT), plain(4, (C, b"1")))
    folder.compact(NOW)
    assert newest_values(folder.contents()) == {A: b"1", B: b"1", C: b"1"}
    assert offsets(folder) == [0, 2, 4]


# -- memory ----------------------------------------------------------------------------------------


def room_for(keys: int) -> int:
    """Bytes for so many keys of one byte."""
    return keys * (KEY_BYTES + 1)


def test_the_range_ends_at_the_batch_whose_keys_do_not_fit(folder: Folder) -> None:
    folder.dedupe_bytes = room_for(2)
    folder.add(*(plain(number, (key, b"1")) for number, key in enumerate((A, B, A, C, A, B))))
    assert folder.compact(NOW).first_dirty == 3
    assert offsets(folder) == [1, 2, 3, 4, 5]
    assert folder.compact(NOW).first_dirty == 5
    assert folder.compact(NOW).first_dirty == 6
    assert offsets(folder) == [3, 4, 5]


def test_a_batch_counts_with_all_of_its_keys(folder: Folder) -> None:
    folder.dedupe_bytes = room_for(2)
    folder.add(plain(0, (A, b"1")), plain(1, (A, b"2"), (B, b"1"), (C, b"1")))
    assert folder.compact(NOW).first_dirty == 1
    assert offsets(folder) == [0, 1, 2, 3]


def test_a_range_has_one_batch_at_least(folder: Folder) -> None:
    folder.dedupe_bytes = 1
    folder.add(plain(0, (A, b"1"), (A, b"2"), (B, b"1"), (C, b"1")), plain(4, (D, b""), (A, b"3")))
    assert folder.compact(NOW).first_dirty == 4
    assert offsets(folder) == [1, 2, 3, 4, 5]
    assert folder.compact(NOW).first_dirty == 6
    assert offsets(folder) == [2, 3, 4, 5]


def test_compacted_records_take_no_memory(folder: Folder) -> None:
    folder.add(*(plain(number, (b"%d" % number, b"1")) for number in range(50)))
    folder.compact(NOW)
    folder.dedupe_bytes = room_for(2)
    folder.add(plain(50, (b"0", b"2")))
    assert folder.compact(NOW).first_dirty == 51
    assert offsets(folder) == list(range(1, 51))


def test_a_committed_key_counts_once(folder: Folder) -> None:
    folder.dedupe_bytes = room_for(2)
    for base in range(0, 20, 2):
        folder.add(transactional(base, PRODUCER, (A, b"1")), marker(base + 1, PRODUCER, COMMIT))
    assert folder.compact(NOW).first_dirty == 20


def test_an_aborted_key_does_not_count(folder: Folder) -> None:
    folder.dedupe_bytes = room_for(2)
    for base in range(0, 20, 2):
        folder.add(transactional(base, PRODUCER, (b"%d" % (base // 2), b"1")))
        folder.add(marker(base + 1, PRODUCER, ABORT))
    assert folder.compact(NOW).first_dirty == 20
    assert offsets(folder) == []


def test_the_range_ends_before_a_segment_whose_first_batch_does_not_fit(folder: Folder) -> None:
    with_limits(folder, segment_bytes=1)
    folder.dedupe_bytes = room_for(1)
    folder.add(plain(0, (A, b"1")))
    folder.add(plain(3, (B, b"1")), base=1)
    result = folder.compact(NOW)
    assert (result.first_dirty, [each.sources for each in result.segments]) == (1, [(0,)])


def test_the_range_ends_before_a_segment_that_begins_with_an_open_transaction(
    folder: Folder,
) -> None:
    with_limits(folder, segment_bytes=1)
    folder.add(plain(0, (A, b"1")))
    folder.add(transactional(3, PRODUCER, (B, b"1")), base=1)
    result = folder.compact(NOW)
    assert (result.first_dirty, [each.sources for each in result.segments]) == (1, [(0,)])


def test_segments_beyond_the_range_are_not_written(folder: Folder) -> None:
    with_limits(folder, segment_bytes=1)
    folder.dedupe_bytes = room_for(1)
    folder.add(plain(0, (A, b"1")), plain(1, (A, b"2")))
    folder.add(plain(2, (B, b"1")))
    result = folder.compact(NOW)
    assert (result.first_dirty, [each.sources for each in result.segments]) == (2, [(0,)])


@pytest.mark.parametrize(("key", "left"), [(COMMIT, [2, 3, 4, 6]), (ABORT, [0, 3, 4, 6])])
def test_a_transaction_that_the_range_ends_in_is_decided_by_its_marker(
    folder: Folder, key: bytes, left: list[int]
) -> None:
    """The memory is full before the marker is read."""
    folder.dedupe_bytes = room_for(2)
    folder.add(plain(0, (A, b"1")))
    folder.add(transactional(1, PRODUCER, (None, b""), (A, b"2")), plain(3, (B, b"1")))
    folder.add(plain(4, (C, b"1")), marker(5, PRODUCER, key), plain(6, (D, b"1")))
    result = folder.compact(NOW)
    assert result.blocked_by == -1
    assert result.first_dirty in {3, 4}
    assert offsets(folder) == left


def test_a_transaction_that_is_larger_than_the_memory_does_not_stop_compaction(
    folder: Folder,
) -> None:
    folder.dedupe_bytes = room_for(1)
    folder.add(plain(0, (A, b"1")))
    folder.add(*(transactional(number, PRODUCER, (b"%d" % number, b"")) for number in range(1, 6)))
    folder.add(marker(6, PRODUCER, COMMIT), plain(7, (A, b"2")))
    before = newest_values(folder.contents())
    for expected in (1, 2, 3, 4, 5, 7, 8):
        assert folder.compact(NOW).first_dirty == expected
        assert newest_values(folder.contents()) == before
    assert offsets(folder) == [1, 2, 3, 4, 5, 7]


# -- segments --------------------------------------------------------------------------------------


def sources(folder: Folder) -> list[tuple[int, ...]]:
    return [segment.sources for segment in folder.compact(NOW).segments]


def add_segments(folder: Folder, count: int) -> int:
    """Of the same size; returns it."""
    for _ in range(count):
        folder.add(plain(folder.end, (b"%3d" % folder.end, b"value")))
    return folder.segments[0].size


def test_neighbours_become_one_segment_while_it_has_room(folder: Folder) -> None:
    size = add_segments(folder, 5)
    with_limits(folder, segment_bytes=2 * size)
    assert sources(folder) == [(0, 1), (2, 3), (4,)]
    assert [(each.base, each.end) for each in folder.segments] == [(0, 2), (2, 4), (4, 5)]


def test_a_segment_over_the_limit_stays_alone(folder: Folder) -> None:
    add_segments(folder, 3)
    with_limits(folder, segment_bytes=1)
    assert sources(folder) == [(0,), (1,), (2,)]


def test_neighbours_become_one_segment_while_its_indexes_have_room(folder: Folder) -> None:
    add_segments(folder, 4)
    with_limits(folder, index_bytes=24)
    assert sources(folder) == [(0, 1), (2, 3)]


def test_offsets_of_a_segment_stay_within_31_bits(folder: Folder) -> None:
    folder.add(plain(0, (A, b"1")), end=2**31 - 1)
    folder.add(plain(2**31 - 1, (B, b"1")))
    folder.add(plain(2**31, (C, b"1")))
    assert sources(folder) == [(0, 2**31 - 1), (2**31,)]


def test_the_end_of_a_segment_is_that_of_its_last_source(folder: Folder) -> None:
    folder.add(plain(0, (A, b"1")), end=7)
    folder.add(plain(9, (A, b"2")), base=7, end=12)
    folder.compact(NOW)
    assert [(each.base, each.end) for each in folder.segments] == [(0, 12)]
    assert folder.first_dirty == 12


def test_segments_without_batches_are_taken_along(folder: Folder) -> None:
    folder.add(base=0, end=3)
    folder.add(plain(3, (A, b"1")))
    folder.add(base=4, end=6)
    folder.compact(NOW)
    assert [(each.base, each.end) for each in folder.segments] == [(0, 6)]
    assert offsets(folder) == [3]


def test_a_log_without_batches_is_compacted_to_one(folder: Folder) -> None:
    folder.add(base=0, end=3)
    folder.compact(NOW)
    assert (folder.contents(), folder.first_dirty) == (b"", 3)


def test_no_segments_are_nothing_to_do(folder: Folder) -> None:
    folder.first_dirty = 5
    result = folder.compact(NOW)
    assert (result.segments, result.first_dirty) == ((), 5)


def test_the_index_has_the_offsets_of_what_is_left(folder: Folder) -> None:
    """Its rule is checked for every segment, by `Folder`."""
    with_limits(folder, index_interval_bytes=200)
    folder.add(*(plain(number, (b"%d" % (number % 7), bytes(90))) for number in range(60)))
    folder.compact(NOW)
    index = folder.files.open(segment_path(folder.folder, 0).removesuffix(".log") + ".index")
    entry = folder.files.read(index, 8, 0)
    assert int.from_bytes(entry[:4], "big") > 50
    folder.files.close(index)


# -- what Kafka's cleaner made ---------------------------------------------------------------------


@pytest.mark.parametrize("name", fixture.names())
def test_kafka_keeps_the_same(name: str) -> None:
    assert compare(*fixture.read(name)) > 0


@settings(max_examples=10, deadline=None)
@given(st.sampled_from(fixture.names()))
def test_a_folder_without_checksums_is_compacted_to_the_same(name: str) -> None:
    job, _, _ = fixture.read(name)
    one, other = job.folder(), job.folder()
    other.forget_checksums()
    assert one.compact(job.now_ms) == other.compact(job.now_ms)
    assert one.contents() == other.contents()
