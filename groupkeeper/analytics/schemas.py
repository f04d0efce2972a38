"""The tables of an analysis: names, types and meanings of their columns.

docs/analytics-tables.md is generated from here. All rows derive from the log alone, without any
setting of the coordinator. Times are UTC; columns that end in `_ms` are durations.

Where a log has group events, `source` is `events`, and rows state what the coordinator stored.
Otherwise it is `log`: rows were inferred from group records and commits, with a `confidence` from 0
to 1. Inferred rows are complete from `known_from_offset` of their partition on (table `coverage`).
"""

import re
from collections.abc import Iterator, Mapping
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


_TYPES: Final = {
    "int": INT,
    "long": LONG,
    "longs": pa.list_(LONG),
    "real": REAL,
    "text": TEXT,
    "texts": TEXTS,
    "time": TIME,
    "yes": YES,
}
_COLUMN: Final = re.compile(r"(\w+) (\w+): (.*)")


def columns_of(text: str, common: Mapping[str, Column]) -> Iterator[Column]:
    """Yield columns from lines `name type: about`, continued in indented lines, and from lines of
    names of `common` columns.
    """
    for line in re.split(r"\n(?! )", text):
        told = _COLUMN.fullmatch(re.sub(r"\n +", " ", line))
        if told:
            yield Column(told[1], _TYPES[told[2]], told[3])
        else:
            yield from (common[name] for name in re.findall(r"\w+", line))


_COMMON: Final = """\
group text: Group id.
partition int: Partition of the log (`__consumer_offsets`, `__group_events`).
offset long: Offset in that log of the last record of evidence.
topic text: Topic.
topic_partition int: Partition of the topic.
member text: Member id.
instance text: `group.instance.id`; null for a dynamic member.
client_id text: `client.id`; null if unknown.
host text: Address without the slash; null if unknown.
software text: Name and version of the client library; null if unknown.
source text: `events`, or `log` for inferred rows.
confidence real: 1 for events; 0 to 1 for inferred rows."""
_OF_ALL: Final = {each.name: each for each in columns_of(_COMMON, {})}


def _table(name: str, day_of: str, key: tuple[str, ...], about: str, columns: str) -> Table:
    return Table(name, about, (*columns_of(columns, _OF_ALL),), day_of, key)


TABLES: Final[Mapping[str, Table]] = {
    table.name: table
    for table in (
        _table(
            "events",
            "time",
            ("partition", "offset"),
            "Group events as they were stored.",
            """\
group partition offset
time time: When it happened.
epoch int: Leader epoch of the writer: (epoch, seq) is the order.
seq long: Rises with each event of the partition within an epoch.
node int: Node id of the coordinator.
mono_ms long: Monotonic clock, for durations within an epoch.
type text: Type of the event (docs/events.md).
generation int: Generation of the group after it.
state text: State of the group after it.
round int: Number of the rebalance; 0 outside of one.
cause text: Code of its cause; null if it has none.
likely text: Probable reason; null without evidence.
member instance client_id host software
fields text: The fields of its type, as JSON.""",
        ),
        _table(
            "rounds",
            "ended",
            ("group", "epoch", "round", "generation", "started"),
            "Rebalances, from their trigger to the new assignments.",
            """\
group partition offset
epoch int: Leader epoch of the coordinator; null if inferred.
round int: Number within the epoch; null if inferred.
generation int: The new one; the old one if the join did not end.
started time: Null if the start was not read.
ended time: Null while it is under way.
outcome text: `completed`, `emptied` (no member was left), `superseded` (by the next), `lost` (with
  its coordinator) or `under_way`.
cause text: Code of the first cause; `unknown` if it was not found.
likely text: Probable reason behind the cause; null without evidence.
reason text: The reason that the client sent; null if none.
more_causes texts: Codes of further causes while it was under way.
by_member text: Member that triggered it: member id; null if none.
by_instance text: The same: instance id.
by_client_id text: The same: client id.
by_host text: The same: address.
by_software text: The same: client library.
from_state text: State of the group before.
protocol text: Elected protocol: the assignor.
is_cooperative yes: Whether members kept partitions; null if unknown.
members int: Number of members that joined the round.
joined int: Number of new members.
removed int: Number of members that left or were removed.
replaced int: Number of static members that returned with a new id.
missing texts: Ids of members that did not rejoin in time.
ended_by text: Join phase: `all_joined` or `timeout`.
join_ms long: Length of the join phase.
leader_ms long: From the end of the join to the leader's SyncGroup.
duration_ms long: Length of the whole rebalance.
last_member text: Member that joined last: member id.
last_instance text: The same: instance id.
last_client_id text: The same: client id.
last_host text: The same: address.
held_ms long: How much later it joined than the member before; null: alone, or not stored.
partitions int: Number of assigned partitions.
moved int: Partitions with another owner than before.
unowned_ms long: Sum over partitions of the time without an owner until it completed, including
  rebalances that it superseded; null if unknown.
away_ms long: Longest absence of a returning member; null if none.
source confidence""",
        ),
        _table(
            "ownership",
            "from",
            ("group", "topic", "topic_partition", "from"),
            "Owners of partitions over time, and times without an owner.",
            """\
group topic topic_partition
from time: When it got, or lost, this owner; null if unknown.
until time: When that changed; null if it lasts.
duration_ms long: Null if it lasts.
member instance client_id host software
is_owned yes: False: no owner; `member` and so on are null.
generation int: Generation in which it began.
partition offset source confidence""",
        ),
        _table(
            "sessions",
            "from",
            ("group", "member", "from"),
            "Members, from join to end, under one member id.",
            """\
group member instance client_id host software
from time: Null if the join was not read.
until time: Null: still a member, or, with `ended_by`, unknown.
began_as text: `dynamic`, `static`, `replaced` (a static member returned), `loaded` (its end was
  lost with a coordinator) or `unknown`.
ended_by text: Code of the cause of its removal, `replaced`, `lost` (with a coordinator, before it
  was stored) or `unknown` (noticed later); null: still a member.
likely text: Probable reason for its end; null without evidence.
reason text: The reason that the client sent at its end; null if none.
old_member text: Former id of a static member that returned.
away_ms long: Absence of the same client before; null if new.
silent_ms long: Time from its last request to the end.
connection text: `open` or `closed` at the end; null if unknown.
lost_by text: If its place was reserved until it was `replaced`: code of the cause; else null.
session_timeout_ms long: `session.timeout.ms`.
rebalance_timeout_ms long: `max.poll.interval.ms` of most clients.
heartbeats long: Number of heartbeats as last stored; null if not.
longest_gap_ms long: Longest time between two; null if not stored.
partition offset source confidence""",
        ),
        _table(
            "refusals",
            "time",
            ("partition", "offset"),
            "Requests that were refused: stale, fenced or unknown members.",
            """\
group partition offset
time time: Time of the last request.
first time: Time of the first request.
member instance client_id host software
api text: Name of the request.
error text: Kafka's name of the error.
count long: Number of refused requests.
generation int: Generation of the group then.
round int: Rebalance under way then; 0 outside of one.
current_member text: Present holder of the instance id, if fenced.
current_host text: Address of that member.
likely text: Probable reason; null without evidence.""",
        ),
        _table(
            "snapshots",
            "time",
            ("partition", "offset"),
            "Group records: the state of a group each time it was written.",
            """\
group partition offset
time time: When it was written.
kind text: What changed: see docs/analytics.md.
generation int: Null in a tombstone.
unwritten int: Number of generations before it without a record.
protocol_type text: `consumer` or another; null if empty.
protocol text: Elected protocol; null if empty.
leader text: Member id of the leader.
state_time time: When the join phase ended; null before version 2.
members int: Number of members.""",
        ),
        _table(
            "members",
            "time",
            ("partition", "offset", "member"),
            "Members in group records.",
            """\
group partition offset
time time: Time of the group record.
generation int: Generation in the group record.
member instance client_id host
is_leader yes: Whether it computes the assignments.
session_timeout_ms long: `session.timeout.ms`.
rebalance_timeout_ms long: `max.poll.interval.ms` of most clients.
subscription_version int: Consumer protocol version; null if unknown.
topics texts: Subscribed topics; null if unknown.
owned_partitions int: As sent in its join (KIP-429); null if not sent.
assigned_partitions int: Null if the bytes are of another protocol.""",
        ),
        _table(
            "assignments",
            "time",
            ("partition", "offset", "member", "topic", "topic_partition"),
            "Partitions of members in group records.",
            """\
group partition offset
time time: Time of the group record.
generation int: Generation in the group record.
member topic topic_partition""",
        ),
        _table(
            "configs",
            "time",
            ("partition", "offset"),
            "Configs of groups, each time they were stored (docs/policies.md).",
            """\
group partition offset
time time: When they were stored.
configs text: All that are set then, as a JSON object; null if none is.""",
        ),
        _table(
            "commits",
            "time",
            ("partition", "offset"),
            "Committed offsets, one row per record; transactional ones only if committed.",
            """\
group topic topic_partition partition offset
time time: When it was committed.
committed_offset long: Null: the commit was removed.
leader_epoch int: Leader epoch of the topic partition; -1: none.
metadata text: Metadata of the client.
producer_id long: -1 outside of transactions.""",
        ),
        _table(
            "commit_minutes",
            "minute",
            ("group", "topic", "topic_partition", "minute"),
            "Commits per minute.",
            """\
group topic topic_partition
minute time: Start of the minute.
partition int: Partition of the log.
commits long: Number of commits.
first_offset long: The first committed offset.
last_offset long: The last committed offset.
first_time time: Time of the first commit.
last_time time: Time of the last commit.
longest_gap_ms long: Longest time between two; null for a single one.""",
        ),
        _table(
            "lag",
            "time",
            ("group", "topic", "topic_partition", "time"),
            "Lag of commits behind the ends of their partitions, a row for each of "
            "`commit_minutes` with a known end: see docs/analytics.md.",
            """\
group topic topic_partition
time time: Time of the last commit of a minute.
committed_offset long: Offset of that commit.
end_offset long: End of the partition then: after its last batch.
lag long: Offsets between them; 0 if the commit is ahead.
lag_ms long: Age of the next record; 0 if none; null: see `note`.
note text: Why `lag_ms` is null: that record is `deleted`, `compacted`, has `no_time`, or is
  `unreadable`. `ahead`: the commit was beyond `end_offset`. Else null.""",
        ),
        _table(
            "epochs",
            "from",
            ("log", "partition", "epoch", "first_offset"),
            "The coordinators that wrote the parts of the log.",
            """\
log text: `__consumer_offsets` or `__group_events`.
partition int: Partition of that log.
epoch int: Leader epoch.
node int: Node id; null without an event.
from time: Time of the first record.
until time: Time of the last record.
first_offset long: Offset of the first record.
last_offset long: Offset of the last record.
loaded time: When the partition was loaded; null without an event.
load_ms long: Duration of the load.
groups int: Number of groups loaded.
closed time: When it was closed; null without an event.
why_closed text: Reason for the close.
not_back int: Number of members that did not return after the load.""",
        ),
        _table(
            "coverage",
            "from",
            ("log", "partition"),
            "The part of a log partition that was read, and from where on it is complete.",
            """\
log text: `__consumer_offsets` or `__group_events`.
partition int: Partition of that log.
first_offset long: Offset of the first record that was read.
last_offset long: Offset of the last record.
from time: Time of the first record.
until time: Time of the last record.
known_from_offset long: Nothing was compacted or lost from here on.
known_from time: Time of the record at that offset.
records long: Number of records read.""",
        ),
    )
}
"""Name -> table."""

ENDS: Final = _table(
    "log_ends",
    "commit_time",
    ("group", "topic", "topic_partition"),
    "The last commits of groups beside the ends of the topics' logs; made anew for each report.",
    """\
group topic topic_partition partition offset
commit_time time: Time of the last commit.
committed_offset long: Offset of that commit.
end_offset long: End of the partition, after its last batch; null if its log was not found.
end_time time: Time of that batch; null without one.
lag long: Offsets between them; 0 if the commit is ahead; null if unknown.
waiting_since time: Time of the record at the committed offset; null if none waits, or see `note`.
note text: Why `waiting_since` is null, as in table `lag`.""",
)
