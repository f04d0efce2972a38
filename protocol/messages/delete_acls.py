"""DeleteAcls: removes the access rules that match filters (KIP-140)."""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to, since, struct
from groupkeeper.protocol.messages.describe_acls import LITERAL
from groupkeeper.protocol.types import Array, Int8, Int16, Int32, NullableString, String


@struct
class DeleteAclsFilter:
    """One filter."""

    resource_type_filter: Int8 = 0
    """Kind of resource, a `ResourceKind`."""
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


@message(key=ApiKey.DELETE_ACLS, versions=(1, 3), flexible=2)
class DeleteAclsRequest:
    """The filters; version 3 adds the resource type USER."""

    filters: Array[DeleteAclsFilter] = empty()
    """The filters."""


@struct
class DeleteAclsMatchingAcl:
    """A rule that was removed."""

    error_code: Int16 = 0
    error_message: NullableString = ""
    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Int8 = since(1, default=LITERAL)
    """How the name is meant."""
    principal: String = ""
    """Who."""
    host: String = ""
    """From which host."""
    operation: Int8 = 0
    """What."""
    permission_type: Int8 = 0


@struct
class DeleteAclsFilterResult:
    """The result for one filter."""

    error_code: Int16 = 0
    error_message: NullableString = ""
    matching_acls: Array[DeleteAclsMatchingAcl] = empty()
    """The rules that matched."""


@response_to(DeleteAclsRequest)
class DeleteAclsResponse:
    """One result for each filter, in the order of the request."""

    throttle_time_ms: Int32 = 0
    filter_results: Array[DeleteAclsFilterResult] = empty()
    """The results."""
