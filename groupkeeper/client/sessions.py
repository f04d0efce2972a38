"""Logins of connections with SASL, which are renewed before their sessions end (KIP-368).

A broker with `connections.max.reauth.ms`, or whose client has a token that expires, says with each
login how long it lasts, and closes the connection at the first request after that. So the login is
made anew on the same connection when most of that time is over; requests wait until it is.

Source: KIP-368; Kafka's `SaslClientAuthenticator` (when it is due).
"""

import asyncio
import math
import random
from collections.abc import Awaitable
from typing import Any, Final

from aiokafka.conn import AIOKafkaConnection
from aiokafka.errors import KafkaError, SaslAuthenticationFailed

from groupkeeper.protocol.api_keys import ApiKey

DUE_AT: Final = (0.85, 0.95)
"""Part of a session after which a login is due, from and to: at random, so that not all clients
come at once.
"""
LEAST_S: Final = 1.1
"""Shortest time between two logins: a broker takes none within a second of the last one."""
_TOLD: Final = 200
"""Characters of a broker's words about a token that are shown."""


async def open_connection(host: str, port: int, **more: Any) -> Any:  # Any: aiokafka is not typed
    """Return a connection that is logged in. Takes what aiokafka's `create_conn` takes."""
    connection = AIOKafkaConnection(host, port, **more)
    if more.get("security_protocol", "").startswith("SASL"):
        LoginSession(connection, more.get("sasl_mechanism", ""))
    await connection.connect()
    return connection


class LoginSession:
    """The login of one connection, of which it replaces `send`."""

    # Any: a connection, requests and responses of aiokafka, which is not typed.
    def __init__(self, connection: Any, mechanism: str) -> None:
        self._connection, self._send = connection, connection.send
        self._mechanism = mechanism
        self._due_s = math.inf
        """When the login is due, in seconds of the loop."""
        self._began_s = -math.inf
        """When the session began."""
        self._login: asyncio.Task[None] | None = None
        connection.send = self.send

    def send(self, request: Any, expect_response: bool = True) -> Awaitable[Any]:
        """Send a request, and return what waits for the response. A request that comes when the
        login is due is sent after that.
        """
        is_due = self._login is not None or asyncio.get_running_loop().time() >= self._due_s
        if is_due and asyncio.current_task() is not self._login:
            return self._sent_later(request, expect_response)
        answer: Awaitable[Any] = self._send(request, expect_response)
        is_login = getattr(request, "API_KEY", None) == ApiKey.SASL_AUTHENTICATE
        return self._noted(answer) if is_login else answer

    async def _sent_later(self, request: Any, expect_response: bool) -> Any:
        if self._login is None:
            self._login = asyncio.create_task(self._log_in())
        await asyncio.shield(self._login)
        return await self._send(request, expect_response)

    async def _log_in(self) -> None:
        """Log in again. Raises KafkaError, after the connection was closed."""
        self._due_s = math.inf  # until the broker says when
        try:
            await asyncio.sleep(self._began_s + LEAST_S - asyncio.get_running_loop().time())
            await self._connection._do_sasl_handshake()  # has no public name
        except BaseException as problem:
            self._connection.close()
            if isinstance(problem, KafkaError) or not isinstance(problem, Exception):
                raise
            raise SaslAuthenticationFailed(str(problem)) from problem
        finally:
            self._login = None

    async def _noted(self, answer: Awaitable[Any]) -> Any:
        """Return a response to SaslAuthenticate, of which the length of the session is noted. A
        refusal of a token is one of the login; aiokafka takes it for a success.
        """
        response = await answer
        if response.error_code:
            return response
        if self._mechanism == "OAUTHBEARER" and response.sasl_auth_bytes:
            told = bytes(response.sasl_auth_bytes).decode(errors="replace")[:_TOLD]
            raise SaslAuthenticationFailed(f"the broker does not take the token: {told!r}")
        lifetime_ms = getattr(response, "session_lifetime_ms", 0)  # since version 1
        if lifetime_ms > 0:
            part = random.uniform(*DUE_AT)  # noqa: S311  # spreads the load
            self._began_s = asyncio.get_running_loop().time()
            self._due_s = self._began_s + part * lifetime_ms / 1000
        return response
