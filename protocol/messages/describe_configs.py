"""DescribeConfigs (key 32): the settings of topics, brokers and groups (KIP-133).

Version 1 tells where a value comes from and what else is set (KIP-226), 3 types and documentation
(KIP-569).
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
    """What can have settings: Kafka's `ConfigResource.Type`."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """Where a value comes from. Kafka has more: dynamic settings of brokers and groups."""

    TOPIC = 1
    STATIC_BROKER = 4
    DEFAULT = 5


class ConfigKind(IntEnum):
    """The type of a setting's values: Kafka's `ConfigType`, as far as ours are of it."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


@struct
class DescribeConfigsResource:
    """A resource, and the names asked for; null asks for all."""

    resource_type: Int8 = 0
    resource_name: String = ""
    configuration_keys: NullableArray[String] = empty()


@message(key=ApiKey.DESCRIBE_CONFIGS, versions=(0, 4), flexible=4)
class DescribeConfigsRequest:
    """Asks for the settings of some resources."""

    resources: Array[DescribeConfigsResource] = empty()
    include_synonyms: Boolean = since(1)
    include_documentation: Boolean = since(3)


@struct
class DescribeConfigsSynonym:
    """A place where the value is set, or would be looked for; the first one counts."""

    name: String = since(1)
    value: NullableString = since(1, default="")
    source: Int8 = since(1)


@struct
class DescribeConfigsResourceResult:
    """One setting."""

    name: String = ""
    value: NullableString = ""
    read_only: Boolean = False
    config_source: Int8 = since(1, default=-1)
    is_default: Boolean = until(0)
    is_sensitive: Boolean = False
    synonyms: Array[DescribeConfigsSynonym] = since(1)
    config_type: Int8 = since(3)
    documentation: NullableString = since(3, default="")


@struct
class DescribeConfigsResult:
    """The settings of one resource."""

    error_code: Int16 = 0
    error_message: NullableString = ""
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: Array[DescribeConfigsResourceResult] = empty()


@response_to(DescribeConfigsRequest)
class DescribeConfigsResponse:
    """One result for each resource."""

    throttle_time_ms: Int32 = 0
    results: Array[DescribeConfigsResult] = empty()
