"""DescribeClientQuotas: limits of users and clients (KIP-546)."""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to, struct
from groupkeeper.protocol.types import (
    Array,
    Boolean,
    Float64,
    Int8,
    Int16,
    Int32,
    NullableArray,
    NullableString,
    String,
)


@struct
class ComponentData:
    """A part of the filter."""

    entity_type: String = ""
    """What has the quota, such as `user`."""
    match_type: Int8 = 0
    """0 for a name, 1 for the default, 2 for any name."""
    match: NullableString = ""
    """The name, or null."""


@message(key=ApiKey.DESCRIBE_CLIENT_QUOTAS, versions=(0, 1), flexible=1)
class DescribeClientQuotasRequest:
    """The filter."""

    components: Array[ComponentData] = empty()
    """Parts that all must match."""
    strict: Boolean = False
    """Whether what has further parts is left out."""


@struct
class EntityData:
    """A part of what has a quota."""

    entity_type: String = ""
    """Kind of the part."""
    entity_name: NullableString = ""
    """Name of the part, or null for the default."""


@struct
class ValueData:
    """A quota."""

    key: String = ""
    """Name of the quota."""
    value: Float64 = 0.0
    """The limit."""


@struct
class EntryData:
    """The quotas of one entity."""

    entity: Array[EntityData] = empty()
    """What has them."""
    values: Array[ValueData] = empty()
    """The quotas."""


@response_to(DescribeClientQuotasRequest)
class DescribeClientQuotasResponse:
    """The quotas that match."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = ""
    entries: NullableArray[EntryData] = empty()
    """The quotas by entity."""
