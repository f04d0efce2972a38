"""Decodes the values of group records into generations, members and assignments.

Plain Python, because group records are few compared with commits. Each record is decoded alone;
`groupkeeper.analytics.pipeline.group_table` compares consecutive ones.
"""

from typing import Final

import pyarrow as pa

from groupkeeper.analytics.reading.problems import Problem
from groupkeeper.protocol.embedded import decode_assignment, subscribed_topics
from groupkeeper.protocol.errors import DecodeError
from groupkeeper.protocol.records.consumer_offsets import MemberMetadata, decode_group_value

ASSIGNMENT_TYPE: Final = pa.list_(
    pa.struct([("topic", pa.string()), ("partitions", pa.list_(pa.int32()))])
)
Row = dict[str, object]


def decode_row(row: Row) -> Row:
    """A row about a group record with its `value` -> without it, and with what the value holds. If
    it cannot be decoded, `problem` says why instead; a tombstone has no value.
    """
    value = row.pop("value")
    if not isinstance(value, bytes):
        return row
    try:
        group = decode_group_value(value)
    except DecodeError as error:
        return {**row, "problem": f"{Problem.BAD_VALUE.text}: {error}"}
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
