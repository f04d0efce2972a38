"""OffsetFetch (key 9): how far a group has read.

Version 8 asks for several groups at once (KIP-709).
"""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import message, response_to, since, struct, until
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
class OffsetFetchRequestTopic:
    """Partitions of one topic, up to version 7."""

    name: String = until(7)
    partition_indexes: Array[Int32] = until(7)


@struct
class OffsetFetchRequestTopics:
    """Partitions of one topic, from version 8 on."""

    name: String = since(8)
    partition_indexes: Array[Int32] = since(8)


@struct
class OffsetFetchRequestGroup:
    """A group and what is asked of it, null for all; version 9 names the member (KIP-848)."""

    group_id: String = since(8)
    member_id: NullableString = since(9, default=None)
    member_epoch: Int32 = since(9, default=-1)
    topics: NullableArray[OffsetFetchRequestTopics] = since(8)


@message(key=ApiKey.OFFSET_FETCH, versions=(0, 9), flexible=6)
class OffsetFetchRequest:
    """Asks for one group in the message itself up to version 7, for `groups` from 8 on.

    From version 2 on null topics ask for all. Version 7 can wait for transactions (KIP-447).
    """

    group_id: String = until(7)
    topics: NullableArray[OffsetFetchRequestTopic] = until(7, nullable_since=2)
    groups: Array[OffsetFetchRequestGroup] = since(8)
    require_stable: Boolean = since(7)


@struct
class OffsetFetchResponsePartition:
    """A position, up to version 7; version 5 adds the leader epoch (KIP-320)."""

    partition_index: Int32 = until(7)
    committed_offset: Int64 = until(7)
    committed_leader_epoch: Int32 = since(5, until=7, default=-1)
    metadata: NullableString = until(7, default="")
    error_code: Int16 = until(7)


@struct
class OffsetFetchResponseTopic:
    """Positions in one topic, up to version 7."""

    name: String = until(7)
    partitions: Array[OffsetFetchResponsePartition] = until(7)


@struct
class OffsetFetchResponsePartitions:
    """A position, from version 8 on."""

    partition_index: Int32 = since(8)
    committed_offset: Int64 = since(8)
    committed_leader_epoch: Int32 = since(8, default=-1)
    metadata: NullableString = since(8, default="")
    error_code: Int16 = since(8)


@struct
class OffsetFetchResponseTopics:
    """Positions in one topic, from version 8 on."""

    name: String = since(8)
    partitions: Array[OffsetFetchResponsePartitions] = since(8)


@struct
class OffsetFetchResponseGroup:
    """Positions of one group."""

    group_id: String = since(8)
    topics: Array[OffsetFetchResponseTopics] = since(8)
    error_code: Int16 = since(8)


@response_to(OffsetFetchRequest)
class OffsetFetchResponse:
    """Positions of one group up to version 7, of several from 8 on."""

    throttle_time_ms: Int32 = since(3)
    topics: Array[OffsetFetchResponseTopic] = until(7)
    error_code: Int16 = since(2, until=7)
    groups: Array[OffsetFetchResponseGroup] = since(8)
