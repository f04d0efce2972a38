"""TLS of one listener: its context for `ssl`, made from settings and files, and kept up to date.

Imported with the first TLS listener, as `ssl` takes 4 MiB. Knows no sockets: connections ask for
the context, and for the principal of a client's certificate.
Source: Kafka's `DefaultSslEngineFactory`, `SslFactory` and `DefaultKafkaPrincipalBuilder`.
"""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from groupkeeper.access.audit import SUCCEEDED, LoginAudit
from groupkeeper.access.certificate import expiry_of, subject_of
from groupkeeper.access.key_store import KeyPair, files_of, key_pair, trusted
from groupkeeper.access.principal import USER, Principal
from groupkeeper.access.watched_files import WatchedFiles
from groupkeeper.observe.logs import Logger
from groupkeeper.settings.options import Listen
from groupkeeper.settings.table import Settings, SettingsError

if TYPE_CHECKING:
    from groupkeeper.access.principal_mapping import PrincipalMapping

CERTIFICATE: Final = "certificate"
"""Mechanism of logins by certificate, in metrics and lines."""
_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_KEY_PROBLEMS: Final = {
    "KEY_VALUES_MISMATCH": "the private key does not belong to the first certificate",
    "KEY_TYPE_MISMATCH": "the private key does not belong to the first certificate",
}
"""Words for reasons of OpenSSL."""

_log = Logger("access")


class ListenerTls:
    """The TLS context of one listener, current for new connections."""

    def __init__(self, listen: Listen, settings: Settings, audit: LoginAudit | None = None) -> None:
        """`settings`: those of the server. Reads files. Raises SettingsError. `audit` counts and
        logs clients that certificates name.
        """
        self._audit = audit
        self.listener = listen.name
        own = settings.own_of(listen.name)
        self._settings = settings.for_listener(listen.name)
        self._client_auth = self._settings.ssl_client_auth
        if listen.protocol.has_sasl and "ssl_client_auth" not in own:
            self._client_auth = "none"  # who logs in shows no certificate, as in Kafka
        self._names_clients = not listen.protocol.has_sasl
        if audit is not None and self._names_clients and self._client_auth != "none":
            audit.count(listen.name, CERTIFICATE, SUCCEEDED, 0)  # the series exists from the start
        self._files = WatchedFiles(files_of(self._settings))
        try:
            self._mapping = _mapping(self._settings) if self._names_clients else None
            self.context, self.expires_at = self._load()
        except SettingsError as error:
            raise SettingsError(f"listener {listen.name}: {error}") from None

    def principal_of(self, certificate: bytes | None) -> str:
        """Return who a client is by its DER certificate, which was verified: empty without one, and
        if a login says it. Raises ValueError if no rule gives a name.
        """
        if certificate is None or self._mapping is None:
            return ""
        return str(Principal(USER, self._mapping.name_of(subject_of(certificate))))

    def logged_in(self, principal: str, host: str) -> None:
        """Note a client that its certificate names."""
        if principal and self._audit is not None:
            self._audit.succeeded(self.listener, CERTIFICATE, principal, host)

    def refresh(self) -> None:
        """Load files that have changed; keep what there is if they cannot be used. On a thread."""
        if not self._files.have_changed():
            return
        try:
            self.context, self.expires_at = self._load()
        except SettingsError as error:
            _log.error(
                "changed TLS files are not used: new connections get the old certificate",
                listener=self.listener,
                error=str(error),
            )
        else:
            _log.info("changed TLS files are used for new connections", listener=self.listener)

    def _load(self) -> tuple[ssl.SSLContext, float]:
        """Return a new context, and the Unix time at which its certificate expires.

        Raises SettingsError.
        """
        try:
            return self._made(key_pair(self._settings))
        except ValueError as error:  # a password that is too long, a certificate with odd parts
            raise SettingsError(f"ssl.keystore: {error}") from None

    def _made(self, pair: KeyPair) -> tuple[ssl.SSLContext, float]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.num_tickets = 1  # as Java's
        self._limit_versions(context)
        _load_key(context, pair)
        self._trust(context)
        return context, expiry_of(ssl.PEM_cert_to_DER_cert(pair.certificates[0]))

    def _limit_versions(self, context: ssl.SSLContext) -> None:
        names = [name.strip() for name in (self._settings.ssl_cipher_suites or "").split(",")]
        versions = self._settings.ssl_enabled_protocols or ",".join(_VERSIONS)
        allowed = {_VERSIONS[each] for each in versions.split(",")}
        if any(names):
            from groupkeeper.access.cipher_suites import SETTING, cipher_suites

            try:
                suites = cipher_suites(filter(None, names))
            except ValueError as error:
                raise SettingsError(f"{SETTING}: {error}") from None
            if suites.tls_1_2:
                context.set_ciphers(suites.tls_1_2)
            else:
                allowed.discard(ssl.TLSVersion.TLSv1_2)
            if not suites.tls_1_3:
                allowed.discard(ssl.TLSVersion.TLSv1_3)
            if not allowed:
                raise SettingsError(
                    f"{SETTING}: none of them is for {versions}, the ssl.enabled.protocols"
                )
        context.minimum_version, context.maximum_version = min(allowed), max(allowed)

    def _trust(self, context: ssl.SSLContext) -> None:
        context.verify_mode = _CLIENT_AUTH[self._client_auth]
        if self._client_auth == "none":
            return
        # As in Java: whatever is in the trust store is trusted, not only roots.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        certificates = trusted(self._settings)
        if not certificates:
            raise SettingsError(
                f"ssl.client.auth = {self._client_auth}: give the certificates that sign those of "
                "clients in ssl.truststore.location, with ssl.truststore.type=PEM"
            )
        try:
            context.load_verify_locations(cadata=certificates)
        except ssl.SSLError as error:
            raise SettingsError(f"ssl.truststore: {_words(error)}") from None


def _mapping(settings: Settings) -> "PrincipalMapping":
    from groupkeeper.access.principal_mapping import SETTING, PrincipalMapping

    try:
        return PrincipalMapping(settings.ssl_principal_mapping_rules or "")
    except ValueError as error:
        raise SettingsError(f"{SETTING}: {error}") from None


def _load_key(context: ssl.SSLContext, pair: KeyPair) -> None:
    def password() -> str:  # else OpenSSL would ask the terminal
        return pair.password or ""

    with _as_file("\n".join((pair.key, *pair.certificates, ""))) as path:
        try:
            context.load_cert_chain(path, password=password)
        except ssl.SSLError as error:
            if pair.password is not None and error.reason not in _KEY_PROBLEMS:
                raise SettingsError(
                    "ssl.keystore: the key cannot be decrypted: is ssl.key.password its password?"
                ) from None
            raise SettingsError(f"ssl.keystore: {_words(error)}") from None


def _words(error: ssl.SSLError) -> str:
    reason = error.reason or "not in a form that OpenSSL reads"
    return _KEY_PROBLEMS.get(reason, reason.replace("_", " ").lower())


@contextmanager
def _as_file(text: str) -> Iterator[str]:
    """Yield the path of a file with this text, as Python's `ssl` wants one: in memory on Linux,
    else a private temporary one.
    """
    memory = _memory_file()
    if memory is None:
        import tempfile  # with its compressors, 1 MiB

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "key.pem")
            path.touch(mode=0o600)
            path.write_text(text)
            yield str(path)
        return
    with os.fdopen(memory, "wb") as file:
        file.write(text.encode())
        file.flush()
        yield _path_of(memory)


def _memory_file() -> int | None:
    """Return the descriptor of a new file in memory; None if there are none that have a path."""
    create = getattr(os, "memfd_create", None)
    if create is None:
        return None
    descriptor: int = create("key")
    if Path(_path_of(descriptor)).exists():
        return descriptor
    os.close(descriptor)
    return None


def _path_of(descriptor: int) -> str:
    return f"/proc/self/fd/{descriptor}"
