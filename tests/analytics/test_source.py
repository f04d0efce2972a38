"""The data source in Spark. A call costs a second: few tests, each with several looks."""

import sys

import pytest

import groupkeeper.analytics
from groupkeeper.analytics.columns import SCHEMA
from groupkeeper.analytics.errors import AnalyticsError
from groupkeeper.analytics.parse import parse
from groupkeeper.analytics.plan import Split
from groupkeeper.analytics.source import ConsumerOffsetsReader, engine_of, paths_of
from tests.analytics.logs import varied, write_segment

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

LOG = b"".join(varied())


@pytest.fixture
def folder(tmp_path):
    write_segment(tmp_path / "__consumer_offsets-3", 0, LOG + b"torn")
    write_segment(tmp_path / "__consumer_offsets-4", 0, b"")
    return tmp_path


def test_spark_has_what_the_parser_said(spark, folder):
    read = spark.read.format("consumer_offsets").option("chunk_bytes", 500).load(str(folder))
    assert read.schema.names == SCHEMA.names
    assert read.rdd.getNumPartitions() > 3
    whole = Split("", 3, 0, len(LOG), last=True)
    parsed = [row for batch in parse(LOG, whole) for row in batch.to_pylist()]
    rows = [row.asDict() for row in read.collect()]
    torn = [row for row in rows if row["problem_bytes"] == 4]
    assert [row["problem"] for row in torn] == ["unfinished batch at the end of the log"]
    assert sorted((row for row in rows if row not in torn), key=repr) == sorted(parsed, key=repr)


def test_several_paths_and_empty_ones_can_be_loaded(spark, folder, tmp_path):
    empty = spark.read.format("consumer_offsets").load(str(folder / "__consumer_offsets-4"))
    assert empty.collect() == []
    both = [str(folder / f"__consumer_offsets-{number}") for number in (3, 4)]
    assert spark.read.format("consumer_offsets").load(both).where("problem_bytes = 4").count() == 1


def test_importing_the_package_teaches_the_active_session(spark, monkeypatch):
    taught = []
    monkeypatch.setattr(groupkeeper.analytics, "register", taught.append)
    groupkeeper.analytics._register_with_active_session()
    assert taught == [spark]
    monkeypatch.delitem(sys.modules, "pyspark.sql")
    groupkeeper.analytics._register_with_active_session()
    assert len(taught) == 1


def test_options_are_checked_where_the_query_is_planned():
    with pytest.raises(AnalyticsError, match="needs a path"):
        paths_of({})
    with pytest.raises(AnalyticsError, match="no such engine: jvm"):
        engine_of({"engine": "jvm"})
    assert [str(path) for path in paths_of({"path": "file:///data"})] == ["/data"]


def test_an_empty_plan_reads_nothing(folder):
    reader = ConsumerOffsetsReader({"path": str(folder / "__consumer_offsets-4")})
    assert reader.partitions() == []
    assert list(reader.read(type("P", (), {"value": None}))) == []
