"""OffsetFetch: reads the committed offsets of groups.

Version 8 takes several groups (KIP-709); Kafka defines their topics twice, with the same fields.
"""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to, since, struct, until
from groupkeeper.protocol.types import (
    Array,
    Boolean,
    Int16,
    Int32,
    Int64,
    NullableArray,
    NullableString,
    String,
)


@struct
class OffsetFetchRequestTopics:
    """Partitions of one topic."""

    name: String = ""
    partition_indexes: Array[Int32] = empty()
    """Partitions to look up."""


@struct
class OffsetFetchRequestGroup:
    """A group to look up; version 9 adds the member (KIP-848)."""

    group_id: String = since(8)
    member_id: NullableString = since(9, default=None)
    """Id of the member (KIP-848); null to check none."""
    member_epoch: Int32 = since(9, default=-1)
    """Epoch of the member; -1 to check none."""
    topics: NullableArray[OffsetFetchRequestTopics] = since(8)
    """Partitions to look up; null asks for all that the group committed."""


@message(key=ApiKey.OFFSET_FETCH, versions=(0, 9), flexible=6)
class OffsetFetchRequest:
    """Requests the offsets of one group in the message itself up to version 7, of `groups` from 8
    on.

    Version 7 can refuse offsets of open transactions (KIP-447).
    """

    group_id: String = until(7)
    topics: NullableArray[OffsetFetchRequestTopics] = until(7, nullable_since=2)
    """Partitions to look up; null asks for all that the group committed."""
    groups: Array[OffsetFetchRequestGroup] = since(8)
    require_stable: Boolean = since(7)
    """Whether offsets of open transactions are an error instead of left out."""


@struct
class OffsetFetchResponsePartitions:
    """An offset; version 5 adds the leader epoch (KIP-320)."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    """Offset of the record to read next; -1 if none is committed."""
    committed_leader_epoch: Int32 = since(5, default=-1)
    """Epoch that was committed with it; -1 if unknown."""
    metadata: NullableString = ""
    """Text that was committed with it."""
    error_code: Int16 = 0


@struct
class OffsetFetchResponseTopics:
    """Offsets of one topic."""

    name: String = ""
    partitions: Array[OffsetFetchResponsePartitions] = empty()


@struct
class OffsetFetchResponseGroup:
    """Offsets of one group."""

    group_id: String = since(8)
    topics: Array[OffsetFetchResponseTopics] = since(8)
    """Offsets by topic; empty on an error."""
    error_code: Int16 = since(8)


@response_to(OffsetFetchRequest)
class OffsetFetchResponse:
    """Offsets of one group up to version 7, of several from 8 on."""

    throttle_time_ms: Int32 = since(3)
    topics: Array[OffsetFetchResponseTopics] = until(7)
    error_code: Int16 = since(2, until=7)
    groups: Array[OffsetFetchResponseGroup] = since(8)
