"""Metadata: brokers, topics, partitions and their leaders; may create topics."""

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
"""The bits of authorized operations when they were not asked for."""


@struct
class MetadataRequestTopic:
    """A topic to describe, by name or from version 12 on by id (KIP-516)."""

    topic_id: Uuid = since(10)
    """Id of the topic; zero if it is given by name."""
    name: NullableString = since(0, nullable_since=10, default="")
    """Name of the topic; null if it is given by id."""


@message(key=ApiKey.METADATA, versions=(0, 13), flexible=9)
class MetadataRequest:
    """Requests topics; version 4 can forbid to create them (KIP-204)."""

    topics: NullableArray[MetadataRequestTopic] = since(0, nullable_since=1)
    """Topics to describe; null asks for all, in version 0 an empty list does."""
    allow_auto_topic_creation: Boolean = since(4, default=True)
    """Whether the broker may create topics that do not exist."""
    include_cluster_authorized_operations: Boolean = since(8, until=10)
    include_topic_authorized_operations: Boolean = since(8)
    """Whether to tell what the client may do to each topic."""


@struct
class MetadataResponseBroker:
    """A live broker."""

    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: NullableString = since(1, default=None)


@struct
class MetadataResponsePartition:
    """A partition; version 5 adds offline replicas (KIP-112), 7 the leader epoch (KIP-320)."""

    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = since(7, default=-1)
    """Epoch of the leader; -1 if unknown."""
    replica_nodes: Array[Int32] = empty()
    isr_nodes: Array[Int32] = empty()
    offline_replicas: Array[Int32] = since(5)


@struct
class MetadataResponseTopic:
    """A topic; version 10 adds its id (KIP-516)."""

    error_code: Int16 = 0
    name: NullableString = since(0, nullable_since=12, default="")
    """Name of the topic; null if it was asked for by an unknown id."""
    topic_id: Uuid = since(10)
    """Id of the topic; zero if it does not exist."""
    is_internal: Boolean = since(1)
    partitions: Array[MetadataResponsePartition] = empty()
    topic_authorized_operations: Int32 = since(8, default=AUTHORIZED_OPERATIONS_OMITTED)


@response_to(MetadataRequest)
class MetadataResponse:
    """Brokers and topics; version 8 adds authorized operations (KIP-430), 13 an error that makes
    the client bootstrap again (KIP-1102).
    """

    throttle_time_ms: Int32 = since(3)
    brokers: Array[MetadataResponseBroker] = empty()
    """All live brokers."""
    cluster_id: NullableString = since(2, default=None)
    """Id of the cluster; null if unknown."""
    controller_id: Int32 = since(1, default=-1)
    topics: Array[MetadataResponseTopic] = empty()
    cluster_authorized_operations: Int32 = since(8, until=10, default=AUTHORIZED_OPERATIONS_OMITTED)
    error_code: Int16 = since(13)
    """0, or REBOOTSTRAP_REQUIRED if the client has to look for the cluster anew."""
