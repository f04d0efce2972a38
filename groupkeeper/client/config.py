"""Reads a properties file for Kafka clients (`--config`): parameters of `Client`, and defaults of
the options that commands share.

Unsupported security settings are errors; all other settings tune the Java client and are ignored.
Keys and certificates must be PEM. Source: `SaslConfigs`, `SslConfigs`, KIP-651.
"""

import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import javaproperties

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_KNOWN: Final = {
    "security.protocol",
    "sasl.jaas.config",
    "sasl.kerberos.service.name",
    "sasl.login.callback.handler.class",
    "sasl.mechanism",
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.header.urlencode",
    "sasl.oauthbearer.jwt.retriever.class",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.token.endpoint.url",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.type",
}
_TUNING: Final = (
    "sasl.login.connect.",
    "sasl.login.read.",
    "sasl.login.refresh.",
    "sasl.login.retry.",
)
"""What keys begin with that say when Java's client asks for a token: they are ignored."""
_OPTIONS: Final = {
    "bootstrap.servers": "bootstrap_server",
    "http": "http",
    "http.ca": "http_ca",
    "http.token.file": "http_token_file",
}
_TIMEOUT: Final = "default.api.timeout.ms"
_JAAS_OPTION: Final = re.compile(r'(\w+)\s*=\s*"((?:[^"\\]|\\.)*)"')


class ConfigError(Exception):
    """The file is invalid; the message is one line that names the file and the setting."""


def read_config(path: Path) -> dict[str, Any]:
    """Return parameters of `Client`: security, and a client id if given. Raises ConfigError."""
    given = _read_file(path)
    for key in given:
        is_secure = key.startswith(("sasl.", "ssl.", "security.")) and not key.startswith(_TUNING)
        if is_secure and key not in _KNOWN:
            raise ConfigError(f"{path}: {key} is not supported: remove it to continue without")
    try:
        return _parameters(given)
    except (ValueError, OSError) as error:  # ssl.SSLError is an OSError
        raise ConfigError(f"{path}: {error}") from error


def option_defaults(path: Path) -> dict[str, str | float]:
    """Return values of options by the name of their parameter, for keys that the file has. Raises
    ConfigError.
    """
    given = _read_file(path)
    found: dict[str, str | float] = {}
    for key, parameter in _OPTIONS.items():
        if key in given:
            found[parameter] = given[key]
    if (timeout_ms := given.get(_TIMEOUT)) is not None:
        if not (timeout_ms.isascii() and timeout_ms.isdigit() and len(timeout_ms) < 10):
            raise ConfigError(f"{path}: {_TIMEOUT} = {timeout_ms!r}: give milliseconds")
        found["timeout_ms"] = int(timeout_ms) / 1000
    return found


def _read_file(path: Path) -> dict[str, str]:
    try:
        with path.open(encoding="utf-8") as file:
            return dict(javaproperties.load(file))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {error}") from error


def _parameters(given: Mapping[str, str]) -> dict[str, Any]:
    protocol = given.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise ValueError(f"security.protocol must be one of {', '.join(PROTOCOLS)}")
    found: dict[str, Any] = {"security_protocol": protocol}
    if "client.id" in given:
        found["client_id"] = given["client.id"]
    if protocol.startswith("SASL"):
        found |= _sasl(given)
    if protocol.endswith("SSL"):
        found["ssl_context"] = _ssl_context(given)
    return found


def _sasl(given: Mapping[str, str]) -> dict[str, Any]:
    mechanism = given.get("sasl.mechanism", "")
    if mechanism == "GSSAPI":
        service = given.get("sasl.kerberos.service.name", "kafka")
        return {"sasl_mechanism": mechanism, "sasl_kerberos_service_name": service}
    found = _JAAS_OPTION.findall(given.get("sasl.jaas.config", ""))
    options = {name: _unescaped(text) for name, text in found}
    if mechanism == "OAUTHBEARER":
        from groupkeeper.client.oauth import token_source

        source = token_source(given, options, _endpoint_context(given))
        return {"sasl_mechanism": mechanism, "sasl_oauth_token_provider": source}
    if mechanism not in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        raise ValueError(
            "sasl.mechanism must be PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, GSSAPI or OAUTHBEARER"
        )
    if not {"username", "password"} <= options.keys():
        raise ValueError('sasl.jaas.config has no username="..." and password="..."')
    return {
        "sasl_mechanism": mechanism,
        "sasl_plain_username": options["username"],
        "sasl_plain_password": options["password"],
    }


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _endpoint_context(given: Mapping[str, str]) -> Any:
    """Return the TLS context for an endpoint of tokens, which may have a certificate of the trust
    store, as brokers, or of an authority that the system trusts.
    """
    import ssl

    _check_stores(given)
    context = ssl.create_default_context()
    file, text = _trusted(given)
    if file or text:
        context.load_verify_locations(cafile=file, cadata=text)
    return context


def _trusted(given: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Return the file and the text of the trust store."""
    return given.get("ssl.truststore.location"), given.get("ssl.truststore.certificates")


def _check_stores(given: Mapping[str, str]) -> None:
    """Raise ValueError for a store that is not PEM."""
    for store in ("truststore", "keystore"):
        is_file = f"ssl.{store}.location" in given
        kind = given.get(f"ssl.{store}.type", "JKS" if is_file else "PEM")
        if kind.upper() != "PEM":
            raise ValueError(
                f"ssl.{store}.type is {kind}: only PEM is supported "
                "(`openssl pkcs12 -in store.p12 -nodes` converts)"
            )


def _ssl_context(given: Mapping[str, str]) -> Any:
    import ssl

    _check_stores(given)
    file, text = _trusted(given)
    context = ssl.create_default_context(cafile=file, cadata=text)
    if given.get("ssl.endpoint.identification.algorithm", "https") == "":
        context.check_hostname = False
    password = given.get("ssl.key.password")
    if location := given.get("ssl.keystore.location"):
        context.load_cert_chain(location, password=password)
    elif "ssl.keystore.key" in given:
        _load_inline(context, given, password)
    return context


def _load_inline(context: Any, given: Mapping[str, str], password: str | None) -> None:
    """Load a key given in the file itself, by way of a private temporary file, as Python needs."""
    text = f"{given['ssl.keystore.key']}\n{given.get('ssl.keystore.certificate.chain', '')}\n"
    descriptor, path = tempfile.mkstemp(suffix=".pem")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        context.load_cert_chain(path, password=password)
    finally:
        Path(path).unlink()
