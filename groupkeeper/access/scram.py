"""SCRAM-SHA-256 and SCRAM-SHA-512: the client proves that it knows the password, and the server
that it knows the credential; neither sends it.

The package scramp computes and compares. What is accepted is what Kafka's brokers accept: their
grammar of the first message is checked before, and an authorization id may be the name itself. The
name is kept from scramp, which would spend 9 µs of the event loop on each of its characters.
Imported with the first login.

Source: RFC 5802, RFC 7677; Kafka's `ScramSaslServer`, `ScramMessages`.
"""

import re
from typing import Any, Final

from scramp.core import Gs2Header, Salt, ScramException, ScramMechanism, ScramServer

from groupkeeper.access.plain import OTHER_ID
from groupkeeper.access.sasl import SaslFailed, SaslStep, told
from groupkeeper.access.users import MIN_ITERATIONS, NAME_LENGTH, Users

MESSAGE_BYTES: Final = 8 * 1024
"""Longest message of a client. The longest name takes 3 KiB of it, if all of it is escaped."""
NONCE_LENGTH: Final = 1_024
"""Longest nonce of a client. Those of clients have 20 to 40 characters."""
_SASLNAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]++|=2C|=3D)++"
_VALUE: Final = r"[\x01-\x2b\x2d-\x7f]+"
_FIRST: Final = re.compile(
    rf"n,(?:a=({_SASLNAME}))?,"
    rf"n=({_SASLNAME}),(r=[\x21-\x2b\x2d-\x7e]{{1,{NONCE_LENGTH}}})((?:,[A-Za-z]+={_VALUE})*)",
    re.DOTALL,
)
"""Kafka's grammar of a client's first message: without channel binding."""
_DELEGATION: Final = re.compile(r",tokenauth=true\b", re.IGNORECASE)


class _AnySalt(Salt):  # type: ignore[misc]  # scramp is not typed
    """Kafka's clients choose the salt, and brokers take any."""

    MIN_LENGTH = 0


class _OwnId(Gs2Header):  # type: ignore[misc]  # scramp is not typed
    """The header of a client that names itself as authorization id."""

    def __init__(self, header: bytes) -> None:
        super().__init__("n", None)
        self._header = header

    def __bytes__(self) -> bytes:
        return self._header


class ScramConversation:
    """One login, of two steps."""

    def __init__(self, mechanism: str, users: Users) -> None:
        self._mechanism = mechanism
        self._users = users
        self._name = self.tried = ""
        # Any, here and below: scramp is not typed.
        self._server: Any = ScramServer(ScramMechanism(mechanism), self._credential)
        self._began = False

    def _credential(self, _: Any) -> tuple[Any, bytes, bytes, int]:
        known = self._users.find(self._name, self._mechanism)
        if known is None:
            raise SaslFailed("no such user with this mechanism")
        if known.iterations < MIN_ITERATIONS:
            raise SaslFailed("its credential has too few iterations")
        return _AnySalt(known.salt), known.stored_key, known.server_key, known.iterations

    def step(self, token: bytes) -> SaslStep:
        """Take the client's first or final message. Raises SaslFailed."""
        if len(token) > MESSAGE_BYTES:
            raise SaslFailed(f"a message of more than {MESSAGE_BYTES} bytes")
        try:
            if not self._began:
                self._began = True
                return SaslStep(self._first(token.decode()).encode())
            self._server.set_client_final(token.decode())
            return SaslStep(self._server.get_server_final().encode(), self._name)
        except UnicodeDecodeError:
            raise SaslFailed("a message that is not UTF-8") from None
        except ScramException as error:
            raise SaslFailed(f"SCRAM: {error}") from None

    def _first(self, message: str) -> str:
        found = _FIRST.fullmatch(message)
        if found is None:
            raise SaslFailed("a first message that is not SCRAM's, or with channel binding")
        other_id, name, nonce, extensions = found[1] or "", _unescaped(found[2]), found[3], found[4]
        self._name = self.tried = name
        if len(name) > NAME_LENGTH:
            raise SaslFailed(f"a name of more than {NAME_LENGTH} characters")
        if _DELEGATION.search(extensions):
            raise SaslFailed("a delegation token: there are none here")
        self._server.set_client_first(f"n,,n=user,{nonce}")
        if other_id:
            if _unescaped(other_id) != name:
                raise told(OTHER_ID)
            self._server.gs2_header = _OwnId(f"n,a={other_id},".encode())
        # The proof is about the whole message.
        self._server.client_first_bare = message.split(",", 2)[2]
        first: str = self._server.get_server_first()
        return first


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")
