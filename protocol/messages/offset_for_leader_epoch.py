"""OffsetForLeaderEpoch: the end offsets of epochs, to detect log truncation (KIP-101, KIP-320)."""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to, since, struct
from groupkeeper.protocol.types import Array, Int16, Int32, Int64, String

DEBUG_REPLICA = -2
"""The replica id of clients that are neither followers nor consumers."""


@struct
class OffsetForLeaderPartition:
    """A partition and an epoch; version 2 adds fencing by leader epoch."""

    partition: Int32 = 0
    current_leader_epoch: Int32 = since(2, default=-1)
    leader_epoch: Int32 = 0
    """Epoch whose end is asked for."""


@struct
class OffsetForLeaderTopic:
    """Partitions of one topic."""

    topic: String = ""
    partitions: Array[OffsetForLeaderPartition] = empty()


@message(key=ApiKey.OFFSET_FOR_LEADER_EPOCH, versions=(0, 4), flexible=4)
class OffsetForLeaderEpochRequest:
    """Requests the end offsets of epochs."""

    replica_id: Int32 = since(3, default=DEBUG_REPLICA)
    """Broker id of a follower; -1 from consumers, -2 from tools."""
    topics: Array[OffsetForLeaderTopic] = empty()


@struct
class EpochEndOffset:
    """The end of one epoch."""

    error_code: Int16 = 0
    partition: Int32 = 0
    leader_epoch: Int32 = since(1, default=-1)
    """Largest epoch up to the one asked for; -1 if none."""
    end_offset: Int64 = -1
    """First offset after that epoch; -1 if none."""


@struct
class OffsetForLeaderTopicResult:
    """Results of one topic."""

    topic: String = ""
    partitions: Array[EpochEndOffset] = empty()


@response_to(OffsetForLeaderEpochRequest)
class OffsetForLeaderEpochResponse:
    """One end for each partition."""

    throttle_time_ms: Int32 = since(2)
    topics: Array[OffsetForLeaderTopicResult] = empty()
