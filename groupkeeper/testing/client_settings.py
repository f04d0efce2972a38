"""The settings with which clients reach a test broker, in the form of each client library."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from groupkeeper.settings.table import Settings
from groupkeeper.testing.errors import WrongArgument
from groupkeeper.testing.security import PASSWORD_MECHANISMS, BrokerSecurity

if TYPE_CHECKING:
    from groupkeeper.access.own_certificates import CertificateFiles

# Any: values of the libraries' settings.
ClientSettings = dict[str, Any]


class UserLogin(NamedTuple):
    """A user who logs in."""

    mechanism: str
    name: str
    password: str


@dataclass(frozen=True, slots=True)
class BrokerEndpoint:
    """Where clients connect, and what they need for it."""

    bootstrap_servers: str
    protocol: str
    """Kafka's `security.protocol`."""
    login: UserLogin | None = field(repr=False)
    certificates: "CertificateFiles | None"


def endpoint_of(
    bootstrap_servers: str, security: BrokerSecurity, settings: Settings, user: str | None
) -> BrokerEndpoint:
    """Return what a client needs that logs in as this user; None: the only one, if there are users.
    Raises WrongArgument.
    """
    protocol = security.listeners[0].protocol.name
    login = _login(security, settings, user)
    return BrokerEndpoint(bootstrap_servers, protocol, login, security.certificates)


def _login(security: BrokerSecurity, settings: Settings, user: str | None) -> UserLogin | None:
    users = security.users
    if user is None and not users:
        return None
    if user is None and len(users) == 1:
        user = next(iter(users))
    if user is None or user not in users:
        there = f"one of {', '.join(users)}" if users else "none: this broker has no users="
        raise WrongArgument(f"user={user!r}: give {there}")
    enabled = {each.strip() for each in (settings.sasl_enabled_mechanisms or "").split(",")}
    mechanism = next((each for each in PASSWORD_MECHANISMS if each in enabled), None)
    if mechanism is None:
        raise WrongArgument(f"sasl.enabled.mechanisms has none of {', '.join(PASSWORD_MECHANISMS)}")
    return UserLogin(mechanism, user, users[user])


def kafka_python(at: BrokerEndpoint) -> ClientSettings:
    """Return keyword arguments for kafka-python."""
    found = _of_python(at)
    if at.certificates is not None:
        client = str(at.certificates.client)
        found["ssl_cafile"] = str(at.certificates.authority)
        found["ssl_certfile"] = found["ssl_keyfile"] = client
    return found


def aiokafka(at: BrokerEndpoint) -> ClientSettings:
    """Return keyword arguments for aiokafka."""
    found = _of_python(at)
    if at.certificates is not None:
        import ssl

        context = ssl.create_default_context(cafile=str(at.certificates.authority))
        context.load_cert_chain(at.certificates.client)
        found["ssl_context"] = context
    return found


def _of_python(at: BrokerEndpoint) -> ClientSettings:
    """Return what kafka-python and aiokafka have in common."""
    found: ClientSettings = {
        "bootstrap_servers": at.bootstrap_servers,
        "security_protocol": at.protocol,
    }
    if at.login is not None:
        found["sasl_mechanism"] = at.login.mechanism
        found["sasl_plain_username"] = at.login.name
        found["sasl_plain_password"] = at.login.password
    return found


def confluent(at: BrokerEndpoint) -> ClientSettings:
    """Return the configuration for confluent-kafka, and other clients with librdkafka."""
    found = _dotted(at)
    if at.login is not None:
        found["sasl.username"] = at.login.name
        found["sasl.password"] = at.login.password
    if at.certificates is not None:
        client = str(at.certificates.client)
        found["ssl.ca.location"] = str(at.certificates.authority)
        found["ssl.certificate.location"] = found["ssl.key.location"] = client
    return found


def java(at: BrokerEndpoint) -> ClientSettings:
    """Return the properties for Kafka's Java clients and tools."""
    found = _dotted(at)
    if at.login is not None:
        of, kind = ("plain", "Plain") if at.login.mechanism == "PLAIN" else ("scram", "Scram")
        name, password = map(_quoted, at.login[1:])
        module = f"org.apache.kafka.common.security.{of}.{kind}LoginModule"
        found["sasl.jaas.config"] = f"{module} required username={name} password={password};"
    if at.certificates is not None:
        files = {"truststore": at.certificates.authority, "keystore": at.certificates.client}
        for store, file in files.items():
            found[f"ssl.{store}.type"] = "PEM"
            found[f"ssl.{store}.location"] = str(file)
    return found


def _dotted(at: BrokerEndpoint) -> ClientSettings:
    """Return what librdkafka and Java have in common."""
    found = {"bootstrap.servers": at.bootstrap_servers, "security.protocol": at.protocol}
    if at.login is not None:
        found["sasl.mechanism"] = at.login.mechanism
    return found


def _quoted(text: str) -> str:
    """Return a value of a JAAS option."""
    escaped = text.replace("\\", r"\\").replace('"', r"\"")
    return f'"{escaped}"'
