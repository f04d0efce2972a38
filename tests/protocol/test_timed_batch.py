"""Batches whose records have times of their own."""

from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch

from groupkeeper.protocol.record_batch import (
    HEADER_SIZE,
    check_crc,
    decode_records,
    encode_batch,
    read_header,
)
from groupkeeper.protocol.timed_batch import TimedRecord, encode_timed_batch, size_of_record

RECORDS = st.lists(
    st.builds(
        TimedRecord,
        st.integers(0, 2**42),
        st.none() | st.binary(max_size=300),
        st.none() | st.binary(max_size=300),
        st.lists(st.tuples(st.text(max_size=90), st.none() | st.binary(max_size=90))).map(tuple),
    ),
    min_size=1,
    max_size=20,
)


@given(RECORDS, st.integers(0, 2**40))
def test_what_is_written_is_read(records: list[TimedRecord], base: int) -> None:
    data = encode_timed_batch(base, 7, records)
    header = read_header(data)
    assert check_crc(data, header)
    assert (header.base_offset, header.last_offset) == (base, base + len(records) - 1)
    assert header.max_timestamp == max(each.timestamp_ms for each in records)
    assert [each[1:] for each in decode_records(data, header)] == records
    assert len(data) <= HEADER_SIZE + sum(map(size_of_record, records))


@given(RECORDS)
def test_others_read_it(records: list[TimedRecord]) -> None:
    batch = DefaultRecordBatch(encode_timed_batch(0, 7, records))
    assert batch.validate_crc()
    read = [(each.timestamp, each.key, each.value, tuple(each.headers)) for each in batch]
    assert read == records


@given(RECORDS)
def test_records_of_one_time_are_written_as_ever(records: list[TimedRecord]) -> None:
    same = [each._replace(timestamp_ms=9, headers=()) for each in records]
    pairs = [(each.key, each.value) for each in same]
    assert encode_timed_batch(3, 7, same) == encode_batch(3, 7, 9, pairs)
