"""Which partitions are read for one group. Groups are placed over three partitions."""

import pytest

from groupkeeper.analytics.reading.placement import of_groups, possible_counts
from groupkeeper.analytics.reading.plan import plan
from groupkeeper.analytics.reading.segments import OFFSETS
from groupkeeper.analytics.sources.options import Options
from groupkeeper.analytics.sources.readers import TopicLogReader
from groupkeeper.protocol.placement import partition_of
from tests.analytics.logs import batch, commit, tables, write_segment

NAMES = [f"group-{number}" for number in range(40)]


@pytest.fixture
def folder(tmp_path):
    for partition in range(3):
        names = [name for name in NAMES if partition_of(name, 3) == partition]
        log = batch([commit(name, "t", 0, 1) for name in names])
        write_segment(tmp_path / f"__consumer_offsets-{partition}", 0, log)
    return tmp_path


def read(folder, name):
    few = of_groups(plan([folder]), [name])
    return {split.partition for chunk in few.chunks for split in chunk}, few


def test_only_the_partition_of_a_group_is_read(folder):
    partitions, few = read(folder, NAMES[5])
    assert partitions == {partition_of(NAMES[5], 3)}
    assert (few.partitions, few.segments) == (1, 1)
    assert few.size < plan([folder]).size / 2


def test_the_option_of_the_spark_source_does_that_too(folder):
    reader = TopicLogReader(
        OFFSETS, Options.of({"path": str(folder), "group": NAMES[5]}), ["group"]
    )
    chunks = [each.value for each in reader.partitions()]
    assert {split.partition for chunk in chunks for split in chunk} == {partition_of(NAMES[5], 3)}
    read = (row for part in reader.partitions() for row in reader.read(part))
    assert {name for each in read for name in each.column("group").to_pylist()} == {NAMES[5]}


def test_a_group_in_a_partition_where_it_does_not_belong_stops_that(folder):
    log = batch([commit(name, "t", 0, 1) for name in NAMES[:3]], 100)
    write_segment(folder / "__consumer_offsets-1", 0, log)
    partitions, _ = read(folder, NAMES[5])
    assert partitions == {0, 1, 2}


def test_a_partition_that_is_not_in_the_copy_counts(folder):
    """The copy of one broker need not have the highest one."""
    assert 3 in possible_counts((name, partition_of(name, 3)) for name in NAMES)
    found = [(name, partition_of(name, 50)) for name in NAMES if partition_of(name, 50) < 20]
    assert 50 in possible_counts(found)
    assert len(possible_counts(found)) < 5
    assert possible_counts([]) == []


def test_a_group_that_the_log_does_not_have_gives_empty_tables(folder):
    made = tables(folder, groups=frozenset({"nobody"}))
    assert (made["groups"], made["offsets"]) == ([], [])
