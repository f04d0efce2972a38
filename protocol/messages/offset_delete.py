"""OffsetDelete: deletes committed offsets of a group (KIP-496)."""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to, struct
from groupkeeper.protocol.types import Array, Int16, Int32, String


@struct
class OffsetDeleteRequestPartition:
    """A partition whose offset to delete."""

    partition_index: Int32 = 0


@struct
class OffsetDeleteRequestTopic:
    """Partitions of one topic."""

    name: String = ""
    partitions: Array[OffsetDeleteRequestPartition] = empty()


@message(key=ApiKey.OFFSET_DELETE, versions=(0, 0))
class OffsetDeleteRequest:
    """Deletes committed offsets of topics to which the group does not subscribe."""

    group_id: String = ""
    topics: Array[OffsetDeleteRequestTopic] = empty()


@struct
class OffsetDeleteResponsePartition:
    """The result for one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class OffsetDeleteResponseTopic:
    """Results of one topic."""

    name: String = ""
    partitions: Array[OffsetDeleteResponsePartition] = empty()


@response_to(OffsetDeleteRequest)
class OffsetDeleteResponse:
    """An error for the whole request, or one result for each partition."""

    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: Array[OffsetDeleteResponseTopic] = empty()
    """Results by topic; empty on an error."""
