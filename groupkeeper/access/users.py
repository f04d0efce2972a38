"""SCRAM credentials of users: entries `user:<name>/<mechanism>` of the catalog's `access`.

A credential is what a server needs to check a password without knowing it. It is not a password,
but an attacker who has it can guess passwords at leisure, and `server_key` proves to clients that
this is the server: neither is ever shown.

Source: RFC 5802; Kafka's `ScramFormatter`, `ScramMechanism`, `ScramControlManager`.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final

KEY: Final = "user:"
SALT_BYTES: Final = 16
NAME_LENGTH: Final = 1_024
"""Longest name of a user, in characters."""
MIN_ITERATIONS, MAX_ITERATIONS = 4096, 16384
"""Bounds of the rounds of PBKDF2, as in Kafka."""
SCRAM_SHA_256: Final = "SCRAM-SHA-256"
SCRAM_SHA_512: Final = "SCRAM-SHA-512"

SCRAM_TYPES: Final[Mapping[int, str]] = {1: SCRAM_SHA_256, 2: SCRAM_SHA_512}
"""The mechanisms by their number in requests; 0 is unknown."""
TYPE_OF: Final = {name: number for number, name in SCRAM_TYPES.items()}
_HASH: Final = {SCRAM_SHA_256: "sha256", SCRAM_SHA_512: "sha512"}

Access = Mapping[str, Mapping[str, object]]
"""The catalog's users and ACLs."""


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """A user's credential for one mechanism."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    @property
    def entry(self) -> dict[str, object]:
        """The value of its catalog entry."""
        return {
            "salt": b64encode(self.salt).decode(),
            "stored_key": b64encode(self.stored_key).decode(),
            "server_key": b64encode(self.server_key).decode(),
            "iterations": self.iterations,
        }


def user_key(name: str, mechanism: str) -> str:
    """Return the key of a credential among the catalog's entries."""
    return f"{KEY}{name}/{mechanism}"


def load_hashes() -> None:
    """Import what derives keys, blocking: for a thread, before the event loop needs it."""
    import_module("hmac")


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """Derive PBKDF2's key from a password: 2.6 ms for 4,096 rounds, not for the event loop."""
    from hashlib import pbkdf2_hmac

    return pbkdf2_hmac(_HASH[mechanism], password.encode(), salt, iterations)


def credential(mechanism: str, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Return the credential of a salted password."""
    import hashlib
    import hmac

    kind = _HASH[mechanism]
    client_key = hmac.digest(salted, b"Client Key", kind)
    stored_key = hashlib.new(kind, client_key).digest()
    return ScramCredential(salt, stored_key, hmac.digest(salted, b"Server Key", kind), iterations)


def is_password(mechanism: str, known: ScramCredential, password: str) -> bool:
    """Return whether the credential is that of a password, in time that does not depend on it. As
    slow as `salted_password`.
    """
    from hmac import compare_digest

    salted = salted_password(mechanism, password, known.salt, known.iterations)
    derived = credential(mechanism, salted, known.salt, known.iterations)
    return compare_digest(derived.stored_key, known.stored_key)


class Users:
    """Reads credentials from the catalog; changes are `Catalog.change_access`."""

    def __init__(self, access: Callable[[], Access]) -> None:
        self._access = access

    def find(self, name: str, mechanism: str) -> ScramCredential | None:
        # Any: the JSON of `ScramCredential.entry`.
        value: Any = self._access().get(user_key(name, mechanism))
        if value is None:
            return None
        salt, stored_key, server_key = (
            b64decode(value[each]) for each in ("salt", "stored_key", "server_key")
        )
        return ScramCredential(salt, stored_key, server_key, value["iterations"])

    def iterations(self, name: str) -> dict[str, int]:
        """Return the rounds of a user's credentials, by mechanism; nothing for an unknown user."""
        access = self._access()
        found: dict[str, Any] = {
            each: access.get(user_key(name, each)) for each in SCRAM_TYPES.values()
        }
        return {each: value["iterations"] for each, value in found.items() if value is not None}

    def names(self) -> Iterator[str | None]:
        """Yield the name of each user, once, and None for each other entry: there may be many."""
        seen = set()
        for key in [*self._access()]:
            name = key.removeprefix(KEY).rpartition("/")[0] if key.startswith(KEY) else ""
            yield None if not name or name in seen else name
            seen.add(name)
