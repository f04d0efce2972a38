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
from groupkeeper.protocol.records.modern_groups import EPOCH_TYPES

# Key of an end-transaction marker: int16 version 0, int16 type 1 (0 would be abort).
_COMMIT_MARKER = "00000001"
LAST_MS = 253_402_300_799_999
"""The end of the year 9999."""
_BY_GROUP = ("partition", "group")


def instant(milliseconds: str) -> Column:
    """A timestamp of epoch milliseconds; null if unknown (negative) or behind the year 9999."""
    number = F.col(milliseconds)
    return F.when(number.between(0, LAST_MS), F.timestamp_millis(number))


def is_commit(records: DataFrame) -> Column:
    return records.key_type.isin(*OFFSET_KEY_TYPES) & records.problem.isNull()


def group_events(records: DataFrame) -> DataFrame:
    """One row per group record, decoded, with `converted`: the same batch makes the group one of
    the consumer protocol, or a classic one again. During a compaction a record may be in two
    segments.
    """
    found = _metadata(records).where(F.col("key_type") == GROUP_KEY_TYPE)
    return found.select(*group_records.INPUT_COLUMNS).mapInArrow(
        group_records.decode_batches, from_arrow_schema(group_records.SCHEMA)
    )


def _metadata(records: DataFrame) -> DataFrame:
    """Group records and epochs of newer groups, with `converted`."""
    found = records.where(
        records.key_type.isin(GROUP_KEY_TYPE, *EPOCH_TYPES) & records.problem.isNull()
    ).dropDuplicates(["partition", "offset"])
    of_batch = Window.partitionBy(*_BY_GROUP, "batch_position")
    modern, tombstone = F.col("key_type") > GROUP_KEY_TYPE, F.col("tombstone")
    begun = F.max(modern & ~tombstone).over(of_batch)
    ended = F.max(modern & tombstone).over(of_batch)
    resumed = F.max(~modern & ~tombstone).over(of_batch)
    return found.withColumn(
        "converted",
        F.when(~modern & tombstone, begun).when(~modern, ended).otherwise(tombstone & resumed),
    )


def generations(events: DataFrame, records: DataFrame) -> DataFrame:
    """Each group record with `kind`, what it changed, and `unwritten`, the number of generations
    before it without a record; of newer groups each record of their epoch, as `generation`.
    """
    by_offset = Window.partitionBy(*_BY_GROUP).orderBy("offset")
    ids = F.array_sort(F.transform("members", lambda member: member.member_id))
    with_before = events.select(
        "*",
        ids.alias("ids"),
        F.lag("generation").over(by_offset).alias("before"),
        F.lag(ids).over(by_offset).alias("ids_before"),
    )
    classic = with_before.select(
        "group",
        "partition",
        "offset",
        instant("timestamp_ms").alias("time"),
        _kind().alias("kind"),
        "generation",
        F.size("members").alias("member_count"),
        "protocol_type",
        "protocol",
        "leader",
        F.greatest(F.lit(0), F.col("generation") - F.col("before") - 1).alias("unwritten"),
    )
    return classic.unionByName(_epochs(records), allowMissingColumns=True).orderBy(
        "group", "partition", "offset"
    )


def _epochs(records: DataFrame) -> DataFrame:
    """A value is an int16 version and an int32 epoch."""
    epoch = F.conv(F.hex(F.substring(F.col("value"), 3, 4)), 16, 10).cast("int")
    kind = F.when(F.col("converted"), "converted").when(F.col("tombstone"), "deleted")
    found = _metadata(records).where(F.col("key_type") > GROUP_KEY_TYPE)
    return found.select(
        "group",
        "partition",
        "offset",
        instant("timestamp_ms").alias("time"),
        kind.otherwise("epoch").alias("kind"),
        epoch.alias("generation"),
    )


def _kind() -> Column:
    """What a group record changed, compared with the one before it.

    The order of the cases matters: a group that becomes empty also gets a new generation.
    """
    before, now = F.col("before"), F.col("generation")
    empty = F.size("ids") == 0
    return (
        F.when(F.col("converted"), "converted")
        .when(F.col("tombstone"), "deleted")
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


def members(events: DataFrame, modern: DataFrame) -> DataFrame:
    """The current members of each group, with their assignments."""
    classic = latest(events).select("group", "leader", F.explode("members").alias("m"))
    newer = modern.select("group", F.explode("members").alias("m"))
    both = ("group_instance_id", "client_id", "client_host", "rebalance_timeout_ms")
    common = ("group", "m.member_id", *(f"m.{name}" for name in (*both, "subscribed_topics")))
    found = classic.select(
        *common,
        "m.assignment",
        (F.col("m.member_id") == F.col("leader")).alias("is_leader"),
        "m.session_timeout_ms",
    ).unionByName(newer.select(*common, "m.assignment", "m.member_epoch"), allowMissingColumns=True)
    partitions = F.transform("assignment", lambda topic: F.size(topic.partitions))
    count = F.aggregate(partitions, F.lit(0), lambda total, each: total + each)
    return found.withColumn("assigned_partitions", count).orderBy("group", "client_id", "member_id")


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
        "newest.committed_offset",
        "newest.commit_leader_epoch",
        instant("newest.commit_timestamp_ms").alias("commit_time"),
        "newest.metadata",
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


def groups(events: DataFrame, modern: DataFrame, committed: DataFrame) -> DataFrame:
    """All groups in the log. `classic` groups have a group record, `consumer`, `share` and
    `streams` ones records of these protocols, `simple` ones only committed offsets.
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
        instant("timestamp_ms").alias("last_change"),
    )
    newer = modern.select(
        "group",
        F.col("type").alias("newer_type"),
        F.col("state").alias("newer_state"),
        F.col("epoch"),
        F.size("members").alias("newer_members"),
        instant("timestamp_ms").alias("newer_change"),
    )
    counts = committed.groupBy("group").agg(
        F.count("*").alias("offsets"), F.max("commit_time").alias("last_commit")
    )
    return (
        classic.join(newer, "group", "full")
        .join(counts, "group", "full")
        .select(*_of_group())
        .orderBy("group")
    )


def _of_group() -> list[Column | str]:
    """A group is what its newest living record says, classic or not: a conversion ends the other.
    A group of which only offsets are left is a simple one.
    """
    is_classic = F.col("state").isNotNull() & (F.col("state") != "Dead")
    is_newer = ~is_classic & F.col("newer_type").isNotNull()
    is_dead = is_newer & (F.col("newer_state") == "Dead")
    is_simple = ~is_classic & F.col("offsets").isNotNull() & (~is_newer | is_dead)
    kind = F.when(is_simple, "simple").when(is_newer, F.col("newer_type")).otherwise("classic")
    state = F.when(is_simple, "Empty").when(is_newer, F.col("newer_state"))
    speaks = F.when(is_newer & F.col("newer_type").isin("consumer", "share"), F.col("newer_type"))
    return [
        "group",
        kind.alias("type"),
        state.otherwise(F.col("state")).alias("state"),
        F.coalesce(F.when(~is_simple, speaks), "protocol_type").alias("protocol_type"),
        "protocol",
        F.when(is_newer & ~is_dead, F.col("epoch"))
        .otherwise(F.col("generation"))
        .alias("generation"),
        F.when(is_newer, F.greatest("newer_members", F.lit(0)))
        .otherwise(F.coalesce("member_count", F.lit(0)))
        .alias("member_count"),
        F.coalesce("offsets", F.lit(0)).alias("offsets"),
        F.coalesce(F.greatest("last_change", "newer_change"), "last_commit").alias("last_change"),
    ]


def problems(records: DataFrame, events: DataFrame, modern: DataFrame) -> DataFrame:
    """Bytes without records, unreadable records, and group values that could not be decoded."""
    columns = ("partition", "batch_position", "offset", "problem_bytes", "problem")
    found = records.where(records.problem.isNotNull()).select(*columns)
    of_groups = ("partition", "offset", "problem")
    values = events.select(*of_groups).unionByName(modern.select(*of_groups))
    undecoded = values.where(values.problem.isNotNull()).select(
        "partition",
        F.lit(None).cast("bigint").alias("batch_position"),
        "offset",
        F.lit(None).cast("bigint").alias("problem_bytes"),
        "problem",
    )
    return found.unionByName(undecoded).orderBy("partition", "batch_position", "offset")
