"""Produce (key 0): append record batches.

Versions 0 to 2, with message sets of old, are not spoken.
"""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to, since, struct
from groupkeeper.protocol.types import (
    Array,
    Int16,
    Int32,
    Int64,
    NullableString,
    RecordsView,
    String,
)


@struct
class PartitionProduceData:
    """Batches for one partition."""

    index: Int32 = 0
    records: RecordsView = None


@struct
class TopicProduceData:
    """Batches for one topic."""

    name: String = ""
    partition_data: Array[PartitionProduceData] = empty()


@message(key=ApiKey.PRODUCE, versions=(3, 9), flexible=9)
class ProduceRequest:
    """Appends batches. With `acks` 0 there is no response, with 1 and -1 (all) there is one."""

    transactional_id: NullableString = since(3, default=None)
    acks: Int16 = 0
    timeout_ms: Int32 = 0
    topic_data: Array[TopicProduceData] = empty()


@struct
class BatchIndexAndErrorMessage:
    """A record that made its batch be refused (KIP-467)."""

    batch_index: Int32 = since(8)
    batch_index_error_message: NullableString = since(8, default=None)


@struct
class PartitionProduceResponse:
    """Where the batches went; version 5 tells the start of the log (KIP-107), 8 which records were
    wrong (KIP-467).
    """

    index: Int32 = 0
    error_code: Int16 = 0
    base_offset: Int64 = 0
    log_append_time_ms: Int64 = since(2, default=-1)
    log_start_offset: Int64 = since(5, default=-1)
    record_errors: Array[BatchIndexAndErrorMessage] = since(8)
    error_message: NullableString = since(8, default=None)


@struct
class TopicProduceResponse:
    """Results of one topic."""

    name: String = ""
    partition_responses: Array[PartitionProduceResponse] = empty()


@response_to(ProduceRequest)
class ProduceResponse:
    """One result for each partition."""

    responses: Array[TopicProduceResponse] = empty()
    throttle_time_ms: Int32 = since(1)
