"""Refusals of requests about users and quotas, which differ from those of other APIs.

Source: `getErrorResponse` of Kafka's `AlterUserScramCredentialsRequest`,
`DescribeUserScramCredentialsRequest` and `DescribeClientQuotasRequest`.
"""

from groupkeeper.exchange import Response
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from groupkeeper.protocol.messages.describe_client_quotas import DescribeClientQuotasResponse
from groupkeeper.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from groupkeeper.topics.slices import counts, each
from groupkeeper.turns import Slices


def changes_refused(
    request: AlterUserScramCredentialsRequest, error: ErrorCode, words: str
) -> Slices[Response]:
    """Return one result for each user, however often the request names them."""
    names = [row.name for row in request.deletions] + [row.name for row in request.upsertions]
    users = yield from counts(names, lambda name: name)
    made = AlterUserScramCredentialsResult
    results = yield from each(
        users, lambda name: made(user=name, error_code=error, error_message=words)
    )
    return AlterUserScramCredentialsResponse(results=results)


def description_refused(
    request: DescribeUserScramCredentialsRequest, error: ErrorCode
) -> Slices[Response]:
    """Return a result without a name for each name of the request."""
    made = DescribeUserScramCredentialsResult
    results = yield from each(
        request.users or (), lambda _: made(error_code=error, error_message=None)
    )
    return DescribeUserScramCredentialsResponse(
        error_code=error, error_message=None, results=results
    )


def quotas_refused(error: ErrorCode) -> Response:
    """Return no quotas, which is not the same as an empty list of them."""
    return DescribeClientQuotasResponse(error_code=error, error_message=None, entries=None)
