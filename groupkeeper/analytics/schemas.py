"""The tables of an analysis: names, types and meanings of their columns.

docs/analytics-tables.md is generated from here. All rows derive from the log alone, without any
setting of the coordinator. Times are UTC; columns that end in `_ms` are durations.

Where a log has group events, `source` is `events`, and rows state what the coordinator stored.
Otherwise it is `log`: rows were inferred from group records and commits, with a `confidence` from 0
to 1. Inferred rows are complete from `known_from_offset` of their partition on (table `coverage`).
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
    """`about` states the meaning of a value, and of null."""

    name: str
    type: pa.DataType
    about: str


@dataclass(frozen=True, slots=True)
class Table:
    """`day_of` is the column whose date selects the folder (`day=2026-11-22`) of a row; `key`
    columns identify rows that are still `open`, which a later analysis replaces.
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
    Column("offset", LONG, "Offset in that log of the last record of evidence."),
)
_TP: Final = (
    Column("topic", TEXT, "Topic."),
    Column("topic_partition", INT, "Partition of the topic."),
)
_MEMBER: Final = (
    Column("member", TEXT, "Member id."),
    Column("instance", TEXT, "`group.instance.id`; null for a dynamic member."),
    Column("client_id", TEXT, "`client.id`; null if unknown."),
    Column("host", TEXT, "Address without the slash; null if unknown."),
    Column("software", TEXT, "Name and version of the client library; null if unknown."),
)
_SOURCE: Final = (
    Column("source", TEXT, "`events`, or `log` for inferred rows."),
    Column("confidence", REAL, "1 for events; 0 to 1 for inferred rows."),
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
                Column("mono_ms", LONG, "Monotonic clock, for durations within an epoch."),
                Column("type", TEXT, "Type of the event (docs/events.md)."),
                Column("generation", INT, "Generation of the group after it."),
                Column("state", TEXT, "State of the group after it."),
                Column("round", INT, "Number of the rebalance; 0 outside of one."),
                Column("cause", TEXT, "Code of its cause; null if it has none."),
                Column("likely", TEXT, "Probable reason; null without evidence."),
                *_MEMBER,
                Column("fields", TEXT, "The fields of its type, as JSON."),
            ),
            "time",
            ("partition", "offset"),
        ),
        Table(
            "rounds",
            "Rebalances, from their trigger to the new assignments.",
            (
                _GROUP,
                *_LOG_PLACE,
                Column("epoch", INT, "Leader epoch of the coordinator; null if inferred."),
                Column("round", INT, "Number within the epoch; null if inferred."),
                Column("generation", INT, "The new one; the old one if the join did not end."),
                Column("started", TIME, "Null if the start was not read."),
                Column("ended", TIME, "Null while it is under way."),
                Column(
                    "outcome",
                    TEXT,
                    "`completed`, `emptied` (no member was left), `superseded` (by the next), "
                    "`lost` (with its coordinator) or `under_way`.",
                ),
                Column("cause", TEXT, "Code of the first cause; `unknown` if it was not found."),
                Column("likely", TEXT, "Probable reason behind the cause; null without evidence."),
                Column("reason", TEXT, "The reason that the client sent; null if none."),
                Column("more_causes", TEXTS, "Codes of further causes while it was under way."),
                Column("by_member", TEXT, "Member that triggered it: member id; null if none."),
                Column("by_instance", TEXT, "The same: instance id."),
                Column("by_client_id", TEXT, "The same: client id."),
                Column("by_host", TEXT, "The same: address."),
                Column("by_software", TEXT, "The same: client library."),
                Column("from_state", TEXT, "State of the group before."),
                Column("protocol", TEXT, "Elected protocol: the assignor."),
                Column("is_cooperative", YES, "Whether members kept partitions; null if unknown."),
                Column("members", INT, "Number of members that joined the round."),
                Column("joined", INT, "Number of new members."),
                Column("removed", INT, "Number of members that left or were removed."),
                Column("replaced", INT, "Number of static members that returned with a new id."),
                Column("missing", TEXTS, "Ids of members that did not rejoin in time."),
                Column("ended_by", TEXT, "Join phase: `all_joined` or `timeout`."),
                Column("join_ms", LONG, "Length of the join phase."),
                Column("leader_ms", LONG, "From the end of the join to the leader's SyncGroup."),
                Column("duration_ms", LONG, "Length of the whole rebalance."),
                Column("last_member", TEXT, "Member that joined last: member id."),
                Column("last_instance", TEXT, "The same: instance id."),
                Column("last_client_id", TEXT, "The same: client id."),
                Column("last_host", TEXT, "The same: address."),
                Column(
                    "held_ms",
                    LONG,
                    "How much later it joined than the member before; null: alone, or not stored.",
                ),
                Column("partitions", INT, "Number of assigned partitions."),
                Column("moved", INT, "Partitions with another owner than before."),
                Column(
                    "unowned_ms",
                    LONG,
                    "Sum over partitions of the time without an owner until it completed, "
                    "including rebalances that it superseded; null if unknown.",
                ),
                Column("away_ms", LONG, "Longest absence of a returning member; null if none."),
                *_SOURCE,
            ),
            "ended",
            ("group", "epoch", "round", "generation", "started"),
        ),
        Table(
            "ownership",
            "Owners of partitions over time, and times without an owner.",
            (
                _GROUP,
                *_TP,
                Column("from", TIME, "When it got, or lost, this owner; null if unknown."),
                Column("until", TIME, "When that changed; null if it lasts."),
                Column("duration_ms", LONG, "Null if it lasts."),
                *_MEMBER,
                Column("is_owned", YES, "False: no owner; `member` and so on are null."),
                Column("generation", INT, "Generation in which it began."),
                *_LOG_PLACE,
                *_SOURCE,
            ),
            "from",
            ("group", "topic", "topic_partition", "from"),
        ),
        Table(
            "sessions",
            "Members, from join to end, under one member id.",
            (
                _GROUP,
                *_MEMBER,
                Column("from", TIME, "Null if the join was not read."),
                Column("until", TIME, "Null: still a member, or, with `ended_by`, unknown."),
                Column(
                    "began_as",
                    TEXT,
                    "`dynamic`, `static`, `replaced` (a static member returned), `loaded` (its "
                    "end was lost with a coordinator) or `unknown`.",
                ),
                Column(
                    "ended_by",
                    TEXT,
                    "Code of the cause of its removal, `replaced`, `lost` (with a coordinator, "
                    "before it was stored) or `unknown` (noticed later); null: still a member.",
                ),
                Column("likely", TEXT, "Probable reason for its end; null without evidence."),
                Column("reason", TEXT, "The reason that the client sent at its end; null if none."),
                Column("old_member", TEXT, "Former id of a static member that returned."),
                Column("away_ms", LONG, "Absence of the same client before; null if new."),
                Column("silent_ms", LONG, "Time from its last request to the end."),
                Column("connection", TEXT, "`open` or `closed` at the end; null if unknown."),
                Column("session_timeout_ms", LONG, "`session.timeout.ms`."),
                Column("rebalance_timeout_ms", LONG, "`max.poll.interval.ms` of most clients."),
                Column("heartbeats", LONG, "Number of heartbeats as last stored; null if not."),
                Column("longest_gap_ms", LONG, "Longest time between two; null if not stored."),
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
                Column("time", TIME, "Time of the last request."),
                Column("first", TIME, "Time of the first request."),
                *_MEMBER,
                Column("api", TEXT, "Name of the request."),
                Column("error", TEXT, "Kafka's name of the error."),
                Column("count", LONG, "Number of refused requests."),
                Column("generation", INT, "Generation of the group then."),
                Column("round", INT, "Rebalance under way then; 0 outside of one."),
                Column("current_member", TEXT, "Present holder of the instance id, if fenced."),
                Column("current_host", TEXT, "Address of that member."),
                Column("likely", TEXT, "Probable reason; null without evidence."),
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
                Column("unwritten", INT, "Number of generations before it without a record."),
                Column("protocol_type", TEXT, "`consumer` or another; null if empty."),
                Column("protocol", TEXT, "Elected protocol; null if empty."),
                Column("leader", TEXT, "Member id of the leader."),
                Column("state_time", TIME, "When the join phase ended; null before version 2."),
                Column("members", INT, "Number of members."),
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
                Column("time", TIME, "Time of the group record."),
                Column("generation", INT, "Generation in the group record."),
                *_MEMBER[:4],
                Column("is_leader", YES, "Whether it computes the assignments."),
                Column("session_timeout_ms", LONG, "`session.timeout.ms`."),
                Column("rebalance_timeout_ms", LONG, "`max.poll.interval.ms` of most clients."),
                Column("subscription_version", INT, "Consumer protocol version; null if unknown."),
                Column("topics", TEXTS, "Subscribed topics; null if unknown."),
                Column("owned_partitions", INT, "As sent in its join (KIP-429); null if not sent."),
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
                Column("time", TIME, "Time of the group record."),
                Column("generation", INT, "Generation in the group record."),
                Column("member", TEXT, "Member id."),
                *_TP,
            ),
            "time",
            ("partition", "offset", "member", "topic", "topic_partition"),
        ),
        Table(
            "commits",
            "Committed offsets, one row per record; transactional ones only if committed.",
            (
                _GROUP,
                *_TP,
                *_LOG_PLACE,
                Column("time", TIME, "When it was committed."),
                Column("committed_offset", LONG, "Null: the commit was removed."),
                Column("leader_epoch", INT, "Leader epoch of the topic partition; -1: none."),
                Column("metadata", TEXT, "Metadata of the client."),
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
                Column("minute", TIME, "Start of the minute."),
                Column("partition", INT, "Partition of the log."),
                Column("commits", LONG, "Number of commits."),
                Column("first_offset", LONG, "The first committed offset."),
                Column("last_offset", LONG, "The last committed offset."),
                Column("first_time", TIME, "Time of the first commit."),
                Column("last_time", TIME, "Time of the last commit."),
                Column("longest_gap_ms", LONG, "Longest time between two; null for a single one."),
            ),
            "minute",
            ("group", "topic", "topic_partition", "minute"),
        ),
        Table(
            "lag",
            "Lag of commits behind the ends of their partitions, a row for each of "
            "`commit_minutes` with a known end: see docs/analytics.md.",
            (
                _GROUP,
                *_TP,
                Column("time", TIME, "Time of the last commit of a minute."),
                Column("committed_offset", LONG, "Offset of that commit."),
                Column("end_offset", LONG, "End of the partition then: after its last batch."),
                Column("lag", LONG, "Offsets between them; 0 if the commit is ahead."),
                Column("lag_ms", LONG, "Age of the next record; 0 if none; null: see `note`."),
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
            "The coordinators that wrote the parts of the log.",
            (
                Column("log", TEXT, "`__consumer_offsets` or `__group_events`."),
                Column("partition", INT, "Partition of that log."),
                Column("epoch", INT, "Leader epoch."),
                Column("node", INT, "Node id; null without an event."),
                Column("from", TIME, "Time of the first record."),
                Column("until", TIME, "Time of the last record."),
                Column("first_offset", LONG, "Offset of the first record."),
                Column("last_offset", LONG, "Offset of the last record."),
                Column("loaded", TIME, "When the partition was loaded; null without an event."),
                Column("load_ms", LONG, "Duration of the load."),
                Column("groups", INT, "Number of groups loaded."),
                Column("closed", TIME, "When it was closed; null without an event."),
                Column("why_closed", TEXT, "Reason for the close."),
                Column("not_back", INT, "Number of members that did not return after the load."),
            ),
            "from",
            ("log", "partition", "epoch", "first_offset"),
        ),
        Table(
            "coverage",
            "The part of a log partition that was read, and from where on it is complete.",
            (
                Column("log", TEXT, "`__consumer_offsets` or `__group_events`."),
                Column("partition", INT, "Partition of that log."),
                Column("first_offset", LONG, "Offset of the first record that was read."),
                Column("last_offset", LONG, "Offset of the last record."),
                Column("from", TIME, "Time of the first record."),
                Column("until", TIME, "Time of the last record."),
                Column("known_from_offset", LONG, "Nothing was compacted or lost from here on."),
                Column("known_from", TIME, "Time of the record at that offset."),
                Column("records", LONG, "Number of records read."),
            ),
            "from",
            ("log", "partition"),
        ),
    )
}
"""Name -> table."""
