"""Produce: appends record batches.

Versions 0 to 2, with the message sets before Kafka 0.11, are not supported.
"""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to, since, struct, tagged, until
from groupkeeper.protocol.messages.fetch import LeaderIdAndEpoch, NodeEndpoint
from groupkeeper.protocol.types import (
    Array,
    Int16,
    Int32,
    Int64,
    Nested,
    NullableString,
    RecordsView,
    String,
    Uuid,
)


@struct
class PartitionProduceData:
    """Batches for one partition."""

    index: Int32 = 0
    records: RecordsView = None
    """One record batch."""


@struct
class TopicProduceData:
    """Batches for one topic."""

    name: String = until(12)
    topic_id: Uuid = since(13)
    partition_data: Array[PartitionProduceData] = empty()
    """Batches by partition."""


@message(key=ApiKey.PRODUCE, versions=(3, 13), flexible=9)
class ProduceRequest:
    """Appends batches; with `acks` 0 it is not answered.

    From version 13 on, topics are given by id.
    """

    transactional_id: NullableString = since(3, default=None)
    """Id of a transactional producer; null for any other."""
    acks: Int16 = 0
    """When to answer: 0 never, 1 when the leader has the batches, -1 when all in sync have."""
    timeout_ms: Int32 = 0
    """How long to wait for the acknowledgements of `acks` -1."""
    topic_data: Array[TopicProduceData] = empty()
    """Batches by topic."""


@struct
class BatchIndexAndErrorMessage:
    """A record because of which its batch was refused (KIP-467)."""

    batch_index: Int32 = since(8)
    """Position of the record in its batch, from 0."""
    batch_index_error_message: NullableString = since(8, default=None)
    """What is wrong with the record; null if unknown."""


@struct
class PartitionProduceResponse:
    """The result for one partition, from version 8 on with the records in error (KIP-467)."""

    index: Int32 = 0
    error_code: Int16 = 0
    base_offset: Int64 = 0
    """Offset of the batch's first record; -1 on an error."""
    log_append_time_ms: Int64 = since(2, default=-1)
    """Epoch milliseconds of the append if the topic uses LogAppendTime, else -1."""
    log_start_offset: Int64 = since(5, default=-1)
    """First offset of the log; -1 on an error."""
    record_errors: Array[BatchIndexAndErrorMessage] = since(8)
    """Records because of which the batch was refused."""
    error_message: NullableString = since(8, default=None)
    current_leader: Nested[LeaderIdAndEpoch] = tagged(0, since=10)


@struct
class TopicProduceResponse:
    """Results of one topic."""

    name: String = until(12)
    topic_id: Uuid = since(13)
    partition_responses: Array[PartitionProduceResponse] = empty()
    """One result for each partition."""


@response_to(ProduceRequest)
class ProduceResponse:
    """One result for each partition."""

    responses: Array[TopicProduceResponse] = empty()
    throttle_time_ms: Int32 = since(1)
    node_endpoints: Array[NodeEndpoint] = tagged(0, since=10)
