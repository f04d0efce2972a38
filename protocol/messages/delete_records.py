"""DeleteRecords (key 21): forget the beginning of partitions (KIP-107)."""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to, struct
from groupkeeper.protocol.types import Array, Int16, Int32, Int64, String

HIGH_WATERMARK = -1


@struct
class DeleteRecordsPartition:
    """A partition and the first offset to keep, -1 for none of what is there."""

    partition_index: Int32 = 0
    offset: Int64 = 0


@struct
class DeleteRecordsTopic:
    """Partitions of one topic."""

    name: String = ""
    partitions: Array[DeleteRecordsPartition] = empty()


@message(key=ApiKey.DELETE_RECORDS, versions=(0, 2), flexible=2)
class DeleteRecordsRequest:
    """Moves the starts of logs."""

    topics: Array[DeleteRecordsTopic] = empty()
    timeout_ms: Int32 = 0


@struct
class DeleteRecordsPartitionResult:
    """Where a partition begins now."""

    partition_index: Int32 = 0
    low_watermark: Int64 = 0
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
