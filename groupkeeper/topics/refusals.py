"""Refusals of a request, or a part of one: an error code and a message."""

from typing import Final, NamedTuple

from groupkeeper.protocol.errors import ErrorCode

MALFORMED: Final = (
    "This most likely occurs because of a request being malformed by the client library or the "
    "message was sent to an incompatible broker. See the broker logs for more details."
)
"""Kafka's message for INVALID_REQUEST where it has no other."""


class Refusal(NamedTuple):
    """An error code, and a message for the client where the API has a field for it."""

    error: ErrorCode
    message: str | None = None


NOT_REFUSED: Final = Refusal(ErrorCode.NONE)


class Refused(Exception):
    """One topic, partition or resource of a request is refused; the others are not affected."""

    def __init__(self, error: ErrorCode, message: str | None = None) -> None:
        super().__init__(message)
        self.refusal = Refusal(error, message)
