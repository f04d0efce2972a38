"""Decodes records other than commits into typed columns: classic groups, and consumer (KIP-848),
share (KIP-932) and streams groups (KIP-1071). Option `decode` of `consumer_offsets`.

Most records are commits, whose columns come from the parser; only the others are decoded here, in
plain Python.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from groupkeeper.analytics.reading import columns, groups
from groupkeeper.analytics.reading.columns import GROUP_KEY_TYPE
from groupkeeper.analytics.reading.groups import FIRST_KEY_TYPE
from groupkeeper.analytics.reading.problems import Problem
from groupkeeper.analytics.sources.events import LATEST_MS
from groupkeeper.history.newer import id_text
from groupkeeper.protocol.errors import DecodeError
from groupkeeper.protocol.records.modern_groups import (
    ConsumerCurrent,
    ConsumerEpoch,
    ConsumerMember,
    Epoch,
    ShareCurrent,
    ShareMember,
    StreamsCurrent,
    StreamsMember,
    StreamsTarget,
    Target,
    TargetEpoch,
    Tasks,
    Topic,
    Value,
    decode_modern_key,
    decode_modern_value,
)

_TIME: Final = pa.timestamp("us", tz="UTC")
_CLASSIC_MEMBER: Final = pa.struct(
    [
        ("member_id", pa.string()),
        ("group_instance_id", pa.string()),
        ("client_id", pa.string()),
        ("client_host", pa.string()),
        ("rebalance_timeout_ms", pa.int32()),
        ("session_timeout_ms", pa.int32()),
        ("subscribed_topics", pa.list_(pa.string())),
        ("assignment", groups.ASSIGNMENT_TYPE),
    ]
)
_CLASSIC: Final = pa.struct(
    [
        ("protocol_type", pa.string()),
        ("generation", pa.int32()),
        ("protocol", pa.string()),
        ("leader", pa.string()),
        ("state_time", _TIME),
        ("members", pa.list_(_CLASSIC_MEMBER)),
    ]
)
_MEMBER: Final = pa.struct(
    [
        *((name, pa.string()) for name in ("instance_id", "rack_id", "client_id", "client_host")),
        ("subscribed_topics", pa.list_(pa.string())),
        ("subscribed_regex", pa.string()),
        ("rebalance_timeout_ms", pa.int32()),
        ("server_assignor", pa.string()),
        ("topology_epoch", pa.int32()),
        ("process_id", pa.string()),
    ]
)
_ASSIGNED: Final = pa.struct(
    [
        ("kind", pa.string()),
        ("topic_id", pa.string()),
        ("subtopology", pa.string()),
        ("partitions", pa.list_(pa.int32())),
    ]
)
_OF_GROUPS: Final = pa.schema(
    [
        ("member_id", pa.string()),
        ("epoch", pa.int32()),
        ("member", _MEMBER),
        ("member_epoch", pa.int32()),
        ("previous_epoch", pa.int32()),
        ("member_state", pa.int16()),
        ("assignment", pa.list_(_ASSIGNED)),
        ("classic", _CLASSIC),
        ("problem", pa.string()),
    ]
)
SCHEMA: Final = pa.schema(
    [
        *columns.SCHEMA,
        ("time", _TIME),
        ("commit_time", _TIME),
        *(field for field in _OF_GROUPS if field.name != "problem"),
    ]
)
_KINDS: Final = {
    Target: ("topics",),
    ConsumerCurrent: ("assigned", "pending_revocation"),
    ShareCurrent: ("assigned",),
    StreamsTarget: ("active", "standby", "warmup"),
    StreamsCurrent: (
        *("active", "standby", "warmup"),
        *("active_pending", "standby_pending", "warmup_pending"),
    ),
}
"""Type of value -> its fields with partitions, in the order of their rows."""

_Row = dict[str, object]


def decode(
    batches: Iterable[pa.RecordBatch], names: Sequence[str] = SCHEMA.names
) -> Iterator[pa.RecordBatch]:
    """Convert batches with all columns of `columns.SCHEMA` to the columns `names` of SCHEMA."""
    for batch in batches:
        made = {name: batch.column(name) for name in columns.SCHEMA.names}
        made["time"] = _times(batch.column("timestamp_ms"))
        made["commit_time"] = _times(batch.column("commit_timestamp_ms"))
        made |= _decoded(batch)
        yield pa.RecordBatch.from_arrays(
            [made[name] for name in names], schema=pa.schema([SCHEMA.field(name) for name in names])
        )


def _times(numbers: pa.Array) -> pa.Array:
    """Return timestamps; null for -1, Kafka's "none", and for times outside of Spark's range."""
    fits = pc.and_(pc.greater_equal(numbers, 0), pc.less(numbers, LATEST_MS))
    known = pc.if_else(fits, numbers, pa.scalar(None, pa.int64()))
    return pc.multiply(known, 1000).cast(_TIME)


def _decoded(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    kinds = batch.column("key_type")
    asked = pc.and_(pc.greater_equal(kinds, GROUP_KEY_TYPE), pc.is_null(batch.column("problem")))
    places = np.flatnonzero(asked.fill_null(False).to_numpy(zero_copy_only=False))
    few = batch.select(["key_type", "key", "value"]).take(pa.array(places)).to_pylist()
    rows = pa.Table.from_pylist([_row(record) for record in few], schema=_OF_GROUPS)
    at = np.full(batch.num_rows, -1)
    at[places] = np.arange(len(places))
    index = pa.array(at, mask=at < 0)
    found = {name: rows.column(name).combine_chunks().take(index) for name in _OF_GROUPS.names}
    found["problem"] = pc.coalesce(batch.column("problem"), found["problem"])
    return found


def _row(record: _Row) -> _Row:
    """Return a row of _OF_GROUPS; for a tombstone only the member id, if any."""
    kind, key, value = record["key_type"], record["key"], record["value"]
    assert isinstance(kind, int), "only records with a type are decoded"
    row: _Row = {}
    try:
        if kind < FIRST_KEY_TYPE:
            return {"classic": _classic(value)} if isinstance(value, bytes) else row
        assert isinstance(key, bytes), "keys of these types are kept"
        found = decode_modern_key(key)
        if found is None:
            return row
        row["member_id"] = found.member_id
        if isinstance(value, bytes):
            row |= _modern(decode_modern_value(kind, value))
    except DecodeError as error:
        row["problem"] = f"{Problem.BAD_VALUE.text}: {error}"
    return row


def _classic(value: bytes) -> _Row:
    row = groups.decode_group(value)
    time = row.pop("state_timestamp_ms")
    return row | {"state_time": time * 1000 if 0 <= time < LATEST_MS else None}


def _modern(value: Value) -> _Row:
    match value:
        case ConsumerEpoch() | Epoch():
            return {"epoch": value.epoch}
        case TargetEpoch():
            return {"epoch": value.assignment_epoch}
        case ConsumerMember() | ShareMember() | StreamsMember():
            names = [field.name for field in _MEMBER]
            return {"member": {name: getattr(value, name, None) for name in names}}
        case Target() | StreamsTarget():
            return {"assignment": _assignment(value)}
    return {
        "member_epoch": value.member_epoch,
        "previous_epoch": value.previous_epoch,
        "member_state": value.state,
        "assignment": _assignment(value),
    }


def _assignment(value: Value) -> list[_Row]:
    """Return assigned partitions. `kind` is the name of the field, and `assigned` for targets."""
    found: list[_Row] = []
    for name in _KINDS[type(value)]:
        kind = "assigned" if name == "topics" else name
        parts: Iterable[Topic | Tasks] = getattr(value, name)
        for each in parts:
            what: _Row = (
                {"topic_id": id_text(each.topic_id)}
                if isinstance(each, Topic)
                else {"subtopology": each.subtopology_id}
            )
            found.append({"kind": kind, "partitions": each.partitions} | what)
    return found
