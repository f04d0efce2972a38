"""The connection of a listener with SASL: until the client has logged in, nothing is answered but
ApiVersions and the login itself.

A subclass, so that connections without SASL are neither slower nor larger. What a login may do is
decided by `access/login.py`; here are its frames: requests, or tokens without a header after
SaslHandshake version 0.

A failure is answered after a delay, in which nothing is read from the client; the event loop does
other things meanwhile. A session that has ended closes the connection at its next request; the
heartbeats that repeat look at its end, too.

Source: Kafka's `SaslServerAuthenticator`, `SocketServer.processCompletedReceives`,
`Selector.maybeDelayCloseOnAuthenticationFailure`.
"""

import asyncio
from collections.abc import Awaitable
from functools import partial
from math import inf
from struct import Struct
from types import GeneratorType
from typing import Any, Final

from groupkeeper.access.login import Login, Phase, TokenOutcome
from groupkeeper.connections.answer_errors import count_errors
from groupkeeper.connections.budget import OverBudgetError
from groupkeeper.connections.call import (
    API_VERSIONS,
    Call,
    ConnectionServices,
    decode,
    encode,
    is_served,
)
from groupkeeper.connections.connection import Connection
from groupkeeper.connections.connection_table import ConnectionState
from groupkeeper.connections.steady import GuardedBeat
from groupkeeper.connections.steady_commits import commits_of
from groupkeeper.connections.too_long import refusal
from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import Response
from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.errors import DecodeError, ErrorCode
from groupkeeper.protocol.framing import RequestHeader, read_request_header
from groupkeeper.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from groupkeeper.protocol.messages.sasl_handshake import SaslHandshakeRequest
from groupkeeper.protocol.registry import APIS
from groupkeeper.turns import Work

DELAYED_MOST: Final = 1_000
"""Connections of a listener that wait for the answer to a failed login; further ones are closed at
once, without an answer. All of them count as open connections."""
REFUSED_BYTES: Final = 8 * 1024
"""Longest request that is answered with ILLEGAL_SASL_STATE, where a token is expected."""

SASL_HANDSHAKE: Final = ApiKey.SASL_HANDSHAKE.value
SASL_AUTHENTICATE: Final = ApiKey.SASL_AUTHENTICATE.value
_SIZE_BYTES: Final = 4
_KEY_BYTES: Final = 2

_key_at = Struct(">h").unpack_from
_pack_size = Struct(">i").pack


class SaslConnection(Connection):
    """The protocol of one accepted socket of a listener with SASL."""

    def __init__(self, services: ConnectionServices, listener: str) -> None:
        super().__init__(services, listener)
        self._login: Login = services.logins[listener]()
        self._most_later = self._most
        self._most = self._login.sasl.receive_bytes + _SIZE_BYTES
        self._step_task: asyncio.Future[None] | None = None
        """A step of the login that waits for a thread."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._login.host = self.host

    # -- frames --------------------------------------------------------------------------------

    def _check_size(self, size: int, data: bytes, pos: int) -> int:
        login = self._login
        if login.phase is not Phase.DONE:
            if size == 0 and login.takes_raw:
                return _SIZE_BYTES
            if login.sasl.receive_bytes < size <= self._services.limits.produce_bytes:
                raise OverBudgetError(f"a login of {size} bytes", "sasl.server.max.receive.size")
        return super()._check_size(size, data, pos)

    def _frame(self, data: bytes, pos: int, stop: int, deadline: float) -> int:
        login = self._login
        if login.phase is Phase.DONE:
            is_handshake = _key_of(data, pos, stop) == SASL_HANDSHAKE
            if is_handshake and login.may_begin_again(self._now):
                self._begin_again()
            elif self._now > login.until:
                login.expired()
                self.close()
                return stop
            else:
                return super()._frame(data, pos, stop, deadline)
        if login.takes_raw and login.phase in (Phase.TOKENS, Phase.OTHER_MECHANISM):
            header = RequestHeader(SASL_AUTHENTICATE, 0, 0, self.peer.client_id)
            self._step(self._begin(header), data[pos + _SIZE_BYTES : stop])
        elif login.phase is Phase.BEGIN and _key_of(data, pos, stop) == API_VERSIONS:
            return super()._frame(data[:stop], pos, stop, deadline)  # and nothing after it
        else:
            self._login_frame(data, pos, stop)
        return stop

    def _login_frame(self, data: bytes, pos: int, stop: int) -> None:
        """Handle a request of a client that has not logged in. Raises DecodeError."""
        header, body = read_request_header(data, pos + _SIZE_BYTES, stop)
        key, version, login = header.api_key, header.api_version, self._login
        is_begun = login.phase in (Phase.TOKENS, Phase.OTHER_MECHANISM)
        wanted = SASL_AUTHENTICATE if is_begun else SASL_HANDSHAKE
        if key not in APIS or (key == wanted and not is_served(key, version)):
            raise DecodeError(f"API {key} version {version} during a login")
        if key == wanted:
            handler = self._authenticate if is_begun else self._handshake
            self._ask(handler, decode(header, data, body, stop), self._begin(header))
            return
        login.fail(f"{APIS[key].name} instead of {APIS[wanted].name}")
        if is_begun and is_served(key, version) and stop - body <= REFUSED_BYTES:
            self._ask(self._illegal, decode(header, data, body, stop), self._begin(header))
        elif key == API_VERSIONS:  # for a second time
            self.close()
        else:
            self._fail(None, None)

    # -- requests, as handlers -----------------------------------------------------------------

    def _handshake(
        self, request: SaslHandshakeRequest, caller: Caller, reply_to: Any
    ) -> Response | None:
        response = self._login.handshake(request.mechanism, caller.api_version)
        if self._login.phase is not Phase.FAILED:
            return response
        if self._login.principal:
            self.close()  # without an answer, as in Kafka
        else:
            self._fail(reply_to, response)
        return None

    def _authenticate(
        self, request: SaslAuthenticateRequest, caller: Caller, reply_to: Any
    ) -> None:
        self._step(reply_to, bytes(request.auth_bytes))

    def _illegal(self, request: Any, caller: Caller, reply_to: Any) -> None:
        """Refuse a request where a token is expected."""
        key = reply_to.header.api_key
        response = refusal(key, caller.api_version, request, ErrorCode.ILLEGAL_SASL_STATE)
        if isinstance(response, GeneratorType):
            work = Work[Response](response)
            work.run(self._seconds, inf)  # the request is short
            response = work.result
        self._fail(reply_to, response)

    # -- tokens --------------------------------------------------------------------------------

    def _step(self, call: Call, token: bytes) -> None:
        """Pass a token to the login, and answer it now or later."""
        outcome = self._login.token(token)
        if isinstance(outcome, TokenOutcome):
            self._told(call, outcome)
        else:
            self.state = ConnectionState.WAITING
            self._step_task = asyncio.ensure_future(self._wait_for(call, outcome))

    async def _wait_for(self, call: Call, later: Awaitable[TokenOutcome]) -> None:
        try:
            outcome = await later
        except Exception:  # noqa: BLE001  # a login's bug costs only its connection
            self._failed("login cannot be handled")
            return
        if self.state is not ConnectionState.CLOSED:
            self._told(call, outcome)

    def _told(self, call: Call, outcome: TokenOutcome) -> None:
        login = self._login
        response = outcome.response()
        if outcome.ends or response is None:
            self._fail(call, None if login.takes_raw else response)
            return
        if login.phase is Phase.DONE:
            self.peer.principal = login.principal
            self._most = self._most_later
        if login.takes_raw:
            self.answered_in_bytes(call, _pack_size(len(outcome.reply)) + outcome.reply)
        else:
            self.answered(call, response)

    def answered(self, call: Call, response: Response) -> None:
        is_first = call.header.api_key == API_VERSIONS and self._login.phase is Phase.BEGIN
        if is_first and getattr(response, "error_code", ErrorCode.NONE) == ErrorCode.NONE:
            self._login.versions_answered()
        super().answered(call, response)

    # -- failures ------------------------------------------------------------------------------

    def _fail(self, call: Call | None, response: Response | None) -> None:
        """Answer a failure after the delay, and close. Without a response only close."""
        sasl = self._login.sasl
        if sasl.delayed >= DELAYED_MOST or self._transport is None:
            self.close()
            return
        if self.state is ConnectionState.SERVING:
            self.state = ConnectionState.WAITING
        sasl.delayed += 1
        end = partial(self._end_login, call, response)
        asyncio.get_running_loop().call_later(sasl.delay_s, end)

    def _end_login(self, call: Call | None, response: Response | None) -> None:
        self._login.sasl.delayed -= 1
        if call is not None and response is not None and self.state is ConnectionState.WAITING:
            # In one piece, although there are APIs with long answers: the connection ends.
            count_errors(self._services.answer_errors, call.header.api_key, response)
            self.answered_in_bytes(call, encode(call.header, response))
        if self.state is not ConnectionState.CLOSED:
            self.close()

    def _refuse(self, error: DecodeError | OverBudgetError) -> None:
        if self._login.phase not in (Phase.DONE, Phase.FAILED):
            self._login.fail(f"no login: {error}")
        super()._refuse(error)

    # -- the session ---------------------------------------------------------------------------

    def _begin_again(self) -> None:
        """Begin a re-authentication: until it is over, no other request is answered."""
        self._login.begin_again(self._now)
        self._most = self._login.sasl.receive_bytes + _SIZE_BYTES
        self._steady, self._commits = None, commits_of(self._services.authorizer)

    def _remember(self, request: Any, data: bytes, pos: int, stop: int) -> None:
        super()._remember(request, data, pos, stop)
        steady, until = self._steady, self._login.until
        if steady is not None and until != inf:
            self._steady = GuardedBeat(steady, self._services.authorizer, until)


def _key_of(data: bytes, pos: int, stop: int) -> int:
    """Return the API key of the request at `pos`; -1 if there is none."""
    if stop - pos < _SIZE_BYTES + _KEY_BYTES:
        return -1
    key: int = _key_at(data, pos + _SIZE_BYTES)[0]
    return key
