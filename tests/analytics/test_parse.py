"""Both parsers: what they say of a log, and that they say the same."""

import struct
from pathlib import Path

import pyarrow as pa
import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from groupkeeper.analytics.reading import parse_split, parser
from groupkeeper.analytics.reading.columns import SCHEMA
from groupkeeper.analytics.reading.plan import Split
from groupkeeper.analytics.reading.problems import Problem
from tests.analytics.logs import (
    APPEND_TIME,
    GOLDEN,
    NOW,
    batch,
    commit,
    forgotten,
    group,
    log,
    marker,
    record,
    varied,
    write_segment,
)
from tests.analytics.reference import parse

ENGINES = ("numba", "reference")
VARIED = varied()
LOG = b"".join(VARIED)


def split(data, *, start=0, last=False):
    return Split("a.log", 3, start, start + len(data), last)


def table(data, engine, **options):
    return pa.Table.from_batches(parse(data, split(data, **options), engine), SCHEMA)


def rows(data, engine="numba", **options):
    return table(data, engine, **options).to_pylist()


def agreed(data, **options):
    """The rows, once both parsers have said the same, problems in whatever order."""
    one, other = (sorted(rows(data, engine, **options), key=repr) for engine in ENGINES)
    assert one == other
    return rows(data, **options)


def problems(data, **options):
    names = {problem.text: problem for problem in Problem}
    return [
        (names[row["problem"]], row["problem_bytes"])
        for row in agreed(data, **options)
        if row["problem"]
    ]


def offsets(found):
    return [row["offset"] for row in found if row["offset"] is not None]


# ---------------------------------------------------------------- what is there


def test_an_offset_commit_fills_its_columns():
    data = batch([commit("g", "t", 4, 100, metadata="naïve", epoch=7, time=NOW + 1)], base=50)
    assert agreed(data, start=1000) == [
        {
            "partition": 3,
            "batch_position": 1000,
            "offset": 50,
            "timestamp_ms": NOW,
            "leader_epoch": 5,
            "producer_id": -1,
            "attributes": 0,
            "key_type": 1,
            "group": "g",
            "topic": "t",
            "topic_partition": 4,
            "committed_offset": 100,
            "commit_leader_epoch": 7,
            "commit_timestamp_ms": NOW + 1,
            "metadata": "naïve",
            "tombstone": False,
            "key": None,
            "value": None,
            "problem": None,
            "problem_bytes": None,
        }
    ]


@pytest.mark.parametrize("version", range(8))
def test_offset_values_of_every_version_are_read(version):
    key, value = commit("g", "t", 0, 9, version=min(version, 4), metadata="md", epoch=2)
    (row,) = agreed(batch([(key, struct.pack(">h", version) + value[2:])]))
    assert (row["committed_offset"], row["metadata"]) == (9, "md")
    assert row["commit_leader_epoch"] == (2 if version >= 3 else -1)


def test_a_value_that_a_broker_wrote_with_a_topic_id_is_read():
    key, value = commit("g", "t", 0, 5, version=4)
    (row,) = agreed(batch([(key, value[:-1] + b"\x01\x00\x10" + bytes(range(16)))]))
    assert row["committed_offset"] == 5


def test_a_group_record_keeps_its_value_and_not_its_key():
    key, value = group("g", 1, "m")
    (row,) = agreed(batch([(key, value)]))
    assert (row["key_type"], row["group"], row["key"], row["value"]) == (2, "g", None, value)


def test_a_null_value_is_a_tombstone():
    (row,) = agreed(batch([forgotten("g", "t", 1)]))
    assert (row["tombstone"], row["topic"], row["committed_offset"]) == (True, "t", None)


def test_a_marker_keeps_its_key_and_is_no_commit():
    (row,) = agreed(marker(9, 4000, commit=True))
    assert (row["key_type"], row["key"], row["producer_id"]) == (None, b"\0\0\0\x01", 4000)


def test_other_key_types_are_kept_with_their_group():
    (row,) = agreed(batch([(b"\0\x05\0\x01g\0\x01m", b"\0\0")]))
    assert (row["key_type"], row["group"], row["value"]) == (5, "g", b"\0\0")
    assert row["key"] == b"\0\x05\0\x01g\0\x01m"


def test_append_time_is_that_of_the_batch():
    data = batch([None], attributes=APPEND_TIME, payload=record(0, b"\0\x63", None, (), 3))
    assert agreed(data)[0]["timestamp_ms"] == NOW + 7


@pytest.mark.parametrize("data", GOLDEN, ids=range(len(GOLDEN)))
def test_batches_made_by_kafka_are_read_without_a_problem(data):
    assert problems(data) == []


def test_a_cleaned_batch_keeps_the_time_of_its_records():
    assert [(row["offset"], row["timestamp_ms"]) for row in agreed(GOLDEN[4])] == [(9, NOW + 7)]


@pytest.mark.parametrize("codec", range(5))
def test_compressed_batches_are_unfolded(codec):
    data = batch([commit("g", "t", n, n) for n in range(300)], attributes=codec)
    assert [row["topic_partition"] for row in agreed(log(GOLDEN[0], data))[1:]] == list(range(300))


def test_both_parsers_agree_on_everything_a_log_can_hold():
    assert offsets(agreed(LOG))[-1] == int.from_bytes(VARIED[-1][:8], "big")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_log_cut_at_any_batch_gives_the_same_rows(engine):
    whole = rows(LOG, engine)
    at = 0
    for data in VARIED[:-1]:
        at += len(data)
        assert rows(LOG[:at], engine) + rows(LOG[at:], engine, start=at) == whole


def test_windows_do_not_show(monkeypatch):
    whole = rows(LOG)
    monkeypatch.setattr(parser, "WINDOW_RECORDS", 3)
    monkeypatch.setattr(parser, "DECOMPRESSED_LIMIT", 64)
    assert offsets(rows(log(*[batch([commit("g", "t", 0, 1)])] * 3))) == [0, 1, 2]
    monkeypatch.setattr(parser, "DECOMPRESSED_LIMIT", 400)
    assert rows(LOG) == whole


def test_a_record_batch_has_exactly_the_declared_types():
    assert {each.schema for each in parse(LOG, split(LOG), "numba")} == {SCHEMA}


# ---------------------------------------------------------------- what is damaged


def test_every_torn_end_is_counted_to_the_byte():
    size = len(VARIED[1])
    for kept in range(1, size):
        assert problems(VARIED[0] + VARIED[1][:kept]) == [(Problem.TORN, kept)]


@pytest.mark.parametrize("zeros", [1, 11, 12, 100])
def test_reserved_space_is_an_unfinished_batch(zeros):
    assert problems(VARIED[0] + bytes(zeros), last=True) == [(Problem.TORN_TAIL, zeros)]


def test_bytes_that_are_no_header_end_the_split():
    assert problems(VARIED[0] + bytes(11) + b"\x01" * 40) == [(Problem.BAD_HEADER, 51)]


def test_old_formats_are_passed_over():
    old = bytearray(batch([commit("g", "t", 0, 0)]))
    old[16] = 1
    assert problems(bytes(old) + VARIED[1]) == [(Problem.OLD_MAGIC, len(old))]


BAD_PAYLOADS = {
    "bytes after the last record": record(0, b"\0\x63", b"") + b"\0",
    "a record that is too long": b"\x7e" + record(0, b"\0\x63", b"")[1:],
    "an offset outside of the batch": record(5, b"\0\x63", b""),
    "a key that is too long": b"\x0c\0\0\0\x7e\0\0\0",
    "a negative length": b"\x0c\0\0\0\x03\0\0\0",
    "an endless varint": b"\xff" * 12,
    "a header without a name": b"\x12\0\0\0\x02\0\x01\x02\x01\x01",
}


@pytest.mark.parametrize("payload", BAD_PAYLOADS.values(), ids=BAD_PAYLOADS)
@pytest.mark.parametrize("codec", [0, 1])
def test_records_that_do_not_fit_cost_their_batch_only(payload, codec):
    data = batch([None], attributes=codec, payload=payload)
    assert problems(log(GOLDEN[0], data, GOLDEN[0])) == [(Problem.BAD_RECORDS, len(data))]


@pytest.mark.parametrize("codec", [0, 4])
def test_an_impossible_record_count_asks_for_no_memory(codec):
    data = batch([commit("g", "t", 0, 0)], attributes=codec, count=2**31 - 1)
    assert problems(data) == [(Problem.BAD_RECORDS, len(data))]


@pytest.mark.parametrize("codec", [1, 2, 3, 4, 5, 7])
def test_bytes_that_do_not_unfold_cost_their_batch_only(codec):
    data = bytearray(batch([commit("g", "t", 0, 0)]))
    data[22] = codec
    data[17:21] = struct.pack(">I", crc32c(data[21:]))
    assert problems(log(bytes(data), GOLDEN[0])) == [(Problem.BAD_RECORDS, len(data))]


KEY, VALUE = commit("g", "t", 0, 1, metadata="xy")
UNREADABLE = {
    "a group that is not UTF-8": ((b"\0\x01\0\x01\xff\0\x01t\0\0\0\0", b"v"), Problem.BAD_KEY),
    "a key that is too short": ((b"\0\x01\0\x05g", b"v"), Problem.BAD_KEY),
    "metadata that are not UTF-8": ((KEY, VALUE.replace(b"xy", b"\xffy")), Problem.BAD_VALUE),
    "a value that is too short": ((KEY, b"\0\x03\0\0"), Problem.BAD_VALUE),
}


@pytest.mark.parametrize("pair", UNREADABLE)
def test_what_is_unreadable_is_kept_as_it_is(pair):
    (key, value), problem = UNREADABLE[pair]
    data = batch([(key, value), commit("g", "t", 0, 1)])
    assert problems(data) == [(problem, None)]
    bad, good = agreed(data)
    is_key = problem == Problem.BAD_KEY
    assert (bad["key"], bad["group"]) == ((key, None) if is_key else (None, "g"))
    assert (bad["value"], good["group"]) == (value, "g")


def test_a_name_of_a_header_may_be_any_bytes():
    data = batch([None], payload=record(0, b"\0\x63", None, [(b"\xff", b"\xff")]))
    assert problems(data) == []


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.integers(0, len(LOG) - 1), st.integers(1, 255), st.booleans())
def test_any_flipped_byte_is_seen_alike(at, mask, mend):
    """`mend` makes the checksums right again, so that the bytes behind them are looked at."""
    damaged = bytearray(LOG)
    damaged[at] ^= mask
    position = 0
    for data in VARIED:
        if mend and position + 21 <= at < position + len(data):
            crc = crc32c(damaged[position + 21 : position + len(data)])
            damaged[position + 17 : position + 21] = struct.pack(">I", crc)
        position += len(data)
    agreed(bytes(damaged))


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.binary(max_size=30), st.binary(max_size=60))
def test_any_key_and_value_are_seen_alike(key, value):
    good, known = commit("g", "t", 0, 1)
    agreed(batch([(key, value), (good, value), (b"\0\x01" + key, known), (b"\0\x02" + key, known)]))


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.sampled_from([0, 3, 4, 5]), st.integers(0, 40), st.binary(max_size=4))
def test_any_change_of_a_value_is_seen_alike(version, at, patch):
    key, value = commit("g", "t", 0, 1, version=min(version, 4), metadata="md")
    value = struct.pack(">h", version) + value[2:at] + patch + value[at:]
    agreed(batch([(key, value)]))


# ---------------------------------------------------------------- files


def test_a_split_is_read_from_its_file(tmp_path):
    path = write_segment(tmp_path, 0, LOG)
    start = len(VARIED[0])
    part = Split(str(path), 3, start, start + len(VARIED[1]), last=False)
    assert offsets(pa.Table.from_batches(parse_split(part)).to_pylist()) == [2, 3]


def test_a_segment_that_went_away_is_said_to_be_gone(tmp_path):
    gone = Split(str(Path(tmp_path, "gone.log")), 3, 0, 77, last=True)
    (row,) = pa.Table.from_batches(parse_split(gone)).to_pylist()
    assert (row["problem"], row["problem_bytes"]) == (Problem.GONE.text, 77)
