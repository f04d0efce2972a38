"""DescribeAcls: there is no access control, as on a broker without an authorizer.

Source: Kafka's `AclApis.handleDescribeAcls`.
"""

from typing import Final

from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

_MESSAGE: Final = "No Authorizer is configured on the broker"


def describe_acls(
    request: DescribeAclsRequest, caller: Caller, reply_to: ReplyTo
) -> DescribeAclsResponse:
    """SECURITY_DISABLED."""
    return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=_MESSAGE)
