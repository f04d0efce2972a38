"""CreateTopics: creates topics (KIP-4)."""

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
    """The replicas of one partition, chosen by the client."""

    partition_index: Int32 = 0
    broker_ids: Array[Int32] = empty()


@struct
class CreatableTopicConfig:
    """A config of the topic."""

    name: String = ""
    """Name of the config."""
    value: NullableString = ""
    """Its value; null is refused."""


@struct
class CreatableTopic:
    """A topic to create; from version 4 on -1 asks for the broker's defaults (KIP-464)."""

    name: String = ""
    num_partitions: Int32 = 0
    """Partitions; -1 for the default, or if `assignments` is given."""
    replication_factor: Int16 = 0
    """Replicas of a partition; -1 for the default, or if `assignments` is given."""
    assignments: Array[CreatableReplicaAssignment] = empty()
    """Replicas of each partition; empty leaves the choice to the broker."""
    configs: Array[CreatableTopicConfig] = empty()
    """Configs that differ from the defaults."""


@message(key=ApiKey.CREATE_TOPICS, versions=(0, 7), flexible=5)
class CreateTopicsRequest:
    """Creates topics; from version 1 on it may only validate the request."""

    topics: Array[CreatableTopic] = empty()
    """Topics to create, each at most once."""
    timeout_ms: Int32 = 60_000
    validate_only: Boolean = since(1)


@struct
class CreatableTopicConfigs:
    """A config of the new topic (KIP-525)."""

    name: String = since(5)
    """Name of the config."""
    value: NullableString = since(5, default="")
    """Its value; null if it is sensitive."""
    read_only: Boolean = since(5)
    config_source: Int8 = since(5, default=-1)
    is_sensitive: Boolean = since(5)


@struct
class CreatableTopicResult:
    """The result for one topic; version 5 adds its configs (KIP-525), 7 its id (KIP-516)."""

    name: String = ""
    topic_id: Uuid = since(7)
    """Id of the new topic; zero if it was not created."""
    error_code: Int16 = 0
    error_message: NullableString = since(1, default="")
    topic_config_error_code: Int16 = tagged(0, since=5)
    """Why partitions, replicas and configs are not shown; 0 if they are."""
    num_partitions: Int32 = since(5, default=-1)
    """Partitions of the topic; -1 if not shown."""
    replication_factor: Int16 = since(5, default=-1)
    """Replicas of each partition; -1 if not shown."""
    configs: NullableArray[CreatableTopicConfigs] = since(5)
    """Configs of the topic; null if not shown."""


@response_to(CreateTopicsRequest)
class CreateTopicsResponse:
    """One result for each topic."""

    throttle_time_ms: Int32 = since(2)
    topics: Array[CreatableTopicResult] = empty()
