"""The settings of SASL: a part of the table of settings (see table.py), and what they mean for one
listener. Those with the prefix `listener.name.<name>.` precede the general ones.

Source: Kafka's `BrokerSecurityConfigs`, `SaslConfigs`, `PlainLoginModule`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from groupkeeper.settings.log_settings import LogSettings
from groupkeeper.settings.setting import LONG_MAX, Setting, key_of, whole, written

if TYPE_CHECKING:
    from groupkeeper.settings.table import Settings

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
MECHANISMS: Final = (PLAIN, "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER)
ENABLED: Final = "sasl.enabled.mechanisms"
LIFETIME: Final = "connections.max.reauth.ms"
DELAY: Final = "connection.failed.authentication.delay.ms"
JAAS: Final = Setting(
    "sasl.jaas.config", str, None, "A login module and its options.", form="text", secret=True
)
"""Given for mechanisms of a listener only."""
PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_USER: Final = "user_"
_JAAS_ENTRY: Final = re.compile(
    r"\s*([\w.$]+)\s+(?:required|requisite|sufficient|optional)\b(.*);\s*", re.DOTALL
)
_JAAS_OPTION: Final = re.compile(r'\s*([^\s="]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s";]+))')


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)  # only the table is made
class SaslSettings(LogSettings):
    """Times are in the unit that the name ends with, sizes in bytes."""

    connection_failed_authentication_delay_ms: int = whole(
        100, "How long the answer to a failed login, and the end of its connection, wait."
    )
    connections_max_reauth_ms: int = whole(
        0,
        "How long a login is valid: then the connection is closed, unless the client has logged in "
        "again (KIP-368). 0 for as long as the connection. A token that ends earlier counts.",
        high=LONG_MAX,
    )
    sasl_enabled_mechanisms: str | None = written(
        "MECHANISM,...",
        f"How clients of SASL listeners may log in: {', '.join(MECHANISMS)}. Needed with such a "
        "listener.",
    )
    sasl_oauthbearer_clock_skew_seconds: int = whole(
        30, "By how much the clocks of a token's issuer and of this server may differ."
    )
    sasl_oauthbearer_expected_audience: str | None = written(
        "AUDIENCE,...",
        "What `aud` of a token must have one of; without it, tokens with `aud` fail.",
    )
    sasl_oauthbearer_expected_issuer: str | None = written("TEXT", "What `iss` of a token must be.")
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = whole(
        3_600_000, "How often the keys of the issuer are read again.", low=1, high=LONG_MAX
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: int = whole(
        10_000, "Longest pause before keys are read again after a failure.", high=LONG_MAX
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: int = whole(
        100, "First pause before keys are read again after a failure.", high=LONG_MAX
    )
    sasl_oauthbearer_jwks_endpoint_url: str | None = written(
        "URL", "The keys (JWKS) that tokens are signed with: https://, http:// or file:///."
    )
    sasl_oauthbearer_scope_claim_name: str | None = written(
        "NAME", "The claim of a token with its scopes; `scope` unless given."
    )
    sasl_oauthbearer_sub_claim_name: str | None = written(
        "NAME", "The claim of a token with the name of the user; `sub` unless given."
    )
    sasl_server_max_receive_size: int = whole(
        524_288, "Longest request of a client that has not logged in.", low=1
    )


@dataclass(frozen=True, slots=True)
class ListenerSasl:
    """The login to one listener."""

    mechanisms: tuple[str, ...]
    lifetime_ms: Mapping[str, int]
    """`connections.max.reauth.ms` by mechanism."""
    passwords: Mapping[str, str] | None = field(repr=False)
    """For PLAIN, by name; None: the stored credentials count."""


class SaslSettingError(ValueError):
    """A setting that cannot be used; the message names its key, and has no value of it."""


def sasl_of(settings: "Settings", listener: str) -> ListenerSasl:
    """Return the settings of a SASL listener. Raises SaslSettingError."""
    own = settings.for_listener(listener)
    is_own = "sasl_enabled_mechanisms" in settings.own_of(listener)
    key = key_of(listener.lower(), "", ENABLED) if is_own else ENABLED
    mechanisms = _mechanisms(key, own.sasl_enabled_mechanisms, listener)
    if OAUTHBEARER in mechanisms:
        _check_oauth(settings_of(settings, listener, OAUTHBEARER))
    delay_ms, idle_ms = own.connection_failed_authentication_delay_ms, own.connections_max_idle_ms
    if 0 <= idle_ms <= delay_ms:
        raise SaslSettingError(f"{DELAY} = {delay_ms} must be less than connections.max.idle.ms")
    lifetime_ms = {
        each: settings_of(settings, listener, each).connections_max_reauth_ms for each in mechanisms
    }
    jaas = settings.own_of(listener, PLAIN).get(JAAS.attribute)
    passwords = None
    if jaas is not None and PLAIN in mechanisms:
        passwords = plain_passwords(key_of(listener.lower(), PLAIN.lower(), JAAS.key), jaas)
    return ListenerSasl(mechanisms, lifetime_ms, passwords)


def settings_of(settings: "Settings", listener: str, mechanism: str) -> "Settings":
    """Return the settings of a mechanism of a listener: its own precede those of the listener, and
    these the general ones.
    """
    own = settings.own_of(listener) | settings.own_of(listener, mechanism)
    own.pop(JAAS.attribute, None)  # no field: read by itself
    return replace(settings, **own)


def _mechanisms(key: str, text: str | None, listener: str) -> tuple[str, ...]:
    found = dict.fromkeys(each.strip() for each in (text or "").split(",") if each.strip())
    known = ", ".join(MECHANISMS)
    if not found:
        raise SaslSettingError(f"listener {listener} needs {key}: give some of {known}")
    for each in found:
        if each not in MECHANISMS:
            raise SaslSettingError(f"{key}: {each!r} is not served: give some of {known}")
    return tuple(found)


def _check_oauth(settings: "Settings") -> None:
    key, url = "sasl.oauthbearer.jwks.endpoint.url", settings.sasl_oauthbearer_jwks_endpoint_url
    if url is None or not url.startswith(("file:///", "http://", "https://")):
        raise SaslSettingError(
            f"OAUTHBEARER needs {key}: give https://..., or file:///path of a JSON Web Key Set"
        )


def plain_passwords(key: str, text: str) -> dict[str, str]:
    """Return the passwords by name in a JAAS entry of PlainLoginModule: its `user_<name>` options.

    Raises SaslSettingError, which does not quote the text.
    """
    entry = _JAAS_ENTRY.fullmatch(text)
    if entry is None or entry[1] != PLAIN_MODULE:
        raise SaslSettingError(
            f'{key}: give `{PLAIN_MODULE} required user_NAME="PASSWORD" ...;`, ended by a semicolon'
        )
    found: dict[str, str] = {}
    rest = entry[2]
    while rest.strip():
        option = _JAAS_OPTION.match(rest)
        if option is None:
            raise SaslSettingError(f'{key}: an option that is not NAME="VALUE"')
        quoted = re.sub(r"\\(.)", r"\1", option[2]) if option[2] is not None else option[3]
        if option[1].startswith(_USER):
            found[option[1].removeprefix(_USER)] = quoted
        rest = rest[option.end() :]
    return found
