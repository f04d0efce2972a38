"""Decodes the values of group records into generations, members and assignments.

Plain Python over Arrow batches, because group records are few compared with commits. Each record is
decoded alone; `groupkeeper.analytics.tables` compares consecutive ones.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

from groupkeeper.analytics.problems import PROBLEM_TEXTS, Problem
from groupkeeper.protocol.embedded import decode_assignment, subscribed_topics
from groupkeeper.protocol.errors import DecodeError
from groupkeeper.protocol.records.consumer_offsets import MemberMetadata, decode_group_value

ASSIGNMENT_TYPE: Final = pa.list_(
    pa.struct([("topic", pa.string()), ("partitions", pa.list_(pa.int32()))])
)
MEMBER_TYPE: Final = pa.struct(
    [
        ("member_id", pa.string()),
        ("group_instance_id", pa.string()),
        ("client_id", pa.string()),
        ("client_host", pa.string()),
        ("rebalance_timeout_ms", pa.int32()),
        ("session_timeout_ms", pa.int32()),
        ("subscribed_topics", pa.list_(pa.string())),
        ("assignment", ASSIGNMENT_TYPE),
    ]
)
SCHEMA: Final = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("group", pa.string()),
        ("tombstone", pa.bool_()),
        ("converted", pa.bool_()),
        ("value_version", pa.int16()),
        ("protocol_type", pa.string()),
        ("generation", pa.int32()),
        ("protocol", pa.string()),
        ("leader", pa.string()),
        ("state_timestamp_ms", pa.int64()),
        ("members", pa.list_(MEMBER_TYPE)),
        ("problem", pa.string()),
    ]
)
INPUT_COLUMNS: Final = (
    *("partition", "offset", "timestamp_ms", "group", "tombstone", "converted", "value"),
)

Row = dict[str, object]


def decode_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows with INPUT_COLUMNS of records with key type 2 -> rows of SCHEMA. For mapInArrow."""
    for batch in batches:
        rows = [decode_row(row) for row in batch.to_pylist()]
        yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def decode_row(row: Row) -> Row:
    """One group record. If its value cannot be decoded, its columns are null and `problem` says
    why; a tombstone has no value.
    """
    value = row.pop("value")
    if not isinstance(value, bytes):
        return row
    try:
        group = decode_group_value(value)
    except DecodeError as error:
        return {**row, "problem": f"{PROBLEM_TEXTS[Problem.BAD_VALUE]}: {error}"}
    return {
        **row,
        "value_version": int.from_bytes(value[:2], "big"),
        "protocol_type": group.protocol_type,
        "generation": group.generation,
        "protocol": group.protocol,
        "leader": group.leader,
        "state_timestamp_ms": group.current_state_timestamp,
        "members": [_member(member) for member in group.members],
    }


def _member(member: MemberMetadata) -> Row:
    """Topics and assignment are null if the bytes are not of the consumer protocol: Connect has its
    own.
    """
    return {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "rebalance_timeout_ms": member.rebalance_timeout,
        "session_timeout_ms": member.session_timeout,
        "subscribed_topics": subscribed_topics(member.subscription),
        "assignment": _assignment(member.assignment),
    }


def _assignment(data: bytes) -> list[Row] | None:
    """Bytes are empty for a member that the leader assigned nothing."""
    if not data:
        return []
    try:
        assigned = decode_assignment(data).assigned_partitions
    except DecodeError:
        return None
    return [{"topic": each.topic, "partitions": each.partitions} for each in assigned]
