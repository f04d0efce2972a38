"""OffsetCommit: stores the positions of a group."""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to, since, struct
from groupkeeper.protocol.types import Array, Int16, Int32, Int64, NullableString, String


@struct
class OffsetCommitRequestPartition:
    """The offset to commit; version 6 adds the leader epoch (KIP-320)."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    """Offset of the record to read next."""
    committed_leader_epoch: Int32 = since(6, default=-1)
    """Epoch of the last record that was read; -1 if unknown."""
    commit_timestamp: Int64 = since(1, until=1, default=-1)
    """Epoch milliseconds of the commit; -1 for the broker's time."""
    committed_metadata: NullableString = ""
    """Text that the client keeps with the offset; null counts as empty."""


@struct
class OffsetCommitRequestTopic:
    """Offsets of one topic."""

    name: String = ""
    partitions: Array[OffsetCommitRequestPartition] = empty()


@message(key=ApiKey.OFFSET_COMMIT, versions=(0, 9), flexible=8)
class OffsetCommitRequest:
    """Commits offsets. Version 1 adds the member and its generation, 7 static members (KIP-345).

    Version 9 is version 8 with the member epoch of KIP-848 allowed in place of the generation.
    """

    group_id: String = ""
    generation_id_or_member_epoch: Int32 = since(1, default=-1)
    """Generation that the member is in; -1 outside of a generation."""
    member_id: String = since(1)
    """Id that the coordinator gave the member; empty outside of a generation."""
    group_instance_id: NullableString = since(7, default=None)
    retention_time_ms: Int64 = since(2, until=4, default=-1)
    """How long to keep the offsets; -1 for the broker's setting."""
    topics: Array[OffsetCommitRequestTopic] = empty()


@struct
class OffsetCommitResponsePartition:
    """The result for one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class OffsetCommitResponseTopic:
    """Results of one topic."""

    name: String = ""
    partitions: Array[OffsetCommitResponsePartition] = empty()


@response_to(OffsetCommitRequest)
class OffsetCommitResponse:
    """One result for each partition; no error code for the whole request."""

    throttle_time_ms: Int32 = since(3)
    topics: Array[OffsetCommitResponseTopic] = empty()
