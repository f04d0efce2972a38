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
    """Name of the config."""
    value: NullableString = ""
    """New value; null is refused."""


@struct
class AlterConfigsResource:
    """A resource and all that is to be set for it."""

    resource_type: Int8 = 0
    """Kind of the resource, a `ResourceType`."""
    resource_name: String = ""
    """Name of the resource: a topic, a group, or a broker id as text."""
    configs: Array[AlterableConfig] = empty()
    """All configs that the resource shall have; those not listed return to their defaults."""


@message(key=ApiKey.ALTER_CONFIGS, versions=(0, 2), flexible=2)
class AlterConfigsRequest:
    """Replaces settings, or only checks whether that would work."""

    resources: Array[AlterConfigsResource] = empty()
    """Resources to change, each at most once."""
    validate_only: Boolean = False
    """True checks the request and changes nothing."""


@struct
class AlterConfigsResourceResponse:
    """What became of one resource."""

    error_code: Int16 = 0
    """0, or why the resource was not changed."""
    error_message: NullableString = ""
    """The error in words; null without an error."""
    resource_type: Int8 = 0
    """Kind of the resource, as in the request."""
    resource_name: String = ""
    """Name of the resource, as in the request."""


@response_to(AlterConfigsRequest)
class AlterConfigsResponse:
    """One result for each resource."""

    throttle_time_ms: Int32 = 0
    """Milliseconds for which a quota throttles the client; 0 if none does."""
    responses: Array[AlterConfigsResourceResponse] = empty()
    """One result for each resource."""
