"""Fetch: reads record batches, or waits until enough are appended."""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to, since, struct, tagged, until
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
    Uuid,
)


@struct
class FetchPartition:
    """A partition and the offset to read from.

    Version 5 adds the log start offset (KIP-107), 9 fencing (KIP-320), 12 truncation (KIP-595), 17
    the follower's directory (KIP-853), 18 its high watermark (KIP-1166).
    """

    partition: Int32 = 0
    current_leader_epoch: Int32 = since(9, default=-1)
    fetch_offset: Int64 = 0
    """First offset to read."""
    last_fetched_epoch: Int32 = since(12, default=-1)
    """Epoch of the last record that a follower has; -1 from consumers."""
    log_start_offset: Int64 = since(5, default=-1)
    """First offset that a follower has; -1 from consumers."""
    partition_max_bytes: Int32 = 0
    """Bytes to return at most; a first batch may be larger (KIP-74)."""
    replica_directory_id: Uuid = tagged(0, since=17)
    """Directory of a follower; zero from consumers."""
    high_watermark: Int64 = tagged(1, since=18, default=0x7FFFFFFFFFFFFFFF)
    """High watermark that a follower knows; the largest number from consumers."""


@struct
class FetchTopic:
    """Partitions of one topic."""

    topic: String = until(12)
    topic_id: Uuid = since(13)
    partitions: Array[FetchPartition] = empty()


@struct
class ForgottenTopic:
    """Partitions to remove from a fetch session."""

    topic: String = since(7, until=12)
    topic_id: Uuid = since(13)
    partitions: Array[Int32] = since(7)
    """Partitions that the session shall no longer hold."""


@struct
class ReplicaState:
    """The follower that sends the request (KIP-903)."""

    replica_id: Int32 = since(15, default=-1)
    replica_epoch: Int64 = since(15, default=-1)
    """Epoch of that broker; -1 if unknown."""


@message(key=ApiKey.FETCH, versions=(4, 18), flexible=12)
class FetchRequest:
    """Requests batches.

    Version 7 adds fetch sessions (KIP-227), 11 the consumer's rack (KIP-392). From version 13 on,
    topics are given by id.
    """

    cluster_id: NullableString = tagged(0, since=12, default=None)
    """Id of the cluster, checked if not null."""
    replica_id: Int32 = until(14, default=-1)
    replica_state: Nested[ReplicaState] = tagged(1, since=15)
    """The follower that asks; left out by consumers."""
    max_wait_ms: Int32 = 0
    """How long to wait for `min_bytes`."""
    min_bytes: Int32 = 0
    """Bytes to wait for; 0 answers at once."""
    max_bytes: Int32 = since(3, default=0x7FFFFFFF)
    """Bytes of all partitions at most; a first batch may be larger (KIP-74)."""
    isolation_level: Int8 = since(4)
    """0 reads every record, 1 no transactions that are open or aborted."""
    session_id: Int32 = since(7)
    """Id of the fetch session; 0 without one."""
    session_epoch: Int32 = since(7, default=-1)
    """Number of the request in its session; 0 opens a session, -1 uses none."""
    topics: Array[FetchTopic] = empty()
    """Partitions to read, or to add to the session."""
    forgotten_topics_data: Array[ForgottenTopic] = since(7)
    """Partitions to remove from the session."""
    rack_id: String = since(11)
    """Rack of the consumer; empty without one."""


@struct
class EpochEndOffset:
    """The point at which a follower's log departs from the leader's (KIP-595)."""

    epoch: Int32 = since(12, default=-1)
    """Largest epoch that both logs have; -1 if unknown."""
    end_offset: Int64 = since(12, default=-1)
    """First offset after that epoch; -1 if unknown."""


@struct
class LeaderIdAndEpoch:
    """The leader according to the broker (KIP-595, in Produce KIP-951)."""

    leader_id: Int32 = -1
    """Broker that leads the partition; -1 if unknown."""
    leader_epoch: Int32 = -1
    """Epoch of that leader; -1 if unknown."""


@struct
class SnapshotId:
    """The snapshot that a follower has to fetch first (KIP-630)."""

    end_offset: Int64 = -1
    """First offset after the snapshot; -1 without one."""
    epoch: Int32 = -1
    """Epoch of its last record; -1 without one."""


@struct
class AbortedTransaction:
    """A transaction whose records a client with isolation level 1 drops (KIP-98)."""

    producer_id: Int64 = since(4)
    """Producer of the transaction."""
    first_offset: Int64 = since(4)
    """Offset of its first record."""


@struct
class PartitionData:
    """The result for one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    high_watermark: Int64 = 0
    """First offset that is not yet replicated, the end for consumers; -1 on an error."""
    last_stable_offset: Int64 = since(4, default=-1)
    """First offset of an open transaction, else the high watermark; -1 on an error."""
    log_start_offset: Int64 = since(5, default=-1)
    """First offset of the log; -1 if unknown."""
    diverging_epoch: Nested[EpochEndOffset] = tagged(0, since=12)
    """Where a follower's log departs from the leader's."""
    current_leader: Nested[LeaderIdAndEpoch] = tagged(1, since=12)
    snapshot_id: Nested[SnapshotId] = tagged(2, since=12)
    """Snapshot to fetch first, if the offset lies before the log."""
    aborted_transactions: NullableArray[AbortedTransaction] = since(4)
    """Transactions whose records the client drops; null if it reads all."""
    preferred_read_replica: Int32 = since(11, default=-1)
    """Broker to read from instead; -1 for this one."""
    records: Records = None
    """Whole record batches, the last one possibly cut off; null or empty if none."""


@struct
class FetchableTopicResponse:
    """Results of one topic."""

    topic: String = until(12)
    topic_id: Uuid = since(13)
    partitions: Array[PartitionData] = empty()


@struct
class NodeEndpoint:
    """The address of a leader (KIP-951)."""

    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: NullableString = None


@response_to(FetchRequest)
class FetchResponse:
    """The batches read; session id 0 declines a fetch session."""

    throttle_time_ms: Int32 = since(1)
    error_code: Int16 = since(7)
    session_id: Int32 = since(7)
    """Id of the fetch session; 0 if none."""
    responses: Array[FetchableTopicResponse] = empty()
    node_endpoints: Array[NodeEndpoint] = tagged(0, since=16)
