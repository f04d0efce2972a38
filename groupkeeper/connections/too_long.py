"""Requests that are longer than their API permits: read, and refused in the API's own form.

If the connection were closed, the client would resend the same request for ever. So such a request
is read, and its handler is not called. If the response has an error at its top, the request is not
even decoded; if each row has one, it is decoded in slices like any long request.
Source: Kafka, which takes up to `socket.request.max.bytes` and then fails to append a record that
is over `max.message.bytes` (UNKNOWN_SERVER_ERROR).
"""

from collections.abc import Callable
from typing import Any, Final

from groupkeeper.coordinator.caller import Caller
from groupkeeper.coordinator.replies import join_refused
from groupkeeper.exchange import ReplyTo, Response
from groupkeeper.observe.logs import Logger
from groupkeeper.observe.seldom import limit_reached
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from groupkeeper.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from groupkeeper.protocol.messages.join_group import JoinGroupRequest
from groupkeeper.protocol.registry import APIS
from groupkeeper.refused_rows import ROWS, RowArrays, refused_rows, rows_of
from groupkeeper.turns import Slices

ROWS_BYTES: Final = 16 * 1024 * 1024
"""The longest request that is read to be refused row by row. One request of this size is decoded at
a time, with at most half a million items; longer requests close their connection."""

_ERROR: Final = ErrorCode.UNKNOWN_SERVER_ERROR
_log = Logger("connection")


def most_bytes(key: int, handled: int, longest: int) -> tuple[int, str]:
    """Return the longest request of an API that is answered, in bytes, and the limit's name.

    `handled`: the longest request passed to its handler, `longest`: the setting
    `socket.request.max.bytes`.
    """
    if key in ROWS and handled < ROWS_BYTES:
        return ROWS_BYTES, f"ROWS_BYTES ({ROWS_BYTES} bytes)"
    if key in APIS and key not in ROWS:
        return longest, "socket.request.max.bytes"
    return handled, f"{handled} bytes, or 4 x message.max.bytes, except for Produce"


class TooLong:
    """A handler that refuses."""

    def __init__(self, key: int, version: int, most: int) -> None:
        """`most`: maximum bytes of a request."""
        self._key = key
        self._version = version
        self._most = most
        self._rows: RowArrays | None = rows_of(key, version)

    @property
    def reads(self) -> bool:
        """Whether the request has to be decoded."""
        return self._rows is not None

    # Any: a request of this API, or None if it need not be decoded.
    def handle(
        self, request: Any, caller: Caller, reply_to: ReplyTo
    ) -> Response | Slices[Response]:
        """Return UNKNOWN_SERVER_ERROR, Kafka's answer for a record that is too large."""
        limit_reached(_log, "max_request_bytes", self._most, APIS[self._key].name, caller)
        return refusal(self._key, self._version, request, _ERROR)


# Any: a request of this API, or None if it need not be decoded.
def refusal(key: int, version: int, request: Any, error: ErrorCode) -> Response | Slices[Response]:
    """Return the response with an error of any API: in each row, or at its top."""
    api, rows = APIS[key], rows_of(key, version)
    if rows is not None:
        return refused_rows(key, version, rows, request, error)
    if api.request_type is JoinGroupRequest:
        return join_refused(error, version)
    if api.request_type is DescribeLogDirsRequest:  # at the top from version 3 on only
        results = [DescribeLogDirsResult(error_code=error)]
        return DescribeLogDirsResponse(error_code=error, results=results)
    if api.request_type is AlterUserScramCredentialsRequest:
        users = [AlterUserScramCredentialsResult(error_code=error)]
        return AlterUserScramCredentialsResponse(results=users)
    make: Callable[..., Response] = api.response_type
    return make(error_code=error)
