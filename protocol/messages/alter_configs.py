"""AlterConfigs: replaces all configs of resources (KIP-133).

Configs that are not named return to their defaults; IncrementalAlterConfigs changes single ones.
"""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to, struct
from groupkeeper.protocol.types import Array, Boolean, Int8, Int16, Int32, NullableString, String


@struct
class AlterableConfig:
    """A config and its value."""

    name: String = ""
    """Name of the config."""
    value: NullableString = ""
    """New value; null is refused."""


@struct
class AlterConfigsResource:
    """A resource and all its new configs."""

    resource_type: Int8 = 0
    resource_name: String = ""
    configs: Array[AlterableConfig] = empty()
    """All configs that the resource shall have; those not listed return to their defaults."""


@message(key=ApiKey.ALTER_CONFIGS, versions=(0, 2), flexible=2)
class AlterConfigsRequest:
    """Replaces configs, or only validates the change."""

    resources: Array[AlterConfigsResource] = empty()
    validate_only: Boolean = False


@struct
class AlterConfigsResourceResponse:
    """The result for one resource."""

    error_code: Int16 = 0
    error_message: NullableString = ""
    resource_type: Int8 = 0
    resource_name: String = ""


@response_to(AlterConfigsRequest)
class AlterConfigsResponse:
    """One result for each resource."""

    throttle_time_ms: Int32 = 0
    responses: Array[AlterConfigsResourceResponse] = empty()
