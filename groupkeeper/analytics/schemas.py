"""The tables of an analysis: names, types and meanings of their columns.

docs/analytics-tables.md is generated from here. Rows of all tables are found from the log alone,
without any setting of the coordinator. Times are UTC; columns that end in `_ms` are durations.

Where a log has group events, `source` is `events`, and rows say what the coordinator stored.
Otherwise it is `log`: rows were inferred from group records and commits, and `confidence` (0 to 1)
says how sure that is. Inferred rows are complete from `known_from_offset` of their partition on
(table `coverage`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from groupkeeper.history import rows

EVENTS: Final = rows.EVENTS
LOG: Final = rows.LOG
"""Values of `source`."""

TEXT: Final = pa.string()
INT: Final = pa.int32()
LONG: Final = pa.int64()
REAL: Final = pa.float64()
YES: Final = pa.bool_()
TIME: Final = pa.timestamp("ms", tz="UTC")
TEXTS: Final = pa.list_(pa.string())
INTS: Final = pa.list_(pa.int32())


@dataclass(frozen=True, slots=True)
class Column:
    """`about` says what a value means, and when there is none."""

    name: str
    type: pa.DataType
    about: str


@dataclass(frozen=True, slots=True)
class Table:
    """`day_of` is the column whose date says in which folder `day=2026-11-22` a row is; `key` are
    the columns that tell rows apart, for those that are still `open`: a later analysis replaces
    them.
    """

    name: str
    about: str
    columns: tuple[Column, ...]
    day_of: str
    key: tuple[str, ...]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(each.name, each.type) for each in self.columns])


_GROUP: Final = Column("group", TEXT, "Group id.")
_LOG_PLACE: Final = (
    Column("partition", INT, "Partition of the log (`__consumer_offsets`, `__group_events`)."),
    Column("offset", LONG, "Offset in that log of the last record that says so: the evidence."),
)
_TP: Final = (
    Column("topic", TEXT, "Topic."),
    Column("topic_partition", INT, "Partition of the topic."),
)
_MEMBER: Final = (
    Column("member", TEXT, "Member id."),
    Column("instance", TEXT, "`group.instance.id`; null for a dynamic member."),
    Column("client_id", TEXT, "`client.id`; null if it is not known."),
    Column("host", TEXT, "Address without the slash; null if it is not known."),
    Column("software", TEXT, "Name and version of the client library; null if it is not known."),
)
_SOURCE: Final = (
    Column("source", TEXT, "`events`, or `log` for what was inferred."),
    Column("confidence", REAL, "1 for events; of what was inferred how sure it is, 0 to 1."),
)

TABLES: Final[Mapping[str, Table]] = {
    table.name: table
    for table in (
        Table(
            "events",
            "Group events as they were stored.",
            (
                _GROUP,
                *_LOG_PLACE,
                Column("time", TIME, "When it happened."),
                Column("epoch", INT, "Leader epoch of the writer: (epoch, seq) is the order."),
                Column("seq", LONG, "Rises with each event of the partition within an epoch."),
                Column("node", INT, "Node id of the coordinator."),
                Column("mono_ms", LONG, "Monotonic clock: for durations within an epoch."),
                Column("type", TEXT, "Type of the event (docs/events.md)."),
                Column("generation", INT, "Generation of the group after it."),
                Column("state", TEXT, "State of the group after it."),
                Column("round", INT, "Number of the rebalance; 0 outside of one."),
                Column("cause", TEXT, "Code of its cause; null if it has none."),
                Column("likely", TEXT, "What probably is behind it; null without evidence."),
                *_MEMBER,
                Column("fields", TEXT, "The fields of its type, as JSON."),
            ),
            "time",
            ("partition", "offset"),
        ),
        Table(
            "rounds",
            "Rebalances: from what triggered one to the new assignments.",
            (
                _GROUP,
                *_LOG_PLACE,
                Column("epoch", INT, "Leader epoch of the coordinator; null if inferred."),
                Column("round", INT, "Number within the epoch; null if inferred."),
                Column("generation", INT, "The new generation, or the last one before."),
                Column("started", TIME, "Null if the beginning was not read."),
                Column("ended", TIME, "Null while it is under way."),
                Column(
                    "outcome",
                    TEXT,
                    "`completed`, `emptied` (no member was left), `superseded` (by the next), "
                    "`lost` (with its coordinator) or `under_way`.",
                ),
                Column("cause", TEXT, "Code of the first cause; `unknown` if it was not found."),
                Column("likely", TEXT, "What probably is behind it; null without evidence."),
                Column("reason", TEXT, "The client's own words; null without."),
                Column("more_causes", TEXTS, "Codes of further causes while it was under way."),
                Column("by_member", TEXT, "Who triggered it: member id; null if nobody did."),
                Column("by_instance", TEXT, "The same: instance id."),
                Column("by_client_id", TEXT, "The same: client id."),
                Column("by_host", TEXT, "The same: address."),
                Column("by_software", TEXT, "The same: client library."),
                Column("from_state", TEXT, "State of the group before."),
                Column("protocol", TEXT, "Elected protocol: the assignor."),
                Column("is_cooperative", YES, "Members kept partitions meanwhile; null: unknown."),
                Column("members", INT, "How many joined."),
                Column("joined", INT, "Members that are new in the group."),
                Column("removed", INT, "Members that are gone from it."),
                Column("replaced", INT, "Static members that came back with a new id."),
                Column("missing", TEXTS, "Ids of members that did not rejoin in time."),
                Column("ended_by", TEXT, "Join phase: `all_joined` or `timeout`."),
                Column("join_ms", LONG, "Length of the join phase."),
                Column("leader_ms", LONG, "From its end to the leader's SyncGroup."),
                Column("duration_ms", LONG, "The whole."),
                Column("last_member", TEXT, "Who joined last: member id."),
                Column("last_instance", TEXT, "The same: instance id."),
                Column("last_client_id", TEXT, "The same: client id."),
                Column("last_host", TEXT, "The same: address."),
                Column(
                    "held_ms",
                    LONG,
                    "How much later it joined than the one before it; null: alone, or not stored.",
                ),
                Column("partitions", INT, "How many were assigned."),
                Column("moved", INT, "Partitions with another owner than before."),
                Column(
                    "unowned_ms",
                    LONG,
                    "Sum over partitions of the time without an owner that it ended, with that of "
                    "rebalances that it superseded; null if unknown.",
                ),
                Column("away_ms", LONG, "How long a member was gone that came back."),
                *_SOURCE,
            ),
            "ended",
            ("group", "epoch", "round", "generation", "started"),
        ),
        Table(
            "ownership",
            "Who owned a partition from when to when, and when nobody did.",
            (
                _GROUP,
                *_TP,
                Column("from", TIME, "Its assignment was stored, or its end; null: not known."),
                Column("until", TIME, "When its owner left, gave it up or lost it; null: still."),
                Column("duration_ms", LONG, "Null: still."),
                *_MEMBER,
                Column("is_owned", YES, "False: nobody owned it; `member` and so on are null."),
                Column("generation", INT, "In which it began."),
                *_LOG_PLACE,
                *_SOURCE,
            ),
            "from",
            ("group", "topic", "topic_partition", "from"),
        ),
        Table(
            "sessions",
            "From the join of a member to its end, under one member id.",
            (
                _GROUP,
                *_MEMBER,
                Column("from", TIME, "Null if the join was not read."),
                Column("until", TIME, "Null: still a member, or, with `ended_by`, not known."),
                Column(
                    "began_as",
                    TEXT,
                    "`dynamic`, `static`, `replaced`, `loaded` (its end was lost with a "
                    "coordinator) or `unknown`.",
                ),
                Column(
                    "ended_by",
                    TEXT,
                    "Code of the cause of its removal, `replaced`, `lost` (with a coordinator, "
                    "before it was stored) or `unknown` (seen later); null: still.",
                ),
                Column("likely", TEXT, "What probably is behind its end; null without evidence."),
                Column("reason", TEXT, "The client's own words at its end; null without."),
                Column("old_member", TEXT, "Of a static member that came back: its id before."),
                Column("away_ms", LONG, "How long the same client was gone before; null: new."),
                Column("silent_ms", LONG, "At the end: since its last request."),
                Column("connection", TEXT, "At the end: `open` or `closed`; null: unknown."),
                Column("session_timeout_ms", LONG, "`session.timeout.ms`."),
                Column("rebalance_timeout_ms", LONG, "`max.poll.interval.ms` of most clients."),
                Column("heartbeats", LONG, "How many came, as stored last; null: not stored."),
                Column("longest_gap_ms", LONG, "Longest time between two; null: not stored."),
                *_LOG_PLACE,
                *_SOURCE,
            ),
            "from",
            ("group", "member", "from"),
        ),
        Table(
            "refusals",
            "Requests that were refused: stale, fenced or unknown members.",
            (
                _GROUP,
                *_LOG_PLACE,
                Column("time", TIME, "Of the last one."),
                Column("first", TIME, "Of the first one."),
                *_MEMBER,
                Column("api", TEXT, "Name of the request."),
                Column("error", TEXT, "Kafka's name of the error."),
                Column("count", LONG, "How many."),
                Column("generation", INT, "Of the group then."),
                Column("round", INT, "Rebalance under way then; 0 outside of one."),
                Column("current_member", TEXT, "Who has the instance id now, if it was fenced."),
                Column("current_host", TEXT, "Its address."),
                Column("likely", TEXT, "What probably is behind it; null without evidence."),
            ),
            "time",
            ("partition", "offset"),
        ),
        Table(
            "snapshots",
            "Group records: the state of a group each time it was written.",
            (
                _GROUP,
                *_LOG_PLACE,
                Column("time", TIME, "When it was written."),
                Column("kind", TEXT, "What changed: see docs/analytics.md."),
                Column("generation", INT, "Null in a tombstone."),
                Column("unwritten", INT, "Generations before it that have no record."),
                Column("protocol_type", TEXT, "`consumer` or another; null if empty."),
                Column("protocol", TEXT, "Elected protocol; null if empty."),
                Column("leader", TEXT, "Member id of the leader."),
                Column("state_time", TIME, "When the join phase ended; null before version 2."),
                Column("members", INT, "How many it has."),
            ),
            "time",
            ("partition", "offset"),
        ),
        Table(
            "members",
            "Members in group records.",
            (
                _GROUP,
                *_LOG_PLACE,
                Column("time", TIME, "Of the group record."),
                Column("generation", INT, "Of the group record."),
                *_MEMBER[:4],
                Column("is_leader", YES, "It makes the assignments."),
                Column("session_timeout_ms", LONG, "`session.timeout.ms`."),
                Column("rebalance_timeout_ms", LONG, "`max.poll.interval.ms` of most clients."),
                Column("subscription_version", INT, "Of the consumer protocol; null: unknown."),
                Column("topics", TEXTS, "Subscribed topics; null: unknown."),
                Column("owned_partitions", INT, "Told when it joined (KIP-429); null: not told."),
                Column("assigned_partitions", INT, "Null if the bytes are of another protocol."),
            ),
            "time",
            ("partition", "offset", "member"),
        ),
        Table(
            "assignments",
            "Partitions of members in group records.",
            (
                _GROUP,
                *_LOG_PLACE,
                Column("time", TIME, "Of the group record."),
                Column("generation", INT, "Of the group record."),
                Column("member", TEXT, "Member id."),
                *_TP,
            ),
            "time",
            ("partition", "offset", "member", "topic", "topic_partition"),
        ),
        Table(
            "commits",
            "Committed offsets, one row a record; of transactions those that were committed.",
            (
                _GROUP,
                *_TP,
                *_LOG_PLACE,
                Column("time", TIME, "When it was committed."),
                Column("committed_offset", LONG, "Null: the commit was removed."),
                Column("leader_epoch", INT, "Of the topic; -1: none."),
                Column("metadata", TEXT, "The client's own text."),
                Column("producer_id", LONG, "-1 outside of transactions."),
            ),
            "time",
            ("partition", "offset"),
        ),
        Table(
            "commit_minutes",
            "Commits per minute.",
            (
                _GROUP,
                *_TP,
                Column("minute", TIME, "Its beginning."),
                Column("partition", INT, "Of the log."),
                Column("commits", LONG, "How many."),
                Column("first_offset", LONG, "The first committed offset."),
                Column("last_offset", LONG, "The last committed offset."),
                Column("first_time", TIME, "Of the first one."),
                Column("last_time", TIME, "Of the last one."),
                Column("longest_gap_ms", LONG, "Between two of them; null for a single one."),
            ),
            "minute",
            ("group", "topic", "topic_partition", "minute"),
        ),
        Table(
            "lag",
            "How far commits were behind the ends of their partitions, a row for each of "
            "`commit_minutes` whose end is known: see docs/analytics.md.",
            (
                _GROUP,
                *_TP,
                Column("time", TIME, "Of the last commit of a minute."),
                Column("committed_offset", LONG, "That commit."),
                Column("end_offset", LONG, "Of the partition then: behind its last batch."),
                Column("lag", LONG, "Offsets between them; 0 if the commit is ahead."),
                Column("lag_ms", LONG, "Age of the next record; 0: none, null: see `note`."),
                Column(
                    "note",
                    TEXT,
                    "Why `lag_ms` is null: that record is `deleted`, `compacted`, has `no_time`, "
                    "or is `unreadable`. `ahead`: the commit was beyond `end_offset`. Else null.",
                ),
            ),
            "time",
            ("group", "topic", "topic_partition", "time"),
        ),
        Table(
            "epochs",
            "Which coordinator wrote which part of the log.",
            (
                Column("log", TEXT, "`__consumer_offsets` or `__group_events`."),
                Column("partition", INT, "Of that log."),
                Column("epoch", INT, "Leader epoch."),
                Column("node", INT, "Node id; null if no event says it."),
                Column("from", TIME, "First record."),
                Column("until", TIME, "Last record."),
                Column("first_offset", LONG, "Of the first record."),
                Column("last_offset", LONG, "Of the last record."),
                Column("loaded", TIME, "When the partition was loaded; null if no event says it."),
                Column("load_ms", LONG, "How long that took."),
                Column("groups", INT, "How many groups were loaded."),
                Column("closed", TIME, "When it was closed; null if no event says it."),
                Column("why_closed", TEXT, "Why it was closed."),
                Column("not_back", INT, "Members that did not come back after the load."),
            ),
            "from",
            ("log", "partition", "epoch", "first_offset"),
        ),
        Table(
            "coverage",
            "From where on a partition of the log can be relied on.",
            (
                Column("log", TEXT, "`__consumer_offsets` or `__group_events`."),
                Column("partition", INT, "Of that log."),
                Column("first_offset", LONG, "Of the first record that was read."),
                Column("last_offset", LONG, "Of the last one."),
                Column("from", TIME, "Of the first record."),
                Column("until", TIME, "Of the last record."),
                Column("known_from_offset", LONG, "Nothing was compacted or lost from here on."),
                Column("known_from", TIME, "Its time."),
                Column("records", LONG, "How many were read."),
            ),
            "from",
            ("log", "partition"),
        ),
    )
}
"""Name -> table."""
