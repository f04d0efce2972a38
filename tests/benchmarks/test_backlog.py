"""The log that starts are measured with: what is in it, and that a server starts from it."""

from itertools import islice

import pytest

from benchmarks.backlog import (
    EMPTY,
    OFFSETS,
    PARTITIONS,
    REPEATS,
    SEGMENTS,
    compact,
    groups_of,
    log_mib,
    prepare,
    start,
    write,
)
from groupkeeper.protocol.placement import partition_of
from groupkeeper.protocol.record_batch import check_crc, decode_records, iter_batches


@pytest.mark.parametrize(("records", "batch"), [(50_000, 1), (200_000, 100)])
def test_every_partition_has_its_share_in_whole_batches(tmp_path, records, batch):
    made = write(tmp_path / "log", records, batch)
    share = records // PARTITIONS
    assert sorted(made.segments) == list(range(PARTITIONS))
    assert made.records == records
    for segments in made.segments.values():
        assert len(segments) == SEGMENTS + 1
        assert sorted(segments) == list(segments)
        data = b"".join(file.read_bytes() for file in segments.values())
        headers = list(iter_batches(data))
        assert [header.record_count for header in headers] == [batch] * (share // batch)
        assert [header.base_offset for header in headers] == list(range(0, share, batch))
        assert {header.base_offset for header in headers} >= segments.keys()
        assert all(check_crc(data, header) for header in headers)


def test_nearly_all_records_are_in_finished_segments(tmp_path):
    made = write(tmp_path / "log", 50_000, 1)
    assert all(980 <= max(segments) < 1000 for segments in made.segments.values())


def test_what_is_expected_are_the_newest_values(tmp_path):
    made = write(tmp_path / "log", 10_000, 1)
    keys = sum(map(len, made.expected.values()))
    assert keys == made.records / REPEATS
    newest = {}
    for file in made.segments[7].values():
        data = file.read_bytes()
        for header in iter_batches(data):
            newest |= {record.key: record.offset for record in decode_records(data, header)}
    mine = [name for name in made.expected if partition_of(name.decode(), made.partitions) == 7]
    told = [offset for name in mine for offset in made.expected[name].values()]
    assert sorted(newest.values()) == sorted(told)


def test_it_is_filled_up_to_whole_batches(tmp_path):
    made = write(tmp_path / "log", 1_001, 7)
    assert made.records == 21 * PARTITIONS
    assert {len(offsets) for offsets in made.expected.values()} == {OFFSETS}


def test_groups_live_where_they_are_looked_for():
    found = list(islice(groups_of(7, 60), 3))
    assert {partition_of(name, 60) for name in found} == {7}


def test_partitions_without_records_are_left_for_others(tmp_path):
    made = write(tmp_path / "log", 1_001, 7)
    assert made.partitions == PARTITIONS + EMPTY
    assert {partition_of(name.decode(), made.partitions) for name in made.expected} == {
        *range(PARTITIONS)
    }


@pytest.mark.slow
def test_a_server_starts_from_it_before_and_after_compaction(tmp_path):
    made = write(tmp_path / "log", 10_000, 1)
    server = prepare("groupkeeper", tmp_path, made)
    before = log_mib(server)
    figures, server = start(server, made)
    assert figures["records"] == 10_000
    assert 0 < figures["answers_ms"] <= figures["replay_ms"]
    assert figures["cpu_s"] > 0
    assert figures["beat_p99_ms"] <= figures["beat_worst_ms"]
    assert figures["iteration_ms"] >= 1
    server = compact(server, made)
    figures, server = start(server, made)  # which reads every offset
    assert log_mib(server) < before / 4
