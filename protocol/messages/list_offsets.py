"""ListOffsets: the first or last offset of partitions, or the offset at a timestamp."""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to, since, struct, until
from groupkeeper.protocol.types import Array, Int8, Int16, Int32, Int64, String

LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL_TIMESTAMP = -4
LATEST_TIERED_TIMESTAMP = -5


@struct
class ListOffsetsPartition:
    """A partition and a timestamp; version 4 adds fencing by leader epoch (KIP-320)."""

    partition_index: Int32 = 0
    current_leader_epoch: Int32 = since(4, default=-1)
    timestamp: Int64 = 0
    """Epoch milliseconds, or one of the constants above."""
    max_num_offsets: Int32 = until(0, default=1)
    """Offsets to return at most."""


@struct
class ListOffsetsTopic:
    """Partitions of one topic."""

    name: String = ""
    partitions: Array[ListOffsetsPartition] = empty()


@message(key=ApiKey.LIST_OFFSETS, versions=(0, 10), flexible=6)
class ListOffsetsRequest:
    """Requests offsets.

    Version 2 adds the isolation level (KIP-98), 7 the offset of the largest timestamp (KIP-734),
    8 and 9 the bounds between local and remote storage (KIP-405, KIP-1005), 10 a timeout for the
    remote one (KIP-1075).
    """

    replica_id: Int32 = 0
    isolation_level: Int8 = since(2)
    """0 takes the high watermark for the end, 1 the last stable offset."""
    topics: Array[ListOffsetsTopic] = empty()
    timeout_ms: Int32 = since(10)
    """How long a lookup in remote storage may take."""


@struct
class ListOffsetsPartitionResponse:
    """An offset and its timestamp; version 0 has a list of offsets instead."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    old_style_offsets: Array[Int64] = until(0)
    """Offsets at or before the time, the largest first."""
    timestamp: Int64 = since(1, default=-1)
    """Epoch milliseconds of the record found; -1 if none, or for first and last offset."""
    offset: Int64 = since(1, default=-1)
    """The offset; -1 if no record is that new."""
    leader_epoch: Int32 = since(4, default=-1)
    """Epoch of the record at the offset; -1 if unknown."""


@struct
class ListOffsetsTopicResponse:
    """Results of one topic."""

    name: String = ""
    partitions: Array[ListOffsetsPartitionResponse] = empty()


@response_to(ListOffsetsRequest)
class ListOffsetsResponse:
    """One result for each partition."""

    throttle_time_ms: Int32 = since(2)
    topics: Array[ListOffsetsTopicResponse] = empty()
