"""The parts of a SASL conversation that mechanisms share: a step, and its failure.

A conversation belongs to one login. It takes the client's tokens in order, and each of its steps
returns the server's token at once, or something to wait for (a thread that derives keys).

Source: RFC 4422; Kafka's `SaslServerAuthenticator`, `SaslServer`.
"""

from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol


class SaslStep(NamedTuple):
    """The answer of a conversation to one token."""

    reply: bytes = b""
    """The server's token."""
    name: str = ""
    """Whose login is complete; empty until then."""
    expires_ms: int | None = None
    """Unix time at which the credential ends; None if it does not."""


class SaslFailed(Exception):
    """A login that fails. The message is for the log: it may say that a user does not exist, but
    has neither a password nor a key.
    """

    def __init__(self, why: str, told: str | None = None) -> None:
        """`told`: what the client is told, if that is more than that its credentials are invalid.
        Kafka's brokers make the same difference (SaslException, SaslAuthenticationException).
        """
        super().__init__(why)
        self.told = told


class Conversation(Protocol):
    """One conversation of one mechanism."""

    @property
    def tried(self) -> str:
        """The name that the client gave, for the log; empty until then."""

    def step(self, token: bytes) -> SaslStep | Awaitable[SaslStep]:
        """Take the client's next token. Raises SaslFailed."""


Begin = Callable[[], Conversation]
"""Begins a conversation of a mechanism."""


def told(message: str) -> SaslFailed:
    """Return a failure whose message the client gets as well."""
    return SaslFailed(message, message)
