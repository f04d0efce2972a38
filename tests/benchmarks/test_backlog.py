"""The log that starts are measured with: what is in it, and that a server starts from it."""

from itertools import islice

import pytest

from benchmarks.backlog import GROUPS, OFFSETS, PARTITIONS, groups_of, start, write
from groupkeeper.coordinator.placement import partition_of
from groupkeeper.protocol.record_batch import check_crc, iter_batches


@pytest.mark.parametrize("batch", [1, 100])
def test_every_partition_but_the_last_has_its_share_in_whole_batches(tmp_path, batch):
    made = write(tmp_path / "log", 10_000, batch)
    assert sorted(made.files) == list(range(PARTITIONS - 1))
    assert made.records == 10_000
    assert len(made.expected) == GROUPS * (PARTITIONS - 1)
    for file in made.files.values():
        data = file.read_bytes()
        headers = list(iter_batches(data))
        assert [header.record_count for header in headers] == [batch] * (200 // batch)
        assert [header.base_offset for header in headers] == list(range(0, 200, batch))
        assert all(check_crc(data, header) for header in headers)


def test_it_is_filled_up_to_whole_rounds_of_all_keys(tmp_path):
    made = write(tmp_path / "log", 1, 7)
    assert made.records == GROUPS * OFFSETS * (PARTITIONS - 1)
    assert set(made.expected.values()) == {1}


def test_groups_live_where_they_are_looked_for():
    found = list(islice(groups_of(PARTITIONS - 1), 3))
    assert {partition_of(name, PARTITIONS) for name in found} == {PARTITIONS - 1}


@pytest.mark.slow
def test_a_server_starts_from_it_and_serves_others_meanwhile(tmp_path):
    made = write(tmp_path / "log", 5_000, 1)
    figures = start("groupkeeper", tmp_path, made)
    assert figures["records"] == 5_000
    assert figures["replay_ms"] > 0
    assert figures["cpu_s"] > 0
    assert figures["beat_p99_ms"] <= figures["beat_worst_ms"]
    assert figures["iteration_ms"] >= 1
