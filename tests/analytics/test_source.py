"""The data source in Spark. A call costs a second: few tests, each with several looks."""

import re

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from groupkeeper.analytics.errors import AnalyticsError
from groupkeeper.analytics.reading import parse
from groupkeeper.analytics.reading.columns import SCHEMA
from groupkeeper.analytics.reading.plan import EVERYTHING, Selection, Split
from groupkeeper.analytics.reading.segments import OFFSETS
from groupkeeper.analytics.sources.formats import ConsumerOffsetsSource
from groupkeeper.analytics.sources.options import Options
from groupkeeper.analytics.sources.readers import TopicLogReader
from tests.analytics.logs import batch, varied, write_segment

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


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, r"consumer_offsets needs a path: load\(folder\), or create temporary view"),
        ({"path": "/", "provider": "x", "owner": "y"}, "is not for tables: .* passes no options"),
        ({"path": "/", "engine": "jvm"}, "no such option: engine"),
        ({"path": "/", "chunk_bytes": "-1"}, "positive size such as 32m, not -1"),
        ({"path": "/", "chunk_bytes": "0"}, "positive size"),
        ({"path": "/", "chunk_byte": "9"}, "no such option: chunk_byte, did you mean chunk_bytes?"),
        ({"path": "/", "x": "9"}, r"no such option: x \(known: path, "),
        ({"path": "/", "since": "soon"}, "since must be a time such as 2026-11-22T08:30:00Z"),
        ({"path": "/", "until": ""}, "until must be a time"),
    ],
)
def test_wrong_options_are_refused(options, said):
    with pytest.raises(AnalyticsError, match=said):
        Options.of(options)


@pytest.mark.parametrize(
    ("text", "size"), [("500", 500), ("32m", 32 * 2**20), ("1 GiB", 2**30), ("4KB", 4096)]
)
def test_sizes_have_units(text, size):
    assert Options.of({"path": "/", "chunk_bytes": text}).chunk_bytes == size


def test_a_selection_is_read_from_options():
    given = {"group": "a", "since": "2026-11-22T08:30:00.001+00:00", "until": "1795336200002"}
    assert Options.of({"path": "/", **given}).selection == Selection(
        "a", since=1_795_336_200_001, until=1_795_336_200_002
    )
    assert Options.of({"path": "/"}).selection == EVERYTHING


@pytest.mark.parametrize(("text", "hours"), [("3h", 3), ("2 d", 48), ("90m", 1.5)])
def test_a_time_may_be_how_long_ago(monkeypatch, text, hours):
    monkeypatch.setattr("groupkeeper.analytics.sources.options.time.time", lambda: 10**9)
    assert Options.of({"path": "/", "since": text}).selection.since == 10**12 - hours * 3_600_000


def test_a_time_without_a_zone_is_in_utc():
    since = Options.of({"path": "/", "since": "2026-11-22"}).selection.since
    assert since == 1_795_305_600_000


def test_an_empty_plan_reads_nothing(folder):
    options = Options.of({"path": str(folder / "__consumer_offsets-4")})
    reader = TopicLogReader(OFFSETS, options, SCHEMA.names)
    assert reader.partitions() == []
    assert list(reader.read(type("P", (), {"value": None}))) == []


def test_a_schema_that_is_given_says_which_columns_are_made(spark, folder):
    source = spark.read.format("consumer_offsets")
    few = source.schema("committed_offset bigint, group string").load(str(folder)).collect()
    every = source.load(str(folder)).select("committed_offset", "group").collect()
    assert sorted(few, key=repr) == sorted(every, key=repr)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("grup string", "no column grup, did you mean group?"),
        ("offset int", "column offset is bigint, not int: cast it later"),
    ],
)
def test_a_schema_that_does_not_fit_is_refused(folder, schema, said):
    source = ConsumerOffsetsSource({"path": str(folder)})
    with pytest.raises(AnalyticsError, match=re.escape(said)):
        source.reader(StructType.fromDDL(schema))


def test_a_wrong_path_is_said_at_load_without_a_traceback(spark, tmp_path):
    with pytest.raises(PySparkException) as raised:
        spark.read.format("consumer_offsets").load(str(tmp_path / "nowhere"))
    assert "no such file or folder" in str(raised.value)
    assert "Traceback" not in str(raised.value)


def test_pruning_changes_no_row():
    data = LOG + batch([(b"\0\x01\0\x01\xff\0\x01t\0\0\0\0", b"v")], base=10**6) + b"torn"
    whole = Split("", 3, 0, len(data), last=True)
    every = [row for each in parse(data, whole) for row in each.to_pylist()]
    for name in SCHEMA.names:
        rows = [row for each in parse(data, whole, [name]) for row in each.to_pylist()]
        assert rows == [{name: row[name]} for row in every]
