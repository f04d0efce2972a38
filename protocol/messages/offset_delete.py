"""OffsetDelete (key 47): forget how far a group has read (KIP-496)."""

from groupkeeper.protocol.message import empty, message, struct
from groupkeeper.protocol.types import Array, Int16, Int32, String


@struct
class OffsetDeleteRequestPartition:
    """A partition to forget."""

    partition_index: Int32 = 0


@struct
class OffsetDeleteRequestTopic:
    """Partitions of one topic."""

    name: String = ""
    partitions: Array[OffsetDeleteRequestPartition] = empty()


@message(key=47, versions=(0, 0))
class OffsetDeleteRequest:
    """Forgets committed offsets of topics the group does not subscribe to."""

    group_id: String = ""
    topics: Array[OffsetDeleteRequestTopic] = empty()


@struct
class OffsetDeleteResponsePartition:
    """Whether one position is forgotten."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class OffsetDeleteResponseTopic:
    """Results of one topic."""

    name: String = ""
    partitions: Array[OffsetDeleteResponsePartition] = empty()


@message(key=47, versions=(0, 0))
class OffsetDeleteResponse:
    """An error for the whole, or one result for each partition."""

    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: Array[OffsetDeleteResponseTopic] = empty()
