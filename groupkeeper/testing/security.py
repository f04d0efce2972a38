"""Users and TLS of a test broker: its listener, settings, credentials and certificates.

What clients need for them is in `client_settings`. TLS needs the package cryptography
(`groupkeeper[tls]`), SCRAM needs scramp (`groupkeeper[sasl]`).
"""

import atexit
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, Final, TypedDict

from groupkeeper.access.users import (
    MIN_ITERATIONS,
    SALT_BYTES,
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    SCRAM_TYPES,
    credential,
    salted_password,
    user_key,
)
from groupkeeper.settings.options import Listen, SecurityProtocol
from groupkeeper.settings.sasl_settings import ENABLED, PLAIN
from groupkeeper.settings.table import Settings, SettingsError
from groupkeeper.testing import arguments
from groupkeeper.testing.cluster.leadership import ANY_PORT
from groupkeeper.testing.errors import WrongArgument
from groupkeeper.topics.topics import Topics

if TYPE_CHECKING:
    from groupkeeper.access.own_certificates import CertificateFiles

PASSWORD_MECHANISMS: Final = (SCRAM_SHA_512, SCRAM_SHA_256, PLAIN)
"""Mechanisms for users with passwords; clients get the settings of the first that is enabled."""
SUPER_USER: Final = "User:groupkeeper.testing"
"""Principal of the test's own requests if there is an authorizer, which they must pass."""
CLIENT: Final = "client"
"""Common name in the certificate of clients."""
PASSWORDS: Final = 256
"""Maximum number of passwords whose salted form is kept: PBKDF2 takes milliseconds."""
_KEY_STORE: Final = "ssl.keystore."

_Credentials = list[tuple[str, dict[str, object]]]
"""Entries of the catalog: key and value."""


class SecurityArguments(TypedDict, total=False):
    """The arguments of a broker that say who may connect, and how; see `Broker`."""

    users: Mapping[str, str] | None
    tls: bool


@dataclass(frozen=True, slots=True)
class BrokerSecurity:
    """How clients reach a test broker, and who they can be."""

    listeners: Sequence[Listen] = (ANY_PORT,)
    """Those of the first nodes; see `Cluster`."""
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Passwords by name."""
    certificates: "CertificateFiles | None" = None
    """None: no TLS, or with certificates of the settings."""

    @property
    def defaults(self) -> list[str]:
        """Settings as `KEY=VALUE`, which those of a test precede."""
        found = []
        if self.listeners[0].protocol.has_sasl:
            found.append(f"{ENABLED}={','.join(PASSWORD_MECHANISMS)}")
        if self.certificates is not None:
            files = {
                "keystore": self.certificates.server,
                "truststore": self.certificates.authority,
            }
            for store, file in files.items():
                found += [f"ssl.{store}.type=PEM", f"ssl.{store}.location={file}"]
        return found

    def check(self, given: Mapping[str, Any]) -> None:
        """Raise WrongArgument for a setting of a test that contradicts. Any: values of settings."""
        key = next((each for each in given if str(each).startswith(_KEY_STORE)), None)
        if key is not None and self.certificates is not None:
            raise WrongArgument(
                f"settings= has {key}, but tls=True makes its own key: leave it out"
            )

    def credentials(self) -> _Credentials:
        """Derive the credentials of all users for each SCRAM mechanism. Takes some milliseconds for
        each password, the first time.
        """
        return [
            (user_key(name, mechanism), _stored(mechanism, password))
            for name, password in self.users.items()
            for mechanism in SCRAM_TYPES.values()
        ]


def security_of(given: SecurityArguments) -> BrokerSecurity:
    """Return what the arguments of a broker ask for. Raises TypeError, ValueError and SettingsError
    if tls=True lacks a package.
    """
    for name in given.keys() - SecurityArguments.__annotations__.keys():
        raise TypeError(f"Broker() got an unexpected keyword argument '{name}'")
    users = _checked(given.get("users"))
    is_tls = arguments.flag(given.get("tls", False), "tls=")
    security = "SASL_" if users is not None else ""
    protocol = SecurityProtocol[f"{security}SSL" if is_tls else f"{security}PLAINTEXT"]
    listener = Listen(protocol.name, ANY_PORT.bind, protocol=protocol)
    return BrokerSecurity((listener,), users or {}, _certificates() if is_tls else None)


def _checked(users: Any) -> dict[str, str] | None:
    """Check {user: password}, and return a copy. Any: an unchecked argument of a test."""
    if users is None:
        return None
    if not isinstance(users, Mapping):
        raise TypeError(f"users= is a dict such as {{'alice': 'secret'}}, not {users!r}")
    found = {
        arguments.text(name, "a user's name"): arguments.text(password, f"the password of '{name}'")
        for name, password in users.items()
    }
    for name, password in found.items():
        if not name or not password or "\0" in name + password:
            raise ValueError(f"users=: name and password of {name!r} have characters, and no NUL")
    return found


def with_super_user(settings: Settings) -> Settings:
    """Return the settings with the test itself among the super users, if there is an authorizer."""
    if not settings.authorizer_class_name:
        return settings
    users = ";".join(filter(None, (settings.super_users, SUPER_USER)))
    return replace(settings, super_users=users)


async def store(topics: Topics, credentials: _Credentials) -> None:
    """Store credentials in the catalog, except those that are there: a test may have changed them.
    Raises StorageError.
    """
    async with topics.admin.changing:
        new = [each for each in credentials if each[0] not in topics.catalog.access]
        await topics.catalog.change_access(new, topics.wall_ms())


@lru_cache(maxsize=PASSWORDS)
def _stored(mechanism: str, password: str) -> dict[str, object]:
    salt = os.urandom(SALT_BYTES)
    salted = salted_password(mechanism, password, salt, MIN_ITERATIONS)
    return credential(mechanism, salted, salt, MIN_ITERATIONS).entry


@cache
def _certificates() -> "CertificateFiles":
    """Make the certificates of all brokers of this process, in a folder that is gone with it."""
    try:
        from groupkeeper.access.own_certificates import make_certificates
    except ModuleNotFoundError:
        message = "tls=True needs the package cryptography: pip install cryptography"
        raise SettingsError(message) from None
    folder = Path(mkdtemp(prefix="groupkeeper-testing-"))
    atexit.register(_remove, folder, os.getpid())
    return make_certificates(folder, (), CLIENT)


def _remove(folder: Path, process: int) -> None:
    """Remove the folder at the end of its process, not of a fork."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
