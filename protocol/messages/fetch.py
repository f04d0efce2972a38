"""Fetch (key 1): read record batches, waiting for them if need be.

Topics by name only: version 13 would use ids.
"""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to, since, struct, tagged
from groupkeeper.protocol.types import (
    Array,
    Int8,
    Int16,
    Int32,
    Int64,
    Nested,
    NullableArray,
    NullableString,
    Records,
    String,
)


@struct
class FetchPartition:
    """Where to read in a partition.

    Version 5 brings KIP-107, 9 fencing (KIP-320), 12 divergence (KIP-595).
    """

    partition: Int32 = 0
    current_leader_epoch: Int32 = since(9, default=-1)
    fetch_offset: Int64 = 0
    last_fetched_epoch: Int32 = since(12, default=-1)
    log_start_offset: Int64 = since(5, default=-1)
    partition_max_bytes: Int32 = 0


@struct
class FetchTopic:
    """Partitions of one topic."""

    topic: String = ""
    partitions: Array[FetchPartition] = empty()


@struct
class ForgottenTopic:
    """Partitions to take out of a fetch session."""

    topic: String = since(7)
    partitions: Array[Int32] = since(7)


@message(key=ApiKey.FETCH, versions=(4, 12), flexible=12)
class FetchRequest:
    """Asks for batches.

    Version 7 brings fetch sessions (KIP-227), 11 the rack of the reader (KIP-392).
    """

    cluster_id: NullableString = tagged(0, since=12, default=None)
    replica_id: Int32 = -1
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = since(3, default=0x7FFFFFFF)
    isolation_level: Int8 = since(4)
    session_id: Int32 = since(7)
    session_epoch: Int32 = since(7, default=-1)
    topics: Array[FetchTopic] = empty()
    forgotten_topics_data: Array[ForgottenTopic] = since(7)
    rack_id: String = since(11)


@struct
class EpochEndOffset:
    """Where the leader's log and the reader's diverge (KIP-595)."""

    epoch: Int32 = since(12, default=-1)
    end_offset: Int64 = since(12, default=-1)


@struct
class LeaderIdAndEpoch:
    """The leader as far as the broker knows (KIP-595)."""

    leader_id: Int32 = since(12, default=-1)
    leader_epoch: Int32 = since(12, default=-1)


@struct
class SnapshotId:
    """The snapshot a follower should read first (KIP-630)."""

    end_offset: Int64 = -1
    epoch: Int32 = -1


@struct
class AbortedTransaction:
    """A transaction whose records are to be passed over (KIP-98)."""

    producer_id: Int64 = since(4)
    first_offset: Int64 = since(4)


@struct
class PartitionData:
    """Batches of one partition; `records` are the bytes of whole batches, null or empty if there
    are none.
    """

    partition_index: Int32 = 0
    error_code: Int16 = 0
    high_watermark: Int64 = 0
    last_stable_offset: Int64 = since(4, default=-1)
    log_start_offset: Int64 = since(5, default=-1)
    diverging_epoch: Nested[EpochEndOffset] = tagged(0, since=12)
    current_leader: Nested[LeaderIdAndEpoch] = tagged(1, since=12)
    snapshot_id: Nested[SnapshotId] = tagged(2, since=12)
    aborted_transactions: NullableArray[AbortedTransaction] = since(4)
    preferred_read_replica: Int32 = since(11, default=-1)
    records: Records = None


@struct
class FetchableTopicResponse:
    """Batches of one topic."""

    topic: String = ""
    partitions: Array[PartitionData] = empty()


@response_to(FetchRequest)
class FetchResponse:
    """Batches of the partitions asked for; session id 0 declines a fetch session."""

    throttle_time_ms: Int32 = since(1)
    error_code: Int16 = since(7)
    session_id: Int32 = since(7)
    responses: Array[FetchableTopicResponse] = empty()
