"""Metadata (key 3): brokers, topics, partitions and their leaders; creates topics where that is
allowed.
"""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to, since, struct
from groupkeeper.protocol.types import (
    Array,
    Boolean,
    Int16,
    Int32,
    NullableArray,
    NullableString,
    String,
    Uuid,
)

AUTHORIZED_OPERATIONS_OMITTED = -(2**31)


@struct
class MetadataRequestTopic:
    """A topic asked for, by name or from version 12 on by id (KIP-516)."""

    topic_id: Uuid = since(10)
    name: NullableString = since(0, nullable_since=10, default="")


@message(key=ApiKey.METADATA, versions=(0, 13), flexible=9)
class MetadataRequest:
    """Asks for some topics; for all with null, in version 0 with an empty list.

    Version 4 can forbid creating (KIP-204).
    """

    topics: NullableArray[MetadataRequestTopic] = since(0, nullable_since=1)
    allow_auto_topic_creation: Boolean = since(4, default=True)
    include_cluster_authorized_operations: Boolean = since(8, until=10)
    include_topic_authorized_operations: Boolean = since(8)


@struct
class MetadataResponseBroker:
    """A live broker."""

    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: NullableString = since(1, default=None)


@struct
class MetadataResponsePartition:
    """A partition; version 5 tells replicas that are offline (KIP-112), 7 the leader epoch
    (KIP-320).
    """

    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = since(7, default=-1)
    replica_nodes: Array[Int32] = empty()
    isr_nodes: Array[Int32] = empty()
    offline_replicas: Array[Int32] = since(5)


@struct
class MetadataResponseTopic:
    """A topic; version 10 tells its id (KIP-516)."""

    error_code: Int16 = 0
    name: NullableString = since(0, nullable_since=12, default="")
    topic_id: Uuid = since(10)
    is_internal: Boolean = since(1)
    partitions: Array[MetadataResponsePartition] = empty()
    topic_authorized_operations: Int32 = since(8, default=AUTHORIZED_OPERATIONS_OMITTED)


@response_to(MetadataRequest)
class MetadataResponse:
    """Brokers and topics; version 8 can tell what the client may do (KIP-430), 13 that it has to
    start anew (KIP-1102).
    """

    throttle_time_ms: Int32 = since(3)
    brokers: Array[MetadataResponseBroker] = empty()
    cluster_id: NullableString = since(2, default=None)
    controller_id: Int32 = since(1, default=-1)
    topics: Array[MetadataResponseTopic] = empty()
    cluster_authorized_operations: Int32 = since(8, until=10, default=AUTHORIZED_OPERATIONS_OMITTED)
    error_code: Int16 = since(13)
