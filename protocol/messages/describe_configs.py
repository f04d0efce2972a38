"""DescribeConfigs: the configs of topics, brokers and groups (KIP-133).

Version 1 adds sources and synonyms (KIP-226), 3 types and documentation (KIP-569).
"""

from enum import IntEnum

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to, since, struct, until
from groupkeeper.protocol.types import (
    Array,
    Boolean,
    Int8,
    Int16,
    Int32,
    NullableArray,
    NullableString,
    String,
)


class ResourceType(IntEnum):
    """Kinds of resources that have configs: Kafka's `ConfigResource.Type`."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """Sources of values: the values of Kafka's `ConfigSource` that occur here."""

    TOPIC = 1
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    DYNAMIC_GROUP = 8


class ConfigKind(IntEnum):
    """Types of values: the values of Kafka's `ConfigType` that occur here."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7
    PASSWORD = 9


@struct
class DescribeConfigsResource:
    """A resource to describe."""

    resource_type: Int8 = 0
    resource_name: String = ""
    configuration_keys: NullableArray[String] = empty()
    """Names of the configs to show; null shows all."""


@message(key=ApiKey.DESCRIBE_CONFIGS, versions=(0, 4), flexible=4)
class DescribeConfigsRequest:
    """Requests the configs of resources."""

    resources: Array[DescribeConfigsResource] = empty()
    include_synonyms: Boolean = since(1)
    """Whether to show all places where a value can be set."""
    include_documentation: Boolean = since(3)
    """Whether to show the documentation of each config."""


@struct
class DescribeConfigsSynonym:
    """One place where a value can be set, with the value there."""

    name: String = since(1)
    """Name of the config at that place."""
    value: NullableString = since(1, default="")
    """Value at that place; null if it is sensitive."""
    source: Int8 = since(1)
    """The place, a `ConfigSource`."""


@struct
class DescribeConfigsResourceResult:
    """One config."""

    name: String = ""
    """Name of the config."""
    value: NullableString = ""
    """Its value; null if it is sensitive or has none."""
    read_only: Boolean = False
    config_source: Int8 = since(1, default=-1)
    is_default: Boolean = until(0)
    """Whether the value is the default."""
    is_sensitive: Boolean = False
    synonyms: Array[DescribeConfigsSynonym] = since(1)
    """Places where the value can be set, the one in force first."""
    config_type: Int8 = since(3)
    """Type of the value, a `ConfigKind`; 0 if unknown."""
    documentation: NullableString = since(3, default="")
    """What the config does; null if it was not asked for."""


@struct
class DescribeConfigsResult:
    """The configs of one resource."""

    error_code: Int16 = 0
    error_message: NullableString = ""
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: Array[DescribeConfigsResourceResult] = empty()
    """Its configs."""


@response_to(DescribeConfigsRequest)
class DescribeConfigsResponse:
    """One result for each resource."""

    throttle_time_ms: Int32 = 0
    results: Array[DescribeConfigsResult] = empty()
