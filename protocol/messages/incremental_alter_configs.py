"""IncrementalAlterConfigs: changes single configs of resources (KIP-339)."""

from enum import IntEnum

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to, struct
from groupkeeper.protocol.messages.alter_configs import AlterConfigsResourceResponse
from groupkeeper.protocol.types import Array, Boolean, Int8, Int32, NullableString, String


class ConfigOperation(IntEnum):
    """How to change a config: Kafka's `AlterConfigOp.OpType`; the last two are for lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@struct
class AlterableConfig:
    """A change of one config."""

    name: String = ""
    """Name of the config."""
    config_operation: Int8 = 0
    """What to do, a `ConfigOperation`."""
    value: NullableString = ""
    """Value to set, or items to add or remove; null only to delete."""


@struct
class AlterConfigsResource:
    """A resource and the changes of its configs."""

    resource_type: Int8 = 0
    resource_name: String = ""
    configs: Array[AlterableConfig] = empty()
    """Changes, at most one for each config."""


@message(key=ApiKey.INCREMENTAL_ALTER_CONFIGS, versions=(0, 1), flexible=1)
class IncrementalAlterConfigsRequest:
    """Changes configs, or only validates the changes."""

    resources: Array[AlterConfigsResource] = empty()
    validate_only: Boolean = False


@response_to(IncrementalAlterConfigsRequest)
class IncrementalAlterConfigsResponse:
    """One result for each resource."""

    throttle_time_ms: Int32 = 0
    responses: Array[AlterConfigsResourceResponse] = empty()
