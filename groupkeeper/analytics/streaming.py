"""Keeps the tables of an analysis up to date with a Spark streaming query.

    records = spark.readStream.format("consumer_offsets").load(path)
    events = spark.readStream.format("group_events").load(path)
    kept(Logs(records, events), out).option("checkpointLocation", place).start()

Each micro-batch writes `<table>/batch=<number>` and replaces `<table>/batch=open`, the unfinished
rows. A batch repeated after a failure writes the same files, so no row is duplicated.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pyspark import StorageLevel
from pyspark.sql import functions as F  # noqa: N812  # as in Spark's documentation

from groupkeeper.analytics.spark import (
    STATE,
    UNDER_WAY,
    Logs,
    RunState,
    analyzed,
    minutes_of,
    saved,
    with_day,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

OPEN: Final = "open"
_STATE: Final = "_state"
"""Folder of the state for the next batch, skipped by readers of tables. Batches alternate between
two places, so that a repeated batch finds the state it began with."""


def kept(logs: Logs, out: str) -> "DataStreamWriter":
    """Return a streaming query that keeps the Parquet tables in the folder `out`, all but `lag`.
    The caller sets checkpoint and trigger, and starts it.
    """
    streams = {"records": logs.records, "events": logs.events}
    parts = [rows.select(F.struct("*").alias(name)) for name, rows in streams.items()]
    both = parts[0].unionByName(parts[1], allowMissingColumns=True)

    def batch(rows: "DataFrame", number: int) -> None:
        rows = rows.persist(StorageLevel.DISK_ONLY)
        found = [rows.where(f"{name} IS NOT NULL").select(f"{name}.*") for name in streams]
        _write(Logs(found[0], found[1], logs.names), out, number)
        rows.unpersist()

    return both.writeStream.foreachBatch(batch)


def _write(logs: Logs, out: str, number: int) -> None:
    spark = logs.records.sparkSession
    made = analyzed(logs, _state(spark, out, number - 1))
    for name in STATE:
        part = getattr(made.state, name)
        part.write.mode("overwrite").parquet(_place(out, name, number))
    for name in made.names():
        _save(name, made.finished(name), out, number)
    _minutes(made.commits, out)
    made.release()
    made = replace(made, state=_state(spark, out, number))
    for name in UNDER_WAY:
        _save(name, made.under_way(name), out, OPEN)


def _save(name: str, rows: "DataFrame", out: str, batch: int | str) -> None:
    saved(with_day(name, rows), "parquet", out, f"{name}/batch={batch}", ["day"])


def _minutes(commits: "DataFrame", out: str) -> None:
    """Rewrite `commit_minutes` of all days with new commits, from all commits of these days."""
    days = [row["day"] for row in with_day("commits", commits).select("day").distinct().collect()]
    if not days:
        return
    told = commits.sparkSession.read.parquet(f"{out}/commits").where(F.col("day").isin(days))
    rows = with_day("commit_minutes", minutes_of(told)).write.mode("overwrite")
    rows = rows.option("partitionOverwriteMode", "dynamic").partitionBy("day")
    rows.parquet(f"{out}/commit_minutes")


def _state(spark: "SparkSession", out: str, number: int) -> RunState:
    parts = {
        name: spark.read.schema(schema).parquet(_place(out, name, number))
        if number >= 0
        else spark.createDataFrame([], schema)
        for name, schema in STATE.items()
    }
    return RunState(**parts)


def _place(out: str, name: str, number: int) -> str:
    return f"{out}/{_STATE}/{name}/{number % 2}"
