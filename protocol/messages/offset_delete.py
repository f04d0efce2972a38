"""OffsetDelete (key 47): forget how far a group has read (KIP-496)."""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to, struct
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


@message(key=ApiKey.OFFSET_DELETE, versions=(0, 0))
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


@response_to(OffsetDeleteRequest)
class OffsetDeleteResponse:
    """An error for the whole, or one result for each partition."""

    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: Array[OffsetDeleteResponseTopic] = empty()
