"""SaslAuthenticate: one token of a SASL exchange (KIP-152)."""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import message, response_to, since
from groupkeeper.protocol.types import Bytes, Int16, Int64, NullableString


@message(key=ApiKey.SASL_AUTHENTICATE, versions=(0, 2), flexible=2)
class SaslAuthenticateRequest:
    """The client's next token."""

    auth_bytes: Bytes = b""
    """Bytes of the mechanism, which may hold a password."""

    def __repr__(self) -> str:
        return "SaslAuthenticateRequest()"


@response_to(SaslAuthenticateRequest)
class SaslAuthenticateResponse:
    """The server's next token, or an error."""

    error_code: Int16 = 0
    error_message: NullableString = ""
    auth_bytes: Bytes = b""
    """Bytes of the mechanism."""
    session_lifetime_ms: Int64 = since(1)
    """Milliseconds after which the client has to authenticate again (KIP-368); 0 for never."""
