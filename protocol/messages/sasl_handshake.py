"""SaslHandshake: asks for a SASL mechanism before the client authenticates."""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to
from groupkeeper.protocol.types import Array, Int16, String


@message(key=ApiKey.SASL_HANDSHAKE, versions=(0, 1))
class SaslHandshakeRequest:
    """In version 1 the client goes on with SaslAuthenticate, in version 0 with bare tokens."""

    mechanism: String = ""
    """The mechanism that the client wants, such as `PLAIN`."""


@response_to(SaslHandshakeRequest)
class SaslHandshakeResponse:
    """An error, and what the server has."""

    error_code: Int16 = 0
    """0, or ILLEGAL_SASL_STATE where the listener has no SASL."""
    mechanisms: Array[String] = empty()
    """The mechanisms that the server has."""
