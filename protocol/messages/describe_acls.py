"""DescribeAcls: the access rules that match a filter (KIP-140)."""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to, since, struct
from groupkeeper.protocol.types import Array, Int8, Int16, Int32, NullableString, String

LITERAL = 3
"""The pattern type of a name that is meant as it is."""


@message(key=ApiKey.DESCRIBE_ACLS, versions=(1, 3), flexible=2)
class DescribeAclsRequest:
    """The filter."""

    resource_type_filter: Int8 = 0
    """Kind of resource, a `ResourceType`."""
    resource_name_filter: NullableString = ""
    """Name of the resource; null for any."""
    pattern_type_filter: Int8 = since(1, default=LITERAL)
    """How the name of a rule is meant: literally, as a prefix, or any way."""
    principal_filter: NullableString = ""
    """Principal that is allowed or denied something; null for any."""
    host_filter: NullableString = ""
    """From which host; null for any."""
    operation: Int8 = 0
    """Operation that is allowed or denied."""
    permission_type: Int8 = 0


@struct
class AclDescription:
    """One rule about a resource."""

    principal: String = ""
    """Who."""
    host: String = ""
    """From which host."""
    operation: Int8 = 0
    """What."""
    permission_type: Int8 = 0


@struct
class DescribeAclsResource:
    """The rules about one resource."""

    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Int8 = since(1, default=LITERAL)
    """How the name is meant."""
    acls: Array[AclDescription] = empty()
    """The rules."""


@response_to(DescribeAclsRequest)
class DescribeAclsResponse:
    """The rules, or an error."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = ""
    resources: Array[DescribeAclsResource] = empty()
    """The rules by resource."""
