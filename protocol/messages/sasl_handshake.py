"""SaslHandshake: requests a SASL mechanism before the client authenticates."""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to
from groupkeeper.protocol.types import Array, Int16, String


@message(key=ApiKey.SASL_HANDSHAKE, versions=(0, 1))
class SaslHandshakeRequest:
    """Requests a mechanism. Version 1 is followed by SaslAuthenticate, version 0 by bare tokens."""

    mechanism: String = ""
    """The mechanism that the client wants, such as `PLAIN`."""


@response_to(SaslHandshakeRequest)
class SaslHandshakeResponse:
    """An error, and the mechanisms of the server."""

    error_code: Int16 = 0
    """0, or ILLEGAL_SASL_STATE where the listener has no SASL."""
    mechanisms: Array[String] = empty()
    """The mechanisms that the server has."""
