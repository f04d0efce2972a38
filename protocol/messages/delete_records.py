"""DeleteRecords: deletes the oldest records of partitions (KIP-107)."""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to, struct
from groupkeeper.protocol.types import Array, Int16, Int32, Int64, String

HIGH_WATERMARK = -1
"""The offset that stands for the high watermark: nothing is kept."""


@struct
class DeleteRecordsPartition:
    """A partition and the first offset to keep."""

    partition_index: Int32 = 0
    offset: Int64 = 0
    """First offset to keep; -1 deletes everything up to the high watermark."""


@struct
class DeleteRecordsTopic:
    """Partitions of one topic."""

    name: String = ""
    partitions: Array[DeleteRecordsPartition] = empty()


@message(key=ApiKey.DELETE_RECORDS, versions=(0, 2), flexible=2)
class DeleteRecordsRequest:
    """Advances the log start offsets of partitions."""

    topics: Array[DeleteRecordsTopic] = empty()
    timeout_ms: Int32 = 0


@struct
class DeleteRecordsPartitionResult:
    """The new log start offset of a partition."""

    partition_index: Int32 = 0
    low_watermark: Int64 = 0
    """First offset that is left; -1 on an error."""
    error_code: Int16 = 0


@struct
class DeleteRecordsTopicResult:
    """Results of one topic."""

    name: String = ""
    partitions: Array[DeleteRecordsPartitionResult] = empty()


@response_to(DeleteRecordsRequest)
class DeleteRecordsResponse:
    """One result for each partition."""

    throttle_time_ms: Int32 = 0
    topics: Array[DeleteRecordsTopicResult] = empty()
