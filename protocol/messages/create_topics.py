"""CreateTopics (key 19): make topics (KIP-4)."""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to, since, struct, tagged
from groupkeeper.protocol.types import (
    Array,
    Boolean,
    Int8,
    Int16,
    Int32,
    NullableArray,
    NullableString,
    String,
    Uuid,
)


@struct
class CreatableReplicaAssignment:
    """Which brokers hold a partition, where the client decides that."""

    partition_index: Int32 = 0
    broker_ids: Array[Int32] = empty()


@struct
class CreatableTopicConfig:
    """A setting of the topic."""

    name: String = ""
    value: NullableString = ""


@struct
class CreatableTopic:
    """A topic to make; -1 partitions or replicas stand for the broker's default from version 4 on
    (KIP-464).
    """

    name: String = ""
    num_partitions: Int32 = 0
    replication_factor: Int16 = 0
    assignments: Array[CreatableReplicaAssignment] = empty()
    configs: Array[CreatableTopicConfig] = empty()


@message(key=ApiKey.CREATE_TOPICS, versions=(0, 7), flexible=5)
class CreateTopicsRequest:
    """Makes topics, or from version 1 on only checks whether that would work."""

    topics: Array[CreatableTopic] = empty()
    timeout_ms: Int32 = 60_000
    validate_only: Boolean = since(1)


@struct
class CreatableTopicConfigs:
    """A setting the new topic has (KIP-525)."""

    name: String = since(5)
    value: NullableString = since(5, default="")
    read_only: Boolean = since(5)
    config_source: Int8 = since(5, default=-1)
    is_sensitive: Boolean = since(5)


@struct
class CreatableTopicResult:
    """What became of one topic; version 5 tells what it was made with (KIP-525), 7 its id
    (KIP-516).
    """

    name: String = ""
    topic_id: Uuid = since(7)
    error_code: Int16 = 0
    error_message: NullableString = since(1, default="")
    topic_config_error_code: Int16 = tagged(0, since=5)
    num_partitions: Int32 = since(5, default=-1)
    replication_factor: Int16 = since(5, default=-1)
    configs: NullableArray[CreatableTopicConfigs] = since(5)


@response_to(CreateTopicsRequest)
class CreateTopicsResponse:
    """One result for each topic."""

    throttle_time_ms: Int32 = since(2)
    topics: Array[CreatableTopicResult] = empty()
