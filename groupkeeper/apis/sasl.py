"""SaslHandshake and SaslAuthenticate: refused, as this server authenticates nobody.

Without them a client that is configured for SASL waits, and says something else. A line names it,
and what to set.
Source: Kafka's `KafkaApis.handleSaslHandshakeRequest` and `handleSaslAuthenticateRequest`, which
a listener without SASL comes to.
"""

from typing import Final

from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo
from groupkeeper.observe.logs import Logger
from groupkeeper.observe.seldom import Seldom
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from groupkeeper.protocol.messages.sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

WANTED: Final = (
    "a client wants SASL: this port speaks plaintext without authentication; "
    "set security.protocol=PLAINTEXT"
)
AFTER: Final = "SaslAuthenticate request received after successful authentication"
"""Kafka's words: a listener without SASL takes every client for authenticated."""

_log = Logger("connection")


class SaslHandlers:
    """Answers both with ILLEGAL_SASL_STATE."""

    def __init__(self) -> None:
        self._seldom = Seldom()

    def handshake(
        self, request: SaslHandshakeRequest, caller: Caller, reply_to: ReplyTo
    ) -> SaslHandshakeResponse:
        self._tell(caller)
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)

    def authenticate(
        self, request: SaslAuthenticateRequest, caller: Caller, reply_to: ReplyTo
    ) -> SaslAuthenticateResponse:
        self._tell(caller)
        return SaslAuthenticateResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=AFTER
        )

    def _tell(self, caller: Caller) -> None:
        peer = caller.peer
        if times := self._seldom.due(peer.host):
            _log.warning(WANTED, client=peer.host, client_id=peer.client_id, times=times)
