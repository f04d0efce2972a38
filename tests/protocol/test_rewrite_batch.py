"""Batches as a compaction reads and rewrites them, against the decoder, aiokafka and Kafka."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupkeeper.protocol.compression import LZ4, compress, decompress
from groupkeeper.protocol.record_batch import (
    CorruptBatch,
    Record,
    check_crc,
    decode_records,
    read_header,
    records_data,
)
from groupkeeper.protocol.rewrite_batch import (
    ABORT,
    COMMIT,
    RecordSpan,
    control_type,
    empty_batch,
    keyed_records,
    lone_key,
    newest_offsets,
    rewritten_batch,
)
from tests.protocol.test_record_batch import (
    COMMIT_MARKER,
    EMPTY,
    GOLDEN,
    GOOD,
    TIME,
    TRANSACTIONAL_COMMIT,
    TWO_TOMBSTONES,
    WITH_HORIZON,
    with_records,
)
from tests.support import raw_batches
from tests.support.raw_batches import Kind, Written, marker, raw_batch

DAY = 86_400_000


def records_of(batch: bytes) -> list[Record]:
    return list(decode_records(batch, read_header(batch)))


def places_of(batch: bytes) -> list[RecordSpan]:
    header = read_header(batch)
    data = records_data(batch, header)
    return [(start, end) for *_, start, end in keyed_records(data, header)]


def rewritten(batch: bytes, kept: list[int], horizon_ms: int | None = None) -> bytes:
    """The batch with the records of these numbers."""
    header = read_header(batch)
    places = places_of(batch)
    data = records_data(batch, header)
    return rewritten_batch(header, data, [places[number] for number in kept], horizon_ms)


some_bytes = st.none() | st.binary(max_size=70) | st.sampled_from([63, 64, 9_000]).map(bytes)
headers = st.lists(st.tuples(st.text(max_size=8), some_bytes), max_size=2)
written = st.builds(
    Written,
    key=some_bytes,
    value=some_bytes,
    time=st.integers(TIME - 10**6, TIME + 10**9),
    headers=headers,
    gap=st.integers(0, 2) | st.just(100),
)
batches = st.builds(
    raw_batch,
    st.integers(0, 2**40),
    st.lists(written, min_size=1, max_size=12),
    st.builds(
        Kind,
        codec=st.integers(0, 4),
        producer_id=st.just(4000),
        producer_epoch=st.just(3),
        sequence=st.integers(0, 99),
        transactional=st.booleans(),
        append_time=st.none() | st.integers(TIME, TIME + DAY),
        leader_epoch=st.integers(0, 2**31 - 1),
        trailing_gap=st.integers(0, 3),
    ),
)


# -- reading ---------------------------------------------------------------------------------------


def keys_by_decoding(batch: bytes) -> list[tuple[int, bytes | None, bool]]:
    return [(each.offset, each.key, each.value is not None) for each in records_of(batch)]


def keys_by_scanning(batch: bytes) -> list[tuple[int, bytes | None, bool]]:
    header = read_header(batch)
    return [tuple(each[:3]) for each in keyed_records(records_data(batch, header), header)]


@settings(max_examples=100, deadline=None)
@given(batches)
def test_keys_are_those_of_the_decoder(batch: bytes) -> None:
    assert keys_by_scanning(batch) == keys_by_decoding(batch)


@pytest.mark.parametrize("batch", GOLDEN)
def test_keys_of_golden_batches_are_those_of_the_decoder(batch: bytes) -> None:
    assert keys_by_scanning(batch) == keys_by_decoding(batch)


def outcome(read: object, batch: bytes) -> object:
    try:
        return read(batch)  # type: ignore[operator]
    except CorruptBatch:
        return CorruptBatch


@settings(max_examples=400, deadline=None)
@given(st.binary(max_size=60), st.integers(0, 4))
def test_malformed_records_are_refused_as_by_the_decoder(payload: bytes, count: int) -> None:
    batch = with_records(payload, count)
    assert outcome(keys_by_scanning, batch) == outcome(keys_by_decoding, batch)


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 40), st.integers(1, 255), st.integers(-1, 2))
def test_a_damaged_record_is_refused_as_by_the_decoder(place: int, flip: int, more: int) -> None:
    payload = bytearray(GOOD + raw_batch(0, [Written(b"key", None, headers=[("h", b"v")])])[61:])
    payload[place % len(payload)] ^= flip
    batch = with_records(bytes(payload), 2 + more)
    assert outcome(keys_by_scanning, batch) == outcome(keys_by_decoding, batch)


def newest_by_decoding(batch: bytes) -> dict[bytes, int]:
    return {key: offset for offset, key, _ in keys_by_decoding(batch) if key is not None}


def newest_by_scanning(batch: bytes) -> dict[bytes, int]:
    header = read_header(batch)
    return newest_offsets(records_data(batch, header), header)


@settings(max_examples=100, deadline=None)
@given(batches)
def test_newest_offsets_are_those_of_the_decoder(batch: bytes) -> None:
    assert newest_by_scanning(batch) == newest_by_decoding(batch)


@pytest.mark.parametrize("batch", GOLDEN)
def test_newest_offsets_of_golden_batches_are_those_of_the_decoder(batch: bytes) -> None:
    assert newest_by_scanning(batch) == newest_by_decoding(batch)


@settings(max_examples=400, deadline=None)
@given(st.binary(max_size=60), st.integers(0, 4))
def test_newest_offsets_of_malformed_records_are_right_or_refused(
    payload: bytes, count: int
) -> None:
    """What the decoder refuses because of a value or a header may be found."""
    batch = with_records(payload, count)
    found, expected = outcome(newest_by_scanning, batch), outcome(newest_by_decoding, batch)
    assert found == expected or expected is CorruptBatch


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 40), st.integers(1, 255), st.integers(-1, 2))
def test_newest_offsets_of_a_damaged_record_are_right_or_refused(
    place: int, flip: int, more: int
) -> None:
    payload = bytearray(GOOD + raw_batch(0, [Written(b"key", None, headers=[("h", b"v")])])[61:])
    payload[place % len(payload)] ^= flip
    batch = with_records(bytes(payload), 2 + more)
    found, expected = outcome(newest_by_scanning, batch), outcome(newest_by_decoding, batch)
    assert found == expected or expected is CorruptBatch


@pytest.mark.parametrize(
    "records",
    [
        pytest.param(b"\x0d\x00\x00\x00\x02k\x02v\x00", id="negative length"),
        pytest.param(b"\x10\x00\x00\x00\x03k\x02v\x00", id="negative key"),
        pytest.param(b"\x10\x00\x00\x02\x02k\x02v\x00", id="offset beyond the batch"),
        pytest.param(b"\x10\x00\x00\x00\x10k\x02v\x00", id="key beyond the record"),
        pytest.param(b"\x10\x00\x00\x00\x02k\x02v\x00\x00", id="bytes behind"),
        pytest.param(b"\x10\x00", id="cut off"),
    ],
)
def test_newest_offsets_of_damaged_records_are_refused(records: bytes) -> None:
    with pytest.raises(CorruptBatch):
        newest_by_scanning(with_records(records, 1))


def test_a_varint_without_end_is_refused() -> None:
    with pytest.raises(CorruptBatch):
        keys_by_scanning(with_records(b"\x22\x00" + b"\xff" * 15, 1))


sizes = st.sampled_from([0, 1, 63, 64, 300, 9_000])


@given(sizes, st.none() | sizes)
def test_the_key_of_a_lone_record_is_that_of_the_decoder(
    key_size: int, value_size: int | None
) -> None:
    value = None if value_size is None else bytes(value_size)
    batch = raw_batch(7, [Written(b"k" * key_size, value)])
    assert lone_key(batch + GOOD, 61, len(batch)) == (b"k" * key_size, value is not None)


@settings(max_examples=400)
@given(st.integers(0, 80), st.integers(1, 255), st.booleans())
def test_a_damaged_lone_record_is_left_to_the_decoder(
    place: int, flip: int, has_value: bool
) -> None:
    """Either it is none, or it is what the decoder finds."""
    batch = bytearray(raw_batch(0, [Written(b"key", b"value" if has_value else None)]))
    batch[61 + place % (len(batch) - 61)] ^= flip
    found = lone_key(bytes(batch), 61, len(batch))
    if found is not None:
        with suppress(CorruptBatch):  # the attributes of a record
            [(_, key, is_value)] = keys_by_decoding(bytes(batch))
            assert found == (key, is_value)


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(Written(None), id="no key"),
        pytest.param(Written(b"k", headers=[("a", b"b")]), id="headers"),
        pytest.param(Written(b"k", gap=1), id="another offset"),
    ],
)
def test_other_records_are_not_lone(record: Written) -> None:
    batch = raw_batch(0, [record])
    assert lone_key(batch, 61, len(batch)) is None


def test_a_lone_record_of_negative_length_is_left_to_the_decoder() -> None:
    batch = bytearray(raw_batch(0, [Written(b"k")]))
    batch[61] |= 1
    assert lone_key(bytes(batch), 61, len(batch)) is None


def test_a_marker_says_what_it_is() -> None:
    for batch, kind in (
        (COMMIT_MARKER, COMMIT),
        (marker(0, 1, raw_batches.COMMIT), COMMIT),
        (marker(0, 1, raw_batches.ABORT), ABORT),
        (marker(0, 1, b"\x00\x00\x00\x02"), 2),
        (empty_batch(read_header(COMMIT_MARKER)), -1),
    ):
        assert control_type(batch, read_header(batch)) == kind


def test_a_marker_without_type_is_refused() -> None:
    batch = marker(0, 1, b"\x00")
    with pytest.raises(CorruptBatch):
        control_type(batch, read_header(batch))


# -- rewriting -------------------------------------------------------------------------------------


def test_a_batch_with_a_horizon_is_that_of_kafka() -> None:
    group = b"\x00\x02\x00\x02g1"
    records = [Written(b"a", time=TIME + 1), Written(group, None, TIME + 7), Written(b"b")]
    batch = raw_batch(8, records, Kind(leader_epoch=5))
    assert rewritten(batch, [1], TIME + 1_000 + DAY) == WITH_HORIZON


def test_an_empty_batch_is_that_of_kafka() -> None:
    records = [Written(b"a", time=TIME + number) for number in (7, 8, 9)]
    batch = raw_batch(8, records, Kind(leader_epoch=5))
    assert empty_batch(read_header(batch)) == EMPTY
    assert empty_batch(read_header(EMPTY)) == EMPTY


@pytest.mark.parametrize("batch", [TWO_TOMBSTONES, TRANSACTIONAL_COMMIT, COMMIT_MARKER])
def test_with_all_of_its_records_a_batch_is_as_it_was(batch: bytes) -> None:
    assert rewritten(batch, list(range(len(places_of(batch))))) == batch


kept_of = st.lists(st.integers(0, 11), min_size=1, unique=True).map(sorted)


def expected_records(batch: bytes, kept: list[int]) -> list[Record]:
    records = records_of(batch)
    return [records[number] for number in kept]


@settings(max_examples=150, deadline=None)
@given(batches, kept_of, st.none() | st.integers(TIME, TIME + 10 * DAY))
def test_records_that_are_kept_do_not_change(
    batch: bytes, kept: list[int], horizon_ms: int | None
) -> None:
    before = read_header(batch)
    kept = [number for number in kept if number < before.record_count] or [0]
    changed = rewritten(batch, kept, horizon_ms)
    after = read_header(changed)
    records = records_of(changed)
    assert check_crc(changed, after)
    assert records == expected_records(batch, kept)
    assert after.delete_horizon_ms == horizon_ms
    assert after.max_timestamp == max(each.timestamp_ms for each in records)
    assert after.base_timestamp == (records[0].timestamp_ms if horizon_ms is None else horizon_ms)
    for name in ("base_offset", "last_offset_delta", "leader_epoch", "codec", "is_transactional"):
        assert getattr(after, name) == getattr(before, name)
    for name in ("producer_id", "producer_epoch", "base_sequence", "is_log_append_time"):
        assert getattr(after, name) == getattr(before, name)


@settings(max_examples=60, deadline=None)
@given(batches, kept_of)
def test_a_horizon_stays_where_it_is_when_records_go(batch: bytes, kept: list[int]) -> None:
    count = read_header(batch).record_count
    kept = [number for number in kept if number < count] or [0]
    horizon_ms = TIME + DAY
    whole = rewritten(batch, list(range(count)), horizon_ms)
    assert records_of(rewritten(whole, kept, horizon_ms)) == expected_records(batch, kept)


def test_a_horizon_that_is_not_given_goes() -> None:
    [before] = records_of(WITH_HORIZON)
    changed = rewritten(WITH_HORIZON, [0])
    assert read_header(changed).delete_horizon_ms is None
    assert records_of(changed) == [before]


@settings(max_examples=60, deadline=None)
@given(st.lists(written, min_size=1, max_size=8), kept_of)
def test_a_rewritten_batch_is_as_if_it_had_been_written_so(
    records: list[Written], kept: list[int]
) -> None:
    kept = [number for number in kept if number < len(records)] or [0]
    batch = raw_batch(5, records)
    offsets = [each.offset - 5 for each in expected_records(batch, kept)]
    left: list[Written] = []
    for number, offset in zip(kept, offsets, strict=True):
        old = records[number]
        gap = offset - sum(1 + each.gap for each in left)
        left.append(Written(old.key, old.value, old.time, old.headers, gap))
    trailing = read_header(batch).last_offset_delta - offsets[-1]
    assert rewritten(batch, kept) == raw_batch(5, left, Kind(trailing_gap=trailing))


def test_a_batch_without_records_keeps_what_it_is() -> None:
    kind = Kind(
        codec=2,
        producer_id=7,
        producer_epoch=1,
        sequence=9,
        transactional=True,
        append_time=TIME + 5,
        leader_epoch=3,
    )
    before = read_header(raw_batch(4, [Written(b"a"), Written(b"b")], kind))
    after = read_header(empty_batch(before))
    assert (after.size, after.record_count, after.base_timestamp) == (61, 0, -1)
    assert (after.codec, after.is_transactional, after.is_log_append_time) == (0, True, True)
    for name in ("base_offset", "last_offset", "max_timestamp", "leader_epoch"):
        assert getattr(after, name) == getattr(before, name)
    assert (after.producer_id, after.producer_epoch, after.base_sequence) == (7, 1, 9)


def test_times_beyond_what_a_long_holds_wrap_as_in_java() -> None:
    batch = bytearray(raw_batch(0, [Written(b"a", time=0), Written(b"b", time=100)]))
    batch[27:35] = (2**63 - 1).to_bytes(8, "big")
    assert read_header(rewritten(bytes(batch), [1])).base_timestamp == -(2**63) + 99
    assert read_header(rewritten(bytes(batch), [0], 5)).base_timestamp == 5


# -- compressing -----------------------------------------------------------------------------------

texts = st.binary(max_size=300) | st.sampled_from([1, 32_768, 32_769, 200_000]).map(bytes)


@settings(deadline=None)
@given(st.integers(1, 4), texts)
def test_what_is_compressed_is_decompressed(codec: int, data: bytes) -> None:
    assert decompress(codec, compress(codec, data), 1 << 20) == data


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_the_same_data_is_compressed_to_the_same_bytes(codec: int) -> None:
    assert compress(codec, b"data" * 100) == compress(codec, b"data" * 100)


def test_blocks_of_lz4_do_not_depend_on_each_other() -> None:
    """Java's client refuses others."""
    assert compress(LZ4, bytes(200_000))[4] & 0x20


def test_another_codec_is_refused() -> None:
    with pytest.raises(ValueError, match="codec 5"):
        compress(5, b"data")
