"""Derives groups, members, generations and committed offsets from records, as Spark DataFrames.

The last record of a key wins, by log offset and never by timestamp, as when a coordinator loads its
log. Offsets of a transaction count once its commit marker was written. Windows are partitioned by
group and ordered by log offset: all records of a group are in one partition.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # its usual name
from pyspark.sql.pandas.types import from_arrow_schema

from groupkeeper.analytics import groups as group_records
from groupkeeper.analytics.columns import CONTROL, GROUP_KEY_TYPE, OFFSET_KEY_TYPES, TRANSACTIONAL

# Key of an end-transaction marker: int16 version 0, int16 type 1 (0 would be abort).
_COMMIT_MARKER = "00000001"
_BY_GROUP = ("partition", "group")


def is_commit(records: DataFrame) -> Column:
    return records.key_type.isin(*OFFSET_KEY_TYPES) & records.problem.isNull()


def is_rare(records: DataFrame) -> Column:
    """Everything but plain offset commits: few rows, from which most tables are made."""
    flagged = records.attributes.bitwiseAND(F.lit(TRANSACTIONAL | CONTROL)) != 0
    return (
        records.key_type.isNull()
        | ~records.key_type.isin(*OFFSET_KEY_TYPES)
        | records.problem.isNotNull()
        | flagged
    )


def group_events(records: DataFrame) -> DataFrame:
    """One row per group record, decoded. During a compaction a record may be in two segments."""
    found = records.where(
        (records.key_type == GROUP_KEY_TYPE) & records.problem.isNull()
    ).dropDuplicates(["partition", "offset"])
    return found.select(*group_records.INPUT_COLUMNS).mapInArrow(
        group_records.decode_batches, from_arrow_schema(group_records.SCHEMA)
    )


def generations(events: DataFrame) -> DataFrame:
    """Each group record with `kind`, what it changed, and `unwritten`, the number of generations
    before it without a record.
    """
    by_offset = Window.partitionBy(*_BY_GROUP).orderBy("offset")
    ids = F.array_sort(F.transform("members", lambda member: member.member_id))
    with_before = events.select(
        "*",
        ids.alias("ids"),
        F.lag("generation").over(by_offset).alias("before"),
        F.lag(ids).over(by_offset).alias("ids_before"),
    )
    return with_before.select(
        "group",
        "partition",
        "offset",
        "timestamp_ms",
        _kind().alias("kind"),
        "generation",
        F.size("members").alias("member_count"),
        "protocol_type",
        "protocol",
        "leader",
        F.greatest(F.lit(0), F.col("generation") - F.col("before") - 1).alias("unwritten"),
    ).orderBy("group", "offset")


def _kind() -> Column:
    """What a group record changed, compared with the one before it.

    The order of the cases matters: a group that becomes empty also gets a new generation.
    """
    before, now = F.col("before"), F.col("generation")
    empty = F.size("ids") == 0
    return (
        F.when(F.col("tombstone"), "deleted")
        .when(F.col("problem").isNotNull(), "unreadable")
        .when(before.isNull() & empty & (now == 0), "created")
        .when(before.isNull() & empty, "emptied")
        .when(before.isNull(), "rebalance")
        .when(now < before, "reset")
        .when(empty & (F.size("ids_before") > 0), "emptied")
        .when(now > before, "rebalance")
        .when(F.col("ids") == F.col("ids_before"), "rewrite")
        .otherwise("static replacement")
    )


def latest(events: DataFrame) -> DataFrame:
    """The last record of every group, tombstones included."""
    newest_first = Window.partitionBy(*_BY_GROUP).orderBy(F.desc("offset"))
    numbered = events.withColumn("rank", F.row_number().over(newest_first))
    return numbered.where(numbered.rank == 1).drop("rank")


def members(events: DataFrame) -> DataFrame:
    """The current members of each group, with their assignments."""
    each = latest(events).select("group", "generation", "leader", F.explode("members").alias("m"))
    partitions = F.transform("m.assignment", lambda topic: F.size(topic.partitions))
    return each.select(
        "group",
        "m.member_id",
        "m.group_instance_id",
        "m.client_id",
        "m.client_host",
        (F.col("m.member_id") == F.col("leader")).alias("is_leader"),
        "m.session_timeout_ms",
        "m.rebalance_timeout_ms",
        "m.subscribed_topics",
        "m.assignment",
        F.aggregate(partitions, F.lit(0), lambda total, count: total + count).alias(
            "assigned_partitions"
        ),
    ).orderBy("group", "client_id", "member_id")


def offsets(records: DataFrame) -> DataFrame:
    """The newest offset of every group, topic and partition, as OffsetFetch returns it."""
    commit = ("committed_offset", "commit_leader_epoch", "commit_timestamp_ms", "metadata")
    state = F.struct("offset", "tombstone", *commit, "partition")
    newest = (
        effective_commits(records)
        .groupBy("group", "topic", "topic_partition")
        .agg(F.max(state).alias("newest"))
        .where(~F.col("newest.tombstone"))
    )
    return newest.select(
        "group",
        "topic",
        "topic_partition",
        *(f"newest.{name}" for name in commit),
        "newest.partition",
        "newest.offset",
    ).orderBy("group", "topic", "topic_partition")


def effective_commits(records: DataFrame) -> DataFrame:
    """Commits and tombstones outside of transactions, or in one whose commit marker follows."""
    transactional = records.attributes.bitwiseAND(F.lit(TRANSACTIONAL)) != 0
    plain = records.where(is_commit(records) & ~transactional)
    # From the end of the log backwards: Spark keeps a running value for a frame that starts with
    # the first row, but goes through a frame that ends with the last one anew for each row.
    from_the_end = (
        Window.partitionBy("partition", "producer_id")
        .orderBy(F.desc("offset"))
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    is_marker = F.col("attributes").bitwiseAND(F.lit(CONTROL)) != 0
    marker = F.last(F.when(is_marker, F.hex("key")), ignorenulls=True).over(from_the_end)
    decided = records.where(transactional).withColumn("marker", marker)
    committed = decided.where(is_commit(decided) & ~is_marker & (decided.marker == _COMMIT_MARKER))
    return plain.unionByName(committed.drop("marker"))


def groups(events: DataFrame, others: DataFrame, committed: DataFrame) -> DataFrame:
    """All groups in the log. `classic` groups have a group record, `other` ones records of newer
    protocols (key types from 3 on, given as `others`, not decoded), `simple` ones only committed
    offsets.
    """
    classic = latest(events).select(
        "group",
        F.when(F.col("tombstone"), "Dead")
        .when(F.size("members") > 0, "Stable")
        .when(F.size("members") == 0, "Empty")
        .alias("state"),
        "protocol_type",
        "protocol",
        "generation",
        F.size("members").alias("member_count"),
        F.col("timestamp_ms").alias("last_change_ms"),
    )
    newer = (
        others.where((others.key_type > GROUP_KEY_TYPE) & others.group.isNotNull())
        .groupBy("group")
        .agg(F.max("timestamp_ms").alias("other_change_ms"))
    )
    counts = committed.groupBy("group").agg(
        F.count("*").alias("offsets"), F.max("commit_timestamp_ms").alias("last_commit_ms")
    )
    joined = classic.join(newer, "group", "full").join(counts, "group", "full")
    is_classic = F.col("state").isNotNull() & (F.col("state") != "Dead")
    simple = F.col("offsets").isNotNull() & F.col("other_change_ms").isNull()
    return joined.select(
        "group",
        F.when(is_classic, "classic")
        .when(F.col("other_change_ms").isNotNull(), "other")
        .when(simple, "simple")
        .otherwise("classic")
        .alias("type"),
        F.when(~is_classic & simple, "Empty").otherwise(F.col("state")).alias("state"),
        "protocol_type",
        "protocol",
        "generation",
        F.coalesce("member_count", F.lit(0)).alias("member_count"),
        F.coalesce("offsets", F.lit(0)).alias("offsets"),
        F.coalesce("last_change_ms", "other_change_ms", "last_commit_ms").alias("last_change_ms"),
    ).orderBy("group")


def problems(rare: DataFrame, events: DataFrame) -> DataFrame:
    """Bytes without records, unreadable records, and group values that could not be decoded."""
    columns = ("partition", "batch_position", "offset", "problem_bytes", "problem")
    found = rare.where(rare.problem.isNotNull()).select(*columns)
    undecoded = events.where(events.problem.isNotNull()).select(
        "partition",
        F.lit(None).cast("bigint").alias("batch_position"),
        "offset",
        F.lit(None).cast("bigint").alias("problem_bytes"),
        "problem",
    )
    return found.unionByName(undecoded).orderBy("partition", "batch_position", "offset")
