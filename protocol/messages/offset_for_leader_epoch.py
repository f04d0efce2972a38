"""OffsetForLeaderEpoch (key 23): where an epoch ended, so that a client sees what it lost
(KIP-101, KIP-320).
"""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to, since, struct
from groupkeeper.protocol.types import Array, Int16, Int32, Int64, String

DEBUG_REPLICA = -2
"""The replica id of a reader that is neither a follower nor a consumer."""


@struct
class OffsetForLeaderPartition:
    """A partition and the epoch asked for; version 2 fences by the epoch the client knows."""

    partition: Int32 = 0
    current_leader_epoch: Int32 = since(2, default=-1)
    leader_epoch: Int32 = 0


@struct
class OffsetForLeaderTopic:
    """Partitions of one topic."""

    topic: String = ""
    partitions: Array[OffsetForLeaderPartition] = empty()


@message(key=ApiKey.OFFSET_FOR_LEADER_EPOCH, versions=(0, 4), flexible=4)
class OffsetForLeaderEpochRequest:
    """Asks where epochs ended."""

    replica_id: Int32 = since(3, default=DEBUG_REPLICA)
    topics: Array[OffsetForLeaderTopic] = empty()


@struct
class EpochEndOffset:
    """The largest epoch that is not newer than the one asked for, and the first offset behind it;
    -1 where there is none.
    """

    error_code: Int16 = 0
    partition: Int32 = 0
    leader_epoch: Int32 = since(1, default=-1)
    end_offset: Int64 = -1


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
