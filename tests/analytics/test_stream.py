"""Streams in Spark. A query costs seconds: few tests, each with several looks. What is read when
files change is tested without Spark in test_follow.py, and with kills by `python -m tests.chaos
stream`.
"""

import json

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes
from pyspark.sql.types import StructType

from groupkeeper.analytics.errors import AnalyticsError
from groupkeeper.analytics.sources import formats as sources
from groupkeeper.analytics.sources.formats import ConsumerOffsetsSource
from groupkeeper.analytics.sources.options import StreamOptions
from groupkeeper.protocol.group_events import Event, encode
from groupkeeper.protocol.record_batch import encode_batch
from tests.analytics.growing_log import NAME, GrowingLog
from tests.analytics.logs import write_segment

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.fixture
def log(tmp_path):
    made = GrowingLog(tmp_path / "data")
    made.append(*[3] * 20)
    made.roll()
    return made


class Job:
    """A query that writes what is available now to Parquet."""

    def __init__(self, spark, log, folder):
        self.spark = spark
        self.data = log.folder.parent
        self.out, self.checkpoint = folder / "out", folder / "checkpoint"

    def run(self, name="consumer_offsets", **options):
        read = self.spark.readStream.format(name).options(**options).load(str(self.data))
        write = read.writeStream.format("parquet").option("path", str(self.out))
        write = write.option("checkpointLocation", str(self.checkpoint))
        query = write.trigger(availableNow=True).start()
        query.awaitTermination()
        return [json.loads(each["sources"][0]["endOffset"]) for each in query.recentProgress]

    @property
    def rows(self):
        return self.spark.read.parquet(str(self.out)).collect()

    def forget_last(self):
        """As if the job had been killed in its last batch, when nothing of it was committed."""
        last = max(int(file.name) for file in (self.checkpoint / "commits").glob("[0-9]*"))
        for folder in (self.checkpoint / "commits", self.out / "_spark_metadata"):
            for name in (f"{last}", f".{last}.crc"):
                (folder / name).unlink()


def test_a_job_goes_on_where_it_ended(spark, log, tmp_path):
    job = Job(spark, log, tmp_path)
    ends = job.run(maxBytesPerTrigger="3k")
    assert [*ends[-1]] == [NAME]
    assert ends[-1][NAME]["offset"] == 60
    assert len(ends) > 1
    log.append(2)
    log.tear(40)
    job.run()
    job.forget_last()
    log.append(1)
    log.roll()
    log.compact(31)
    job.run()
    offsets = [row.offset for row in job.rows if row.offset is not None]
    assert sorted(offsets) == [*range(60), 62]
    assert [row.problem for row in job.rows if row.problem] == [
        "offsets compacted away before they were read: 60 to 61"
    ]


def test_group_events_are_a_stream_too(spark, log, tmp_path):
    value = encode(Event(1, 5, 1, 1_700_000_000_000, 70, "g", "group_deleted"))
    data = encode_batch(0, 1, 1_700_000_000_000, [(b"g", value)])
    write_segment(log.folder.parent / "__group_events-4", 0, data)
    job = Job(spark, log, tmp_path)
    assert [*job.run("group_events")[0]] == ["__group_events-4"]
    found = {(row.partition, row.offset, row.group, row.type, row.problem) for row in job.rows}
    assert found == {(4, 0, "g", "group_deleted", None)}


def test_what_is_wrong_is_said_in_one_line(spark, log, tmp_path):
    job = Job(spark, log, tmp_path)
    for options, said in (
        ({"group": "g"}, "readStream has no option group: filter with where()"),
        ({"startingOffsets": "first"}, r"no such startingOffsets: first (earliest, latest)"),
    ):
        with pytest.raises(PySparkException) as raised:
            job.run(**options)
        assert said in str(raised.value)
        assert "Traceback" not in str(raised.value)
    with pytest.raises(PySparkException, match="are options of readStream, not of read"):
        spark.read.format("consumer_offsets").option("failOnDataLoss", "false").load(
            str(job.data)
        ).count()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"startingOffsets": '{"0": 7}'}, "no such startingOffsets"),
        ({"maxBytesPerTrigger": "0"}, "maxBytesPerTrigger must be a positive size"),
        ({"failOnDataLoss": "maybe"}, "no such failOnDataLoss: maybe"),
        ({"group": "g"}, "readStream has no option group"),
    ],
)
def test_wrong_options_are_refused(options, said):
    with pytest.raises(AnalyticsError, match=said):
        StreamOptions.of(options)


def test_options_have_defaults_and_units():
    assert StreamOptions.of({}) == StreamOptions("earliest", None, fail_on_loss=True)
    given = {"startingOffsets": "latest", "maxbytespertrigger": "2k", "failOnDataLoss": "False"}
    assert StreamOptions.of(given) == StreamOptions("latest", 2048, fail_on_loss=False)


def test_older_versions_of_spark_are_refused(monkeypatch, log):
    """At load, if an option is of streams."""
    monkeypatch.setattr(sources, "find_spec", lambda name: None)
    options = {"path": str(log.folder)}
    stream = stream_of(options)
    latest = ConsumerOffsetsSource(options | {"startingOffsets": "latest"})
    for call in (stream.initialOffset, stream.latestOffset, latest.schema):
        with pytest.raises(AnalyticsError, match=r"readStream needs PySpark 4\.2 or later"):
            call()


def stream_of(options):
    return ConsumerOffsetsSource(options).streamReader(StructType.fromDDL("offset bigint"))


def test_a_trigger_has_few_tasks(log):
    """Small logs are packed together, and a large one is cut."""
    for partition in range(10, 30):
        write_segment(log.folder.parent / f"__consumer_offsets-{partition}", 0, b"")
        path = log.folder / f"{0:020d}.log"
        write_segment(log.folder.parent / f"__consumer_offsets-{partition}", 0, path.read_bytes())
    options = {"path": str(log.folder.parent)}
    reader = stream_of(options)
    assert reader.getDefaultReadLimit() == ReadAllAvailable()
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    [task] = reader.partitions(start, end)
    assert sum(batch.num_rows for batch in reader.read(task)) == 21 * 60
    part = reader.latestOffset(start, ReadMaxBytes(10_000))
    assert all(0 < each["offset"] < 60 for each in part.values())
    options["chunk_bytes"] = "1k"
    reader = stream_of(options)
    tasks = reader.partitions(start, end)
    assert len(tasks) > 21
    assert sum(batch.num_rows for task in tasks for batch in reader.read(task)) == 21 * 60
