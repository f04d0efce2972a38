"""ListConfigResources: the resources that have configs of their own (KIP-1142).

Version 0, then called ListClientMetricsResources (KIP-714), lists client metrics only.
"""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to, since, struct
from groupkeeper.protocol.types import Array, Int8, Int16, Int32, String


@message(key=ApiKey.LIST_CONFIG_RESOURCES, versions=(0, 1), flexible=0)
class ListConfigResourcesRequest:
    """Names the kinds of resources to list."""

    resource_types: Array[Int8] = since(1)
    """Kinds to list, `ResourceType`s; empty lists all."""


@struct
class ConfigResource:
    """One resource."""

    resource_name: String = ""
    resource_type: Int8 = since(1, default=16)
    """Kind of the resource, a `ResourceType`; 16 is client metrics."""


@response_to(ListConfigResourcesRequest)
class ListConfigResourcesResponse:
    """The resources of those kinds."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    config_resources: Array[ConfigResource] = empty()
    """The resources."""
