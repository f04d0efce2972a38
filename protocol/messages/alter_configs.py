"""AlterConfigs (key 33): replace the settings of resources (KIP-133).

Whatever is not named is unset, which is why IncrementalAlterConfigs came after it.
"""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to, struct
from groupkeeper.protocol.types import Array, Boolean, Int8, Int16, Int32, NullableString, String


@struct
class AlterableConfig:
    """A setting and its value."""

    name: String = ""
    value: NullableString = ""


@struct
class AlterConfigsResource:
    """A resource and all that is to be set for it."""

    resource_type: Int8 = 0
    resource_name: String = ""
    configs: Array[AlterableConfig] = empty()


@message(key=ApiKey.ALTER_CONFIGS, versions=(0, 2), flexible=2)
class AlterConfigsRequest:
    """Replaces settings, or only checks whether that would work."""

    resources: Array[AlterConfigsResource] = empty()
    validate_only: Boolean = False


@struct
class AlterConfigsResourceResponse:
    """What became of one resource."""

    error_code: Int16 = 0
    error_message: NullableString = ""
    resource_type: Int8 = 0
    resource_name: String = ""


@response_to(AlterConfigsRequest)
class AlterConfigsResponse:
    """One result for each resource."""

    throttle_time_ms: Int32 = 0
    responses: Array[AlterConfigsResourceResponse] = empty()
