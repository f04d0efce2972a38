from collections.abc import Callable
from contextlib import suppress

import pytest
from aiokafka.record import default_records as aio
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from groupkeeper.protocol.record_batch import (
    BatchHeader,
    CorruptBatch,
    Record,
    check_crc,
    decode_records,
    encode_batch,
    iter_batches,
    lone_record,
    patch,
    read_header,
    records_data,
)

TIME = 1_700_000_000_000

# Made by Apache Kafka's own classes.
GROUP_METADATA = bytes.fromhex(
    "0000000000000000000000560000000502cc4d425a0000000000000000018bcfe568000000018bcfe56800ffffffffff"
    "ffffffffffffffffff00000001480000000c000200026731300003000000000000ffffffff0000018bcfe56800000000"
    "0000"
)
TRANSACTIONAL_COMMIT = bytes.fromhex(
    "00000000000000030000005f000000050278c452000010000000000000018bcfe568000000018bcfe568000000000000"
    "000fa0000200000000000000015a0000001a000100026731000174000000033400030000000000000064000000070002"
    "6d640000018bcfe5680000"
)
COMMIT_MARKER = bytes.fromhex(
    "000000000000000400000042000000050244a47b880030000000000000018bcfe568010000018bcfe568010000000000"
    "000fa00002ffffffff000000012000000008000000010c00000000000900"
)
TWO_TOMBSTONES = bytes.fromhex(
    "00000000000000060000005200000005023d25e0a80000000000010000018bcfe568050000018bcfe56807ffffffffff"
    "ffffffffffffffffff00000002260000001a000100026731000174000000030100180004020c0002000267310100"
)
WITH_HORIZON = bytes.fromhex(
    "00000000000000080000004100000005029d2aa3580040000000020000018bd50bc7e80000018bcfe56807ffffffffff"
    "ffffffffffffffffff000000011e00c1ffb252020c0002000267310100"
)
EMPTY = bytes.fromhex(
    "0000000000000008000000310000000502039eecc3000000000002ffffffffffffffff0000018bcfe56809ffffffffff"
    "ffffffffffffffffff00000000"
)
GOLDEN = [GROUP_METADATA, TRANSACTIONAL_COMMIT, COMMIT_MARKER, TWO_TOMBSTONES, WITH_HORIZON, EMPTY]


def records_of(batch: bytes) -> list[Record]:
    return list(decode_records(batch, read_header(batch)))


def pairs_of(batch: bytes) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in records_of(batch)]


@pytest.mark.parametrize("batch", GOLDEN)
def test_a_batch_of_kafka_has_a_valid_checksum(batch: bytes) -> None:
    assert check_crc(batch, read_header(batch))


def test_a_plain_batch_is_written_as_kafka_writes_it() -> None:
    assert encode_batch(0, 5, TIME, pairs_of(GROUP_METADATA)) == GROUP_METADATA


def test_offsets_and_times_of_tombstones_are_read() -> None:
    assert [(r.offset, r.timestamp_ms - TIME, r.value) for r in records_of(TWO_TOMBSTONES)] == [
        (6, 5, None),
        (7, 7, None),
    ]


def test_a_delete_horizon_leaves_the_time_of_its_records() -> None:
    assert read_header(WITH_HORIZON).attributes == 0x40
    [record] = records_of(WITH_HORIZON)
    assert (record.offset, record.timestamp_ms) == (9, TIME + 7)


def test_an_empty_batch_keeps_its_offsets() -> None:
    assert records_of(EMPTY) == []
    assert (read_header(EMPTY).last_offset, read_header(EMPTY).next_offset) == (10, 11)


def test_a_marker_is_a_control_batch() -> None:
    header = read_header(COMMIT_MARKER)
    assert (header.is_control, header.is_transactional, header.producer_id) == (True, True, 4000)
    assert pairs_of(COMMIT_MARKER) == [(bytes(3) + b"\x01", bytes(5) + b"\x09")]


def test_a_transactional_batch_is_no_control_batch() -> None:
    header = read_header(TRANSACTIONAL_COMMIT)
    assert (header.is_control, header.is_transactional, header.base_sequence) == (False, True, 0)


def test_append_time_replaces_the_times_of_the_records() -> None:
    batch = bytearray(TWO_TOMBSTONES)
    batch[22] |= 8
    assert {record.timestamp_ms for record in records_of(bytes(batch))} == {TIME + 7}


def test_patch_moves_a_batch_without_breaking_its_checksum() -> None:
    moved = patch(TWO_TOMBSTONES, 1 << 40, 12)
    header = read_header(moved)
    assert check_crc(moved, header)
    assert (header.base_offset, header.leader_epoch) == (1 << 40, 12)
    assert patch(moved, 6, 5) == TWO_TOMBSTONES


def test_iteration_names_the_place_of_each_batch() -> None:
    buffer = b"".join(GOLDEN)
    headers = list(iter_batches(buffer))
    assert [buffer[header.position : header.end] for header in headers] == GOLDEN


@pytest.mark.parametrize("cut", [1, 60, 61, 97])
def test_iteration_refuses_a_batch_that_is_cut_off(cut: int) -> None:
    with pytest.raises(CorruptBatch):
        list(iter_batches(EMPTY + GROUP_METADATA[:cut]))


def test_a_batch_without_records_is_not_written() -> None:
    with pytest.raises(ValueError, match="needs a record"):
        encode_batch(0, 0, TIME, [])


some_bytes = st.one_of(
    st.none(),
    st.binary(max_size=70),
    st.sampled_from([62, 63, 64, 500, 1023, 1024, 9000]).map(bytes),
)
some_records = st.lists(st.tuples(some_bytes, some_bytes), min_size=1, max_size=70)


@settings(max_examples=60, deadline=None)
@given(some_records, st.integers(0, 2**62), st.integers(-1, 2**31 - 1), st.integers(0, 2**45))
def test_what_is_written_is_read(
    records: list[tuple[bytes | None, bytes | None]], base: int, epoch: int, time: int
) -> None:
    batch = encode_batch(base, epoch, time, records)
    header = read_header(batch)
    assert check_crc(batch, header)
    assert (header.base_offset, header.leader_epoch, header.size) == (base, epoch, len(batch))
    assert list(decode_records(batch, header)) == [
        Record(base + delta, time, key, value, ()) for delta, (key, value) in enumerate(records)
    ]


Fields = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]
"""Time, key, value and headers of a record."""


def build_with_aiokafka(records: list[Fields], codec: int = 0) -> bytes:
    builder = aio.DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 1 << 30)
    for offset, (time, key, value, headers) in enumerate(records):
        builder.append(offset, time, key, value, headers)
    return bytes(builder.build())


def build_with_kafka_python(records: list[Fields], codec: int = 0) -> bytes:
    builder = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 1 << 30)
    for offset, (time, key, value, headers) in enumerate(records):
        builder.append(offset, time, key, value, headers)
    return bytes(builder.build())


BUILDERS = [build_with_aiokafka, build_with_kafka_python]
Builder = Callable[..., bytes]


@pytest.mark.parametrize("build", BUILDERS)
@settings(max_examples=15, deadline=None)
@given(records=some_records)
def test_others_write_the_same_bytes(
    build: Builder, records: list[tuple[bytes | None, bytes | None]]
) -> None:
    theirs = build([(TIME, key, value, []) for key, value in records])
    assert encode_batch(0, -1, TIME, records) == patch(theirs, 0, -1)


@settings(max_examples=15, deadline=None)
@given(records=some_records)
def test_others_read_what_is_written(records: list[tuple[bytes | None, bytes | None]]) -> None:
    batch = encode_batch(77, 3, TIME, records)
    for reader in (aio.DefaultRecordBatch(bytearray(batch)), DefaultRecordBatch(bytearray(batch))):
        assert reader.validate_crc()
        found = [(r.offset, r.timestamp, r.key, r.value) for r in reader]
        assert found == [(77 + at, TIME, key, value) for at, (key, value) in enumerate(records)]


header_lists = st.lists(
    st.tuples(st.text(max_size=8), st.one_of(st.none(), st.binary(max_size=90))), max_size=3
)
full_records = st.lists(
    st.tuples(st.integers(TIME - 10**6, TIME + 10**11), some_bytes, some_bytes, header_lists),
    min_size=1,
    max_size=20,
)


# kafka-python finds snappy, lz4 and zstd only in packages that nothing else here needs.
@pytest.mark.parametrize(
    ("build", "codec"),
    [
        *((build_with_aiokafka, codec) for codec in range(5)),
        (build_with_kafka_python, 0),
        (build_with_kafka_python, 1),
    ],
)
@settings(max_examples=10, deadline=None)
@given(records=full_records)
def test_what_others_write_is_read(build: Builder, codec: int, records: list[Fields]) -> None:
    batch = build(records, codec)
    header = read_header(batch)
    assert check_crc(batch, header)
    assert [
        (r.timestamp_ms, r.key, r.value, list(r.headers)) for r in decode_records(batch, header)
    ] == (records)


def with_records(payload: bytes, count: int, codec: int = 0) -> bytes:
    """A batch around any bytes at all."""
    header = bytearray(encode_batch(0, 0, TIME, [(None, None)])[:61])
    header[8:12] = (49 + len(payload)).to_bytes(4, "big")
    header[22] = codec
    header[23:27] = max(0, count - 1).to_bytes(4, "big")
    header[57:61] = count.to_bytes(4, "big")
    return bytes(header) + payload


GOOD = encode_batch(0, 0, TIME, [(b"k", b"v")])[61:]


@pytest.mark.parametrize(
    ("payload", "count"),
    [
        pytest.param(GOOD + b"\x00", 1, id="a byte after the last record"),
        pytest.param(GOOD, 2, id="fewer records than counted"),
        pytest.param(GOOD + GOOD, 1, id="more records than counted"),
        pytest.param(b"\x12" + GOOD[1:] + b"\x00", 1, id="a record longer than its length"),
        pytest.param(bytes([GOOD[0] + 1]) + GOOD[1:], 1, id="a negative length"),
        pytest.param(b"\x0e" + GOOD[1:], 1, id="a record shorter than its length"),
        pytest.param(GOOD[:4] + b"\x03" + GOOD[5:], 1, id="a key length of -2"),
        pytest.param(GOOD[:3] + b"\x02" + GOOD[4:], 1, id="an offset beyond the batch"),
        pytest.param(GOOD[:3] + b"\x01" + GOOD[4:], 1, id="an offset before the batch"),
        pytest.param(b"\xff" * 11, 1, id="a varint without end"),
        pytest.param(b"\x10\x00\x00\x00\x01\x01\x02\x01\x01", 1, id="a header without key"),
        pytest.param(b"\x0c\x00\x00\x00\x01\x01\x7e", 1, id="more headers than bytes"),
        pytest.param(b"\x10\x00\x00\x00\x01\x01\x02\x02\xff\x01", 1, id="a header key not UTF-8"),
    ],
)
def test_malformed_records_are_refused(payload: bytes, count: int) -> None:
    with pytest.raises(CorruptBatch):
        records_of(with_records(payload, count))


def test_every_truncation_is_refused() -> None:
    for end in range(len(TWO_TOMBSTONES)):
        with pytest.raises(CorruptBatch):
            records_of(TWO_TOMBSTONES[:end])


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=120), st.integers(0, 4), st.integers(0, 7))
def test_no_bytes_raise_anything_but_corrupt_batch(payload: bytes, count: int, codec: int) -> None:
    with suppress(CorruptBatch):
        records_of(with_records(payload, count, codec))


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(GOLDEN), st.integers(0, 10**6), st.integers(1, 255))
def test_a_damaged_byte_is_noticed(batch: bytes, place: int, flip: int) -> None:
    damaged = bytearray(batch)
    place = 12 + place % (len(batch) - 12)
    damaged[place] ^= flip
    try:
        header: BatchHeader | None = read_header(bytes(damaged))
    except CorruptBatch:
        header = None
    assert 12 <= place < 16 or header is None or not check_crc(bytes(damaged), header)


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_batch_that_unfolds_beyond_the_limit_is_refused(codec: int) -> None:
    batch = build_with_aiokafka([(TIME, b"k", bytes(3_000_000), [])], codec)
    assert len(batch) < 200_000
    header = read_header(batch)
    with pytest.raises(CorruptBatch):
        records_data(batch, header, limit=2_000_000)
    assert bytes(3_000_000) in records_data(batch, header, limit=4_000_000)


def test_snappy_without_the_stream_header_is_read() -> None:
    import cramjam

    block = bytes(cramjam.snappy.compress_raw(GOOD))
    assert pairs_of(with_records(block, 1, codec=2)) == [(b"k", b"v")]


@pytest.mark.parametrize("magic", [0, 1, 3])
def test_other_magics_are_refused(magic: int) -> None:
    batch = GROUP_METADATA[:16] + bytes([magic]) + GROUP_METADATA[17:]
    with pytest.raises(CorruptBatch, match=f"magic {magic}"):
        read_header(batch)


# -- the short cut for batches of one record -------------------------------------------------------

_SIZES = st.sampled_from([0, 1, 63, 64, 300, 9_000])


@given(_SIZES, st.none() | _SIZES, st.integers(0, 2**40), st.integers(0, 3))
def test_a_lone_record_is_what_decoding_gives(
    key_size: int, value_size: int | None, base: int, before: int
) -> None:
    value = None if value_size is None else bytes(value_size)
    other = encode_batch(7, 0, TIME, [(b"k", b"v")])
    batch = encode_batch(base, 5, TIME, [(b"k" * key_size, value)])
    data, pos = other * before + batch + other, len(other) * before
    [record] = decode_records(data, read_header(data, pos))
    assert lone_record(data, pos) == (pos + len(batch), record.offset, record.key, record.value)


@pytest.mark.parametrize(
    "batch",
    [
        *(TRANSACTIONAL_COMMIT, COMMIT_MARKER, TWO_TOMBSTONES),
        encode_batch(0, 0, TIME, [(b"k", b"v"), (b"k", b"v")]),
        encode_batch(0, 0, TIME, [(None, b"v")]),
        b"",
    ],
)
def test_other_batches_are_not_lone_records(batch: bytes) -> None:
    assert lone_record(batch, 0) is None


@given(st.integers(0, 75), st.integers(1, 255), st.integers(0, 80))
def test_a_damaged_lone_record_is_left_to_the_decoder(place: int, flip: int, cut: int) -> None:
    """Either it is none, or it is what the decoder finds."""
    damaged = bytearray(encode_batch(0, 0, TIME, [(b"key", b"value")]))
    damaged[min(place, len(damaged) - 1)] ^= flip
    data = bytes(damaged[: len(damaged) - cut] if cut < 20 else damaged)
    lone = lone_record(data, 0)
    if lone is not None:
        [record] = decode_records(data, read_header(data))
        assert lone == (len(data), record.offset, record.key, record.value)
