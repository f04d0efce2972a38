"""CreateAcls: adds access rules (KIP-140)."""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to, since, struct
from groupkeeper.protocol.messages.describe_acls import LITERAL
from groupkeeper.protocol.types import Array, Int8, Int16, Int32, NullableString, String


@struct
class AclCreation:
    """One rule."""

    resource_type: Int8 = 0
    """Kind of resource, a `ResourceKind`."""
    resource_name: String = ""
    """Name of the resource, or `*`."""
    resource_pattern_type: Int8 = since(1, default=LITERAL)
    """How the name is meant: literally, or as a prefix."""
    principal: String = ""
    """Who."""
    host: String = ""
    """From which host."""
    operation: Int8 = 0
    """What."""
    permission_type: Int8 = 0


@message(key=ApiKey.CREATE_ACLS, versions=(1, 3), flexible=2)
class CreateAclsRequest:
    """The rules to add; version 3 adds the resource type USER."""

    creations: Array[AclCreation] = empty()
    """The rules."""


@struct
class AclCreationResult:
    """The result for one rule."""

    error_code: Int16 = 0
    error_message: NullableString = ""


@response_to(CreateAclsRequest)
class CreateAclsResponse:
    """One result for each rule, in the order of the request."""

    throttle_time_ms: Int32 = 0
    results: Array[AclCreationResult] = empty()
