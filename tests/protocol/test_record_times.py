"""Offsets and times without the rest of the records, and large outputs of every codec."""

from contextlib import suppress

import cramjam
import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st

from groupkeeper.protocol.compression import (
    GZIP,
    LZ4,
    SNAPPY,
    ZSTD,
    DecompressionError,
    decompress,
    decompress_mapped,
)
from groupkeeper.protocol.record_batch import (
    HEADER_SIZE,
    CorruptBatch,
    decode_records,
    read_header,
    record_times,
)

NOW = 1_700_000_000_000
Fields = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]
"""Time, key, value and headers of a record."""

records = st.lists(
    st.tuples(
        st.integers(0, 1 << 40),
        st.none() | st.binary(max_size=300),
        st.none() | st.binary(max_size=300),
        st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=2),
    ),
    min_size=1,
    max_size=8,
)


def batch(fields: list[Fields]) -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 30,
    )
    for offset, (time, key, value, headers) in enumerate(fields):
        builder.append(offset, timestamp=NOW + time, key=key, value=value, headers=headers)
    return bytes(builder.build())


@given(records)
def test_times_are_those_of_the_records(fields: list[Fields]) -> None:
    raw = batch(fields)
    header = read_header(raw)
    expected = [(record.offset, record.timestamp_ms) for record in decode_records(raw, header)]
    assert list(record_times(raw[HEADER_SIZE:], header)) == expected
    assert list(record_times(memoryview(raw)[HEADER_SIZE:], header)) == expected


@given(records, st.data())
def test_damage_is_a_corrupt_batch_and_nothing_else(
    fields: list[Fields], data: st.DataObject
) -> None:
    raw = bytearray(batch(fields))
    header = read_header(bytes(raw))
    at = data.draw(st.integers(HEADER_SIZE, len(raw) - 1))
    raw[at] = data.draw(st.integers(0, 255))
    body = bytes(raw[HEADER_SIZE : data.draw(st.integers(HEADER_SIZE, len(raw)))])
    with suppress(CorruptBatch):
        list(record_times(body, header))


def test_bytes_behind_the_last_record_are_corrupt() -> None:
    raw = batch([(0, None, b"v", [])])
    with pytest.raises(CorruptBatch, match="bytes follow"):
        list(record_times(raw[HEADER_SIZE:] + b"x", read_header(raw)))


def compressed(codec: int, data: bytes) -> bytes:
    if codec != SNAPPY:
        name = {GZIP: "gzip", LZ4: "lz4", ZSTD: "zstd"}[codec]
        return bytes(getattr(cramjam, name).compress(data))
    blocks = [
        bytes(cramjam.snappy.compress_raw(data[at : at + 1000])) for at in range(0, len(data), 1000)
    ]
    stream = b"".join(len(block).to_bytes(4, "big") + block for block in blocks)
    return b"\x82SNAPPY\x00" + bytes(8) + stream


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize("size", [0, 1, 5_000, 300_000])
def test_mapped_memory_holds_what_was_compressed(codec: int, size: int) -> None:
    data = bytes(n % 251 for n in range(size))
    folded = compressed(codec, data)
    assert bytes(decompress_mapped(codec, folded, 300_000)) == data
    assert decompress(codec, folded, 300_000) == data


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_more_than_the_limit_is_refused(codec: int) -> None:
    folded = compressed(codec, bytes(300_001))
    for unfold in (decompress_mapped, decompress):
        with pytest.raises(DecompressionError):
            unfold(codec, folded, 300_000)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD, 7])
def test_what_no_codec_understands_is_refused(codec: int) -> None:
    with pytest.raises(DecompressionError):
        decompress_mapped(codec, b"\x82SNAPPY\x00" + b"\xff" * 60, 300_000)
