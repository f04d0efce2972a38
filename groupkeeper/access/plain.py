"""PLAIN: name and password in one token. For TLS, or networks that nobody listens to.

Passwords are those of a list in the settings (`user_<name>`, as for Kafka's PlainLoginModule), or
are checked against stored SCRAM credentials, which takes PBKDF2 and therefore a thread.

Source: RFC 4616; Kafka's `PlainSaslServer`, `PlainServerCallbackHandler`.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

from groupkeeper.access.sasl import SaslFailed, SaslStep, told
from groupkeeper.access.users import (
    MIN_ITERATIONS,
    SALT_BYTES,
    SCRAM_TYPES,
    Users,
    credential,
    is_password,
)

INVALID: Final = "Authentication failed: Invalid username or password"
OTHER_ID: Final = (
    "Authentication failed: Client requested an authorization id that is different from username"
)
NAME_BYTES: Final = 1024
"""Longest name and longest password that are looked up, in bytes. RFC 4616 has 255."""
_TOKENS: Final = 3

_OnThread = Callable[[Callable[[], bool]], Awaitable[bool]]
"""Runs a job on a thread; raises SaslFailed if too many wait."""
PasswordCheck = Callable[[str, str], bool | Awaitable[bool]]
"""Returns whether this is the password of a user: `(name, password) -> bool`."""


def parse_plain(token: bytes) -> tuple[str, str, str]:
    """Return authorization id, name and password. Raises SaslFailed."""
    parts = token.decode(errors="replace").split("\0", _TOKENS)
    if len(parts) != _TOKENS:
        message = f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}"
        raise told(message)
    other_id, name, password = parts
    if not name:
        raise told("Authentication failed: username not specified")
    if not password:
        raise told("Authentication failed: password not specified")
    return other_id, name, password


class PlainConversation:
    """One login; it has a single step."""

    def __init__(self, check: PasswordCheck) -> None:
        self._check = check
        self.tried = ""

    def step(self, token: bytes) -> SaslStep | Awaitable[SaslStep]:
        """Check name and password. Raises SaslFailed."""
        other_id, name, password = parse_plain(token)
        self.tried = name
        if max(len(name), len(password)) > NAME_BYTES:
            raise SaslFailed("the name or the password is too long", INVALID)
        found = self._check(name, password)
        if isinstance(found, bool):
            return _result(found, other_id, name)
        return _later(found, other_id, name)


async def _later(found: Awaitable[bool], other_id: str, name: str) -> SaslStep:
    return _result(await found, other_id, name)


def _result(found: bool, other_id: str, name: str) -> SaslStep:
    if not found:
        raise told(INVALID)
    if other_id not in ("", name):
        raise told(OTHER_ID)
    return SaslStep(name=name)


def listed(passwords: Mapping[str, str]) -> PasswordCheck:
    """Check against a list of passwords by name."""
    from hmac import compare_digest

    def check(name: str, password: str) -> bool:
        known = passwords.get(name)
        return compare_digest(password.encode(), (known or "").encode()) and known is not None

    return check


def stored(users: Users, on_thread: _OnThread) -> PasswordCheck:
    """Check against stored SCRAM credentials: the first mechanism that the user has. An unknown
    user takes as long as a known one.
    """

    def check(name: str, password: str) -> Awaitable[bool]:
        for mechanism in SCRAM_TYPES.values():
            known = users.find(name, mechanism)
            if known is not None:
                return on_thread(partial(is_password, mechanism, known, password))
        return on_thread(partial(_nobodys, password))

    return check


_UNKNOWN: Final = next(iter(SCRAM_TYPES.values()))


def _nobodys(password: str) -> bool:
    nobody = credential(_UNKNOWN, b"", bytes(SALT_BYTES), MIN_ITERATIONS)
    is_password(_UNKNOWN, nobody, password)
    return False
