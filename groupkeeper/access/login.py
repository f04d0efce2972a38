"""The login of one connection: what it may send, in which order, and when its session ends.

Knows neither sockets nor frames: it is given the requests SaslHandshake and tokens, and returns
what to answer, and whether the connection ends. After the login the session has an end if
`connections.max.reauth.ms` is set, or if the client's token has one (KIP-368); the client logs in
again on the same connection before, with the same mechanism and as the same user.

Source: Kafka's `SaslServerAuthenticator`, and `KafkaChannel.maybeBeginServerReauthentication`.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from math import inf
from typing import Final

from groupkeeper.access.audit import EXPIRED, REAUTHENTICATED, LoginAudit
from groupkeeper.access.principal import USER, Principal
from groupkeeper.access.sasl import Begin, Conversation, SaslFailed, SaslStep
from groupkeeper.access.users import NAME_LENGTH
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from groupkeeper.protocol.messages.sasl_handshake import SaslHandshakeResponse

MIN_REAUTH_S: Final = 1.0
"""Minimum time between two re-authentications of a connection, as in Kafka."""
TOKENS_MOST: Final = 8
"""Tokens in one conversation; each mechanism needs one or two."""


class Phase(Enum):
    """The request that a login expects next; values describe it."""

    BEGIN = "ApiVersions or SaslHandshake"
    HANDSHAKE = "SaslHandshake: ApiVersions was answered"
    TOKENS = "tokens of the mechanism"
    OTHER_MECHANISM = "anything, to which the connection is closed: see `Login.handshake`"
    DONE = "requests"
    FAILED = "nothing"


@dataclass(slots=True)
class TokenOutcome:
    """The answer to a token, and what becomes of the login."""

    reply: bytes = b""
    """The server's token."""
    error: str | None = None
    """What to tell the client of a login that failed; None: nothing, if it `ends`."""
    lifetime_ms: int = 0
    ends: bool = False
    """Close the connection after the answer, and after the delay for failures."""

    def response(self) -> SaslAuthenticateResponse | None:
        """Return the answer to SaslAuthenticate."""
        if not self.ends:
            return SaslAuthenticateResponse(
                error_message=None, auth_bytes=self.reply, session_lifetime_ms=self.lifetime_ms
            )
        if self.error is None:
            return None
        return SaslAuthenticateResponse(
            error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=self.error
        )


@dataclass(slots=True)
class Sasl:
    """The settings and counters that all logins of a listener share."""

    listener: str
    mechanisms: Mapping[str, Begin]
    """The enabled ones, in the order of the settings."""
    lifetime_ms: Mapping[str, int]
    """`connections.max.reauth.ms` by mechanism; 0 for no end."""
    seconds: Callable[[], float]
    wall_ms: Callable[[], int]
    audit: LoginAudit
    delay_s: float = 0.1
    """Time before a failure is answered: `connection.failed.authentication.delay.ms`."""
    receive_bytes: int = 524_288
    """Longest request before the login: `sasl.server.max.receive.size`."""
    delayed: int = 0
    """Failures that wait for their answer now."""


@dataclass(slots=True, eq=False)
class Login:
    """One connection's login."""

    sasl: Sasl
    host: str = ""
    phase: Phase = Phase.BEGIN
    principal: str = ""
    """Such as `User:alice`; empty before the first login."""
    until: float = inf
    """When the session ends, in seconds of the server's clock; infinite without an end."""
    takes_raw: bool = False
    """Tokens come without Kafka's headers: after SaslHandshake version 0."""
    _mechanism: str = "none"
    _conversation: Conversation | None = None
    _tokens: int = 0
    _began: float = field(default=-inf)
    """When the last re-authentication began."""

    # -- re-authentication ---------------------------------------------------------------------

    def may_begin_again(self, now: float) -> bool:
        """Return whether a SaslHandshake begins a re-authentication. If not, it is answered like
        one on a listener without SASL.
        """
        return self.until != inf and now - self._began >= MIN_REAUTH_S

    def begin_again(self, now: float) -> None:
        """Expect a handshake, for the same mechanism as before."""
        self._began = now
        self.phase = Phase.BEGIN
        self.takes_raw = False

    def expired(self) -> None:
        """Note that the connection is closed because its session has ended."""
        self.sasl.audit.count(self.sasl.listener, self._mechanism, EXPIRED)

    # -- the steps of a login ------------------------------------------------------------------

    def versions_answered(self) -> None:
        """ApiVersions was answered, which is allowed once."""
        self.phase = Phase.HANDSHAKE

    def handshake(self, mechanism: str, version: int) -> SaslHandshakeResponse:
        """Choose a mechanism; the phase is FAILED after one that is not enabled. Another one than
        before is accepted and refused with the next request, as in Kafka.
        """
        enabled = list(self.sasl.mechanisms)
        self.takes_raw = version == 0
        if mechanism not in enabled:
            if not self.principal:
                self._mechanism = "other"
            self.fail(f"mechanism {mechanism[:NAME_LENGTH]!r} is not enabled: {', '.join(enabled)}")
            error = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            return SaslHandshakeResponse(error_code=error, mechanisms=enabled)
        if self.principal and mechanism != self._mechanism:
            self.phase = Phase.OTHER_MECHANISM
        else:
            self.phase = Phase.TOKENS
            self._mechanism = mechanism
            self._conversation = self.sasl.mechanisms[mechanism]()
            self._tokens = 0
        return SaslHandshakeResponse(mechanisms=enabled)

    def token(self, token: bytes) -> TokenOutcome | Awaitable[TokenOutcome]:
        """Take a token of the client, in the phases TOKENS and OTHER_MECHANISM."""
        if self._conversation is None or self.phase is Phase.OTHER_MECHANISM:
            return self.fail("another mechanism than before")
        self._tokens += 1
        if self._tokens > TOKENS_MOST:
            return self._refuse(SaslFailed(f"more than {TOKENS_MOST} tokens"))
        try:
            found = self._conversation.step(token)
        except SaslFailed as failure:
            return self._refuse(failure)
        return self._took(found) if isinstance(found, SaslStep) else self._later(found)

    async def _later(self, found: Awaitable[SaslStep]) -> TokenOutcome:
        try:
            step = await found
        except SaslFailed as failure:
            return self._refuse(failure)
        return self._took(step)

    def _took(self, step: SaslStep) -> TokenOutcome:
        if not step.name:
            return TokenOutcome(step.reply)
        if len(step.name) > NAME_LENGTH:
            return self._refuse(SaslFailed(f"a name of more than {NAME_LENGTH} characters"))
        principal = str(Principal(USER, step.name))
        if self.principal not in ("", principal):
            was, name = self.principal.replace(":", ".", 1), f"{USER}.{step.name}"
            why = f"Cannot change principals during re-authentication from {was}: {name}"
            return self._refuse(SaslFailed(why, why))
        sasl, lifetime_ms = self.sasl, self._lifetime_ms(step.expires_ms)
        if self.principal:
            sasl.audit.count(sasl.listener, self._mechanism, REAUTHENTICATED)
        else:
            sasl.audit.succeeded(sasl.listener, self._mechanism, principal, self.host)
        self.principal, self.phase, self._conversation = principal, Phase.DONE, None
        self.until = inf if lifetime_ms is None else sasl.seconds() + lifetime_ms / 1000
        return TokenOutcome(step.reply, lifetime_ms=lifetime_ms or 0)

    def _lifetime_ms(self, expires_ms: int | None) -> int | None:
        """Return how long the session lasts; None if it does not end."""
        most = self.sasl.lifetime_ms.get(self._mechanism, 0)
        ends = [most] if most > 0 else []
        if expires_ms is not None:
            ends.append(expires_ms - self.sasl.wall_ms())
        return max(0, min(ends)) if ends else None

    def _refuse(self, failure: SaslFailed) -> TokenOutcome:
        again = "re-authentication" if self.principal else "authentication"
        told = failure.told or (
            f"Authentication failed during {again} due to invalid credentials with SASL mechanism "
            f"{self._mechanism}"
        )
        return self.fail(str(failure), told)

    def fail(self, why: str, told: str | None = None) -> TokenOutcome:
        """End the login, and note why."""
        sasl = self.sasl
        name = self._conversation.tried if self._conversation is not None else ""
        name = name or self.principal.removeprefix(f"{USER}:")
        self.phase, self._conversation = Phase.FAILED, None
        sasl.audit.failed(sasl.listener, self._mechanism, name, self.host, why)
        return TokenOutcome(error=told, ends=True)


LoginFactory = Callable[[], Login]
"""Makes the login of a new connection."""
