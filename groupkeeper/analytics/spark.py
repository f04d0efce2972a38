"""Runs an analysis as a Spark dataflow: DataFrames of records and events in, tables out.

    logs = Logs.read(spark, "/path/to/data")    # or Logs(records, events)
    tables = tables_of(logs)                    # name -> DataFrame: docs/analytics-tables.md

Spark groups, joins and sorts; the fold of each group is that of the local analysis. `sources.live`
reads the live topics.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import functions as F  # noqa: N812  # as in Spark's documentation
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.window import Window

from groupkeeper.analytics import grouped
from groupkeeper.analytics.pipeline.commits import COMMIT_MARKER
from groupkeeper.analytics.pipeline.lag import Lags
from groupkeeper.analytics.reading.columns import CONTROL, OFFSET_KEY_TYPES, SCHEMA, TRANSACTIONAL
from groupkeeper.analytics.reading.groups import topic_names
from groupkeeper.analytics.reading.plan import data_folders, plan_topics
from groupkeeper.analytics.reading.segments import EVENTS, OFFSETS, expand
from groupkeeper.analytics.schemas import TABLES
from groupkeeper.analytics.sources import events as event_source
from groupkeeper.analytics.store.tables import DAYS
from groupkeeper.history.fields import LAST_MS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_OF_PARTITION: Final = ("coordinator_loaded", "coordinator_closed")
_OF_EPOCHS: Final = (*_OF_PARTITION, "not_back", "events_dropped")


@dataclass(frozen=True, slots=True)
class Logs:
    """Rows of both logs, from the sources `consumer_offsets` and `group_events` or from the live
    topics (`sources.live`). `names`: topic id -> name, for consumer and share groups. `data`: data
    folders that all workers can read, for lag.
    """

    records: "DataFrame"
    events: "DataFrame"
    names: Mapping[bytes, str] = field(default_factory=dict)
    data: Sequence[str] = ()

    @classmethod
    def read(cls, spark: "SparkSession", path: str) -> "Logs":
        """Read the logs under a path; an absent one has no rows. Raises AnalyticsError
        without any.
        """
        plans = plan_topics(expand([path]))
        forms = (OFFSETS, "consumer_offsets", SCHEMA), (EVENTS, "group_events", event_source.SCHEMA)
        records, events = (
            spark.read.format(form).load(path)
            if plans[topic].chunks
            else spark.createDataFrame([], from_arrow_schema(schema))
            for topic, form, schema in forms
        )
        return cls(records, events, topic_names(plans[OFFSETS]), data_folders(plans[OFFSETS]))


@dataclass(frozen=True, slots=True)
class RunState:
    """The state between runs: open rows of `grouped.FOLDED` of all groups, rows of
    `grouped.COVERED` of partitions of both logs, and transactional commits without a marker.
    """

    groups: "DataFrame"
    partitions: "DataFrame"
    pending: "DataFrame"


STATE: Final = {
    "groups": from_arrow_schema(grouped.FOLDED),
    "partitions": from_arrow_schema(grouped.COVERED).add("log", "string"),
    "pending": from_arrow_schema(SCHEMA),
}
"""Part of a RunState -> schema."""


@dataclass(frozen=True, slots=True)
class Made:
    """The result of a run: rows of `grouped.FOLDED` and `grouped.COVERED`, finished commits and
    events, and the state for a later run.
    """

    folded: "DataFrame"
    covered: "DataFrame"
    commits: "DataFrame"
    events: "DataFrame"
    state: RunState
    kept: Sequence["DataFrame"]

    def release(self) -> None:
        """Release the DataFrames persisted on disk."""
        for each in self.kept:
            each.unpersist()

    def finished(self, name: str) -> "DataFrame":
        """Return the rows of a table that never change again."""
        if name == "epochs":
            return self.covered.selectExpr("inline(epochs)")
        if name in ("commits", "events"):
            return self.commits if name == "commits" else self.events
        return _rows_of(self.folded, name, is_open=False)

    def names(self) -> list[str]:
        """Return the tables that may have finished rows. Costs one Spark job and saves many."""
        found = self.folded.where("NOT is_open").select("made").distinct().collect()
        return [*({row["made"] for row in found} & {*FINISHED}), "events", "commits", "epochs"]

    def under_way(self, name: str) -> "DataFrame":
        """Return the rows of a table that a later run replaces."""
        column = {"epochs": "last_epoch", "coverage": "coverage"}.get(name)
        if column:
            return self.state.partitions.selectExpr(f"inline({column})")
        return _rows_of(self.state.groups, name, is_open=True)


FINISHED: Final = (*grouped.MADE, "events", "commits", "epochs")
UNDER_WAY: Final = (*grouped.OPEN, "epochs", "coverage")
"""Tables with finished, and with unfinished, rows. `commit_minutes` is made from `commits`."""


def tables_of(logs: Logs) -> dict[str, "DataFrame"]:
    """Return all tables of an analysis, by name, and the records themselves."""
    spark = logs.records.sparkSession
    nothing = RunState(**{name: spark.createDataFrame([], of) for name, of in STATE.items()})
    made = analyzed(logs, nothing)
    tables = {name: made.finished(name) for name in FINISHED}
    for name in UNDER_WAY:
        rows = made.under_way(name)
        tables[name] = tables[name].unionByName(rows) if name in tables else rows
    minutes = minutes_of(tables["commits"])
    return tables | {
        "records": logs.records,
        "commit_minutes": minutes,
        "lag": lag_of(minutes, logs.data),
    }


def analyzed(logs: Logs, before: RunState) -> Made:
    """Analyze the logs after a state. Reused DataFrames stay on disk until `Made.release`."""
    known, records = before.partitions, logs.records
    of_records = cover(records, known).persist(StorageLevel.DISK_ONLY)
    covered = of_records.unionByName(cover_events(logs.events, known))
    states = before.groups.where("made = 'state'")
    rows = fed(logs, of_records, states.selectExpr("partition", "group", "state AS before"))
    folded = fold(rows, logs.names).persist(StorageLevel.DISK_ONLY)
    touched = folded.where("made = 'state'").select("partition", "group")
    told = records.unionByName(before.pending)
    after = RunState(
        before.groups.join(touched, ["partition", "group"], "left_anti").unionByName(
            folded.where("is_open")
        ),
        known.join(covered, ["log", "partition"], "left_anti").unionByName(covered),
        pending(told),
    )
    commits = commits_of(decided(told))
    return Made(folded, covered, commits, events_of(logs.events), after, (of_records, folded))


# -- commits ---------------------------------------------------------------------------------------


def decided(records: "DataFrame") -> "DataFrame":
    """Return the commits that count: transactional ones if their producer's next marker commits."""
    plain = records.where(f"{_IS_COMMIT} AND NOT {_IS_TRANSACTIONAL}")
    return plain.unionByName(
        _in_transactions(records).where(F.col("_marker") == COMMIT_MARKER).drop("_marker")
    )


def pending(records: "DataFrame") -> "DataFrame":
    """Return transactional commits without a marker."""
    return _in_transactions(records).where("_marker IS NULL").drop("_marker")


_IS_CONTROL: Final = f"(coalesce(attributes, 0) & {CONTROL} != 0)"
_IS_TRANSACTIONAL: Final = f"(coalesce(attributes, 0) & {TRANSACTIONAL} != 0)"
_IS_COMMIT: Final = f"(key_type IN {OFFSET_KEY_TYPES} AND problem IS NULL AND NOT {_IS_CONTROL})"


def _in_transactions(records: "DataFrame") -> "DataFrame":
    """Return transactional commits, with the next marker of their producer."""
    few = records.where(f"({_IS_COMMIT} AND {_IS_TRANSACTIONAL}) OR {_IS_CONTROL}")
    next_marker = f"""first(CASE WHEN {_IS_CONTROL} THEN key END, true) OVER (
        PARTITION BY partition, producer_id ORDER BY offset
        ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING)"""
    return few.withColumn("_marker", F.expr(next_marker)).where(f"NOT {_IS_CONTROL}")


def commits_of(commits: "DataFrame") -> "DataFrame":
    """Return the table `commits`."""
    said = F.when(F.col("commit_timestamp_ms") >= 0, F.col("commit_timestamp_ms"))
    time = F.coalesce(said, F.col("timestamp_ms"))
    known = commits.withColumn("time", instant(time))
    return selected("commits", known.withColumn("leader_epoch", F.col("commit_leader_epoch")))


def minutes_of(commits: "DataFrame") -> "DataFrame":
    """Return the table `commit_minutes`, from rows of `commits`."""
    key = ("group", "topic", "topic_partition", "minute")
    in_minute = Window.partitionBy(*key).orderBy("time", "offset")
    counted = (
        commits.where("committed_offset IS NOT NULL AND time IS NOT NULL")
        .withColumn("minute", F.date_trunc("minute", "time"))
        .withColumn("_gap", _ms("time") - F.lag(_ms("time")).over(in_minute))
    )
    order = F.struct("time", "offset")
    return selected(
        "commit_minutes",
        counted.groupBy(*key).agg(
            F.first("partition").alias("partition"),
            F.count("*").alias("commits"),
            F.min_by("committed_offset", order).alias("first_offset"),
            F.max_by("committed_offset", order).alias("last_offset"),
            F.min("time").alias("first_time"),
            F.max("time").alias("last_time"),
            F.max("_gap").alias("longest_gap_ms"),
        ),
    )


def lag_of(minutes: "DataFrame", data: Sequence[str]) -> "DataFrame":
    """The table `lag`, from rows of `commit_minutes` and the topics' logs in data folders."""
    schema = TABLES["lag"].schema

    def lags(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        of = Lags(data)
        for batch in batches:
            rows = pa.Table.from_batches([batch]).cast(TABLES["commit_minutes"].schema)
            yield from of.of(rows).cast(grouped.of_spark(schema)).to_batches()

    of_topics = minutes.repartition("topic", "topic_partition")
    return of_topics.mapInArrow(lags, from_arrow_schema(schema))


# -- the history of groups -------------------------------------------------------------------------


def fed(logs: Logs, covered: "DataFrame", before: "DataFrame") -> "DataFrame":
    """Return rows of `grouped.FED`, the input of the folds. `covered`: coverage of the records;
    `before`: states of groups.
    """
    made = logs.records.mapInArrow(grouped.feed, from_arrow_schema(grouped.FED))
    known = F.broadcast(covered.select("partition", "known_from", "lost_until"))
    of_records = made.drop("known_from", "lost_until").join(known, "partition", "left")
    sound = logs.events.where(_IS_EVENT)
    of_groups = sound.where(F.col("group").isNotNull()).select("partition", "group", _event())
    groups = of_groups.select("partition", "group").union(before.select("partition", "group"))
    is_load = F.col("type").isin(*_OF_PARTITION) & F.col("group").isNull()
    loads = sound.where(is_load).select("partition", _event(None))
    of_partition = loads.join(groups.distinct(), "partition")
    news = of_records
    for each in (of_groups, of_partition):
        news = news.unionByName(each, allowMissingColumns=True)
    touched = news.select("partition", "group").distinct()
    known_before = before.join(touched, ["partition", "group"], "left_semi")
    return news.drop("before").unionByName(known_before, allowMissingColumns=True)


_IS_EVENT: Final = "type IS NOT NULL AND problem IS NULL"


def _event(group: str | None = "group") -> "Column":
    """Return the event struct of `grouped.FED`; `group` None leaves its group null."""
    columns = {"at_ms": _ms("time"), "group": F.col(group) if group else F.lit(None)}
    kind = from_arrow_schema(grouped.FED)["event"].dataType
    parts = [
        columns.get(each.name, F.col(each.name)).cast(each.dataType).alias(each.name)
        for each in kind
    ]
    return F.struct(*parts).alias("event")


def fold(rows: "DataFrame", names: Mapping[bytes, str]) -> "DataFrame":
    """Turn rows of `grouped.FED` into rows of `grouped.FOLDED`."""

    def folded(key: tuple[pa.Scalar, ...], some: pa.Table) -> pa.Table:
        return grouped.fold((key[0], key[1]), some, names)

    return rows.groupBy("partition", "group").applyInArrow(
        folded, from_arrow_schema(grouped.FOLDED)
    )


def _rows_of(folded: "DataFrame", name: str, *, is_open: bool) -> "DataFrame":
    """Return the rows of one table."""
    of = (F.col("made") == name) & (F.col("is_open") == F.lit(is_open))
    return folded.where(of).select(f"{name}.*")


def events_of(events: "DataFrame") -> "DataFrame":
    """Return the table `events`."""
    return selected("events", events.where(_IS_EVENT))


# -- partitions of the logs ------------------------------------------------------------------------


def cover(records: "DataFrame", before: "DataFrame") -> "DataFrame":
    """Return a row of `grouped.COVERED` for each partition of `__consumer_offsets`."""
    spans = records.mapInArrow(grouped.span, from_arrow_schema(grouped.SPANS)).drop("before")
    return _covered(spans, before, OFFSETS, grouped.cover)


def cover_events(events: "DataFrame", before: "DataFrame") -> "DataFrame":
    """Return a row of `grouped.COVERED` for each partition of `__group_events`."""
    fields = F.when(F.col("type").isin(*_OF_EPOCHS), F.col("fields"))
    few = events.where("offset IS NOT NULL").withColumn("fields", fields)
    rows = few.select("partition", _event()).select("partition", "event.*")
    return _covered(rows, before, EVENTS, grouped.cover_events)


def _covered(
    rows: "DataFrame", before: "DataFrame", log: str, covers: Callable[..., pa.Table]
) -> "DataFrame":
    states = before.where(F.col("log") == log).selectExpr("partition", "state AS before")
    both = rows.unionByName(states, allowMissingColumns=True)
    made = both.groupBy("partition").applyInArrow(covers, from_arrow_schema(grouped.COVERED))
    return made.withColumn("log", F.lit(log))


# -- columns ---------------------------------------------------------------------------------------


def selected(name: str, rows: "DataFrame") -> "DataFrame":
    """Return the columns of a table, with their types."""
    schema = from_arrow_schema(TABLES[name].schema)
    return rows.select(*(F.col(f"`{each.name}`").cast(each.dataType) for each in schema))


def with_day(name: str, rows: "DataFrame") -> "DataFrame":
    """Add the column `day`, by which a table is partitioned."""
    of = DAYS[name]
    time = instant(F.col(of)) if of == "timestamp_ms" else F.col(f"`{of}`")
    return rows.withColumn("day", F.to_date(time))


def saved(
    rows: "DataFrame", form: str, out: str, name: str, partitions: Sequence[str] = ()
) -> "DataFrame":
    """Write a table in one of Spark's formats, replacing its previous content, and return it as
    read back. `out` is a folder or, for `iceberg`, a namespace of a catalog of the session.
    """
    spark = rows.sparkSession
    if form == ICEBERG:
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {out}")
        table = f"{out}.{name.replace('/', '_')}"
        writer = rows.writeTo(table).using(form)
        if partitions:
            writer = writer.partitionedBy(*map(F.col, partitions))
        writer.createOrReplace()
        return spark.read.table(table)
    place = f"{out}/{name}"
    rows.write.format(form).mode("overwrite").partitionBy(*partitions).save(place)
    read = spark.read.format(form)
    if form in _WITHOUT_SCHEMA:
        read = read.schema(rows.schema)
    return read.load(place)


ICEBERG: Final = "iceberg"
"""Its tables are named in a catalog instead of being folders."""
_WITHOUT_SCHEMA: Final = frozenset({"parquet", "orc", "csv", "json"})
"""In these formats a table without rows is a folder without files, which has no schema."""


def instant(milliseconds: "Column") -> "Column":
    """Return a time; null if it is negative (unknown) or after the year 9999."""
    return F.when(milliseconds.between(0, LAST_MS), F.timestamp_millis(milliseconds))


def _ms(name: str) -> "Column":
    return F.unix_millis(F.col(name))
