"""Keys and trusted certificates, from files or from the text of settings, as PEM.

Files are read in full, so this belongs on a thread once clients are served.
Source: Kafka's `DefaultSslEngineFactory`; KIP-651 (PEM).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NoReturn

from groupkeeper.settings.table import Settings, SettingsError

_CERTIFICATE: Final = re.compile(
    r"-----BEGIN CERTIFICATE-----[\sA-Za-z0-9+/=]+-----END CERTIFICATE-----"
)
_KEY: Final = re.compile(r"-----BEGIN ([A-Z]+ )?PRIVATE KEY-----.+?PRIVATE KEY-----", re.DOTALL)
_JAVA_STORES: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
"""How files of Java's types JKS and JCEKS begin."""
_PEM: Final = b"-----BEGIN "


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A private key with its certificate and the certificates of issuers, in PEM."""

    certificates: Sequence[str]
    """The owner's first."""
    key: str = field(repr=False)
    password: str | None = field(repr=False)
    """None: the key is not encrypted."""


@dataclass(frozen=True, slots=True)
class _Store:
    """One of the two stores of the settings: its kind in their names, and what they say."""

    kind: str
    location: str | None
    type: str
    password: str | None = field(repr=False)

    def key(self, name: str) -> str:
        return f"ssl.{self.kind}.{name}"

    def read(self) -> bytes:
        """Return the file. Raises SettingsError if it cannot be read."""
        assert self.location is not None
        try:
            return Path(self.location).read_bytes()
        except OSError as error:
            reason = error.strerror or error
            raise SettingsError(f"{self.key('location')} = {self.location}: {reason}") from None

    def fail(self, problem: str) -> NoReturn:
        raise SettingsError(f"{self.key('location')} = {self.location}: {problem}")

    def pem(self) -> str:
        """Return the text of a PEM file. Raises SettingsError."""
        data = self.read()
        if self.password is not None:
            raise SettingsError(
                f"{self.key('password')}: a PEM file has none: leave it out; ssl.key.password is "
                "that of an encrypted key"
            )
        if _PEM not in data:
            self._refuse_java(data)
            self.fail(f"not PEM: write {self.key('type')}=PKCS12 if it is PKCS12")
        return data.decode("utf-8", "replace")

    def binary(self) -> bytes:
        """Return a PKCS12 file, also if the settings say JKS, as in Java. Raises SettingsError."""
        data = self.read()
        if _PEM in data:
            self.fail(f"this is PEM: write {self.key('type')}=PEM")
        self._refuse_java(data)
        if self.password is None:
            self.fail(f"give its password in {self.key('password')}")
        return data

    def _refuse_java(self, data: bytes) -> None:
        if data.startswith(_JAVA_STORES):
            no_keys = " -nokeys" if self.kind == "truststore" else ""
            self.fail(
                "a JKS file, which only Java reads: convert it with keytool -importkeystore "
                f"-srckeystore {self.location} -destkeystore store.p12 -deststoretype PKCS12 && "
                f"openssl pkcs12 -in store.p12{no_keys} -out store.pem, and write "
                f"{self.key('type')}=PEM"
            )


def _key_store(settings: Settings) -> _Store:
    location, kind = settings.ssl_keystore_location, settings.ssl_keystore_type
    return _Store("keystore", location, kind, settings.ssl_keystore_password)


def _trust_store(settings: Settings) -> _Store:
    location, kind = settings.ssl_truststore_location, settings.ssl_truststore_type
    return _Store("truststore", location, kind, settings.ssl_truststore_password)


def files_of(settings: Settings) -> list[str]:
    """Return the files that `key_pair` and `trusted` read."""
    return [
        each.location
        for each in (_key_store(settings), _trust_store(settings))
        if each.location is not None
    ]


def key_pair(settings: Settings) -> KeyPair:
    """Read the key of a listener. Raises SettingsError."""
    store = _key_store(settings)
    key, chain = settings.ssl_keystore_key, settings.ssl_keystore_certificate_chain
    if (key is None) != (chain is None):
        raise SettingsError("ssl.keystore.key and ssl.keystore.certificate.chain belong together")
    if key is not None and chain is not None:
        _check_text(store, "ssl.keystore.key")
        return _pair(f"{key}\n{chain}", settings.ssl_key_password, "ssl.keystore.key")
    if store.location is None:
        raise SettingsError(
            "TLS needs a key: give ssl.keystore.type=PEM and ssl.keystore.location=FILE; "
            "`groupkeeper certs DIR` makes one"
        )
    if store.type == "PEM":
        where = f"ssl.keystore.location = {store.location}"
        return _pair(store.pem(), settings.ssl_key_password, where)
    return _from_pkcs12(store)


def trusted(settings: Settings) -> str:
    """Read the certificates that sign those of clients; empty without any. Raises SettingsError."""
    store, text = _trust_store(settings), settings.ssl_truststore_certificates
    if text is not None:
        _check_text(store, "ssl.truststore.certificates")
        found = _CERTIFICATE.findall(text)
        if not found:
            raise SettingsError("ssl.truststore.certificates: no certificate in PEM")
    elif store.location is None:
        return ""
    elif store.type == "PEM":
        found = _CERTIFICATE.findall(store.pem())
    else:
        found = _certificates(_opened(store))
    if not found:
        store.fail("no certificate in it")
    return "\n".join(found)


def _check_text(store: _Store, key: str) -> None:
    if store.type != "PEM":
        raise SettingsError(f"{key} is PEM: write {store.key('type')}=PEM")
    if store.location is not None:
        raise SettingsError(f"{key} and {store.key('location')} are mutually exclusive")


def _pair(text: str, password: str | None, where: str) -> KeyPair:
    key, certificates = _KEY.search(text), _CERTIFICATE.findall(text)
    if key is None:
        raise SettingsError(f"{where}: no private key in PEM; it belongs into the same file")
    if not certificates:
        raise SettingsError(f"{where}: no certificate in PEM")
    is_encrypted = "ENCRYPTED" in key[0]
    if is_encrypted and password is None:
        raise SettingsError(f"{where}: the key is encrypted: give its password in ssl.key.password")
    return KeyPair(certificates, key[0], password if is_encrypted else None)


# -- PKCS12: needs the package cryptography -------------------------------------------------------


def _from_pkcs12(store: _Store) -> KeyPair:
    found = _opened(store)
    if found.key is None or found.cert is None:
        store.fail("no private key with a certificate in it")
    from secrets import token_hex

    from cryptography.hazmat.primitives import serialization

    password = token_hex()  # the key goes to OpenSSL by way of a file
    key = found.key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(password.encode()),
    )
    return KeyPair(_certificates(found), key.decode(), password)


# Any: a type of the optional package.
def _certificates(found: Any) -> list[str]:
    """Return all certificates of a PKCS12 file, that of the key first."""
    from cryptography.hazmat.primitives.serialization import Encoding

    certificates = [*([found.cert] if found.cert else ()), *found.additional_certs]
    return [each.certificate.public_bytes(Encoding.PEM).decode() for each in certificates]


# Any: a type of the optional package.
def _opened(store: _Store) -> Any:
    data = store.binary()
    try:
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ModuleNotFoundError:
        store.fail("PKCS12 needs the package cryptography: pip install cryptography")
    assert store.password is not None
    try:
        return pkcs12.load_pkcs12(data, store.password.encode())
    except ValueError:
        store.fail(f"not PKCS12, or {store.key('password')} is not its password")
