"""Why a request is refused, in Kafka's words."""

from typing import Final

MALFORMED: Final = (
    "This most likely occurs because of a request being malformed by the client library or the "
    "message was sent to an incompatible broker. See the broker logs for more details."
)
"""Kafka's words for INVALID_REQUEST where it has no others."""
