"""OffsetCommit (key 8): remember how far a group has read."""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to, since, struct
from groupkeeper.protocol.types import Array, Int16, Int32, Int64, NullableString, String


@struct
class OffsetCommitRequestPartition:
    """A position to remember.

    Only version 1 carries a timestamp; version 6 adds the leader epoch (KIP-320).
    """

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = since(6, default=-1)
    commit_timestamp: Int64 = since(1, until=1, default=-1)
    committed_metadata: NullableString = ""


@struct
class OffsetCommitRequestTopic:
    """Positions in one topic."""

    name: String = ""
    partitions: Array[OffsetCommitRequestPartition] = empty()


@message(key=ApiKey.OFFSET_COMMIT, versions=(0, 9), flexible=8)
class OffsetCommitRequest:
    """Commits offsets. Version 1 brings the member's fencing, 2 to 4 a retention, 7 static members
    (KIP-345).

    Version 9 is version 8 with the member epoch of KIP-848 allowed in the place of the generation.
    """

    group_id: String = ""
    generation_id_or_member_epoch: Int32 = since(1, default=-1)
    member_id: String = since(1)
    group_instance_id: NullableString = since(7, default=None)
    retention_time_ms: Int64 = since(2, until=4, default=-1)
    topics: Array[OffsetCommitRequestTopic] = empty()


@struct
class OffsetCommitResponsePartition:
    """Whether one position is remembered."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class OffsetCommitResponseTopic:
    """Results of one topic."""

    name: String = ""
    partitions: Array[OffsetCommitResponsePartition] = empty()


@response_to(OffsetCommitRequest)
class OffsetCommitResponse:
    """One result for each partition; there is no error code for the whole."""

    throttle_time_ms: Int32 = since(3)
    topics: Array[OffsetCommitResponseTopic] = empty()
