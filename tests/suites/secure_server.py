"""A server of ours on which nobody gets in who does not belong: TLS, logins and access control.

Certificates and users are made with `groupkeeper`, as its users make them.
"""

import json
import re
import secrets
import shutil
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from groupkeeper.access.own_certificates import CertificateFiles, files_in
from tests.access import tokens
from tests.clients.libraries import AIOKAFKA, KAFKA_PYTHON_3, Library
from tests.suites.process import call
from tests.suites.suite import SuiteError
from tests.support.process import PROGRAM, READY_S, ROOT, Process, assigned, tail
from tests.truth.foreign import JAVA, OLDER_JAVA

LOGIN, MUTUAL, SESSIONS = "SASL_SSL", "MUTUAL", "SESSIONS"
"""Listeners: with logins, with certificates of clients, with logins that end."""
LIFETIME_MS: Final = 1_500
SCRAM, BEARER = "SCRAM-SHA-512", "OAUTHBEARER"
ADMIN, MEMBER = "admin", "member"
STORE: Final = "of-the-store"
"""The password of a key store."""
_WAIT_S = 40.0
_SETTINGS: Final = {
    "listeners": ",".join(f"{each}://127.0.0.1:0" for each in (LOGIN, MUTUAL, SESSIONS)),
    "listener.security.protocol.map": f"{LOGIN}:SASL_SSL,{MUTUAL}:SSL,{SESSIONS}:SASL_SSL",
    "listener.name.mutual.ssl.client.auth": "required",
    "listener.name.sessions.connections.max.reauth.ms": str(LIFETIME_MS),
    "sasl.enabled.mechanisms": f"{SCRAM},{BEARER}",
    "sasl.oauthbearer.expected.issuer": tokens.ISSUER,
    "sasl.oauthbearer.expected.audience": tokens.AUDIENCE,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:{ADMIN}",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
}
_READY = re.compile(r"groupkeeper ready kafka=(\S+) http=(\S+) ")
_SAMPLE = re.compile(r"^groupkeeper_(\w+?)(?:\{(.*)\})? (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Way:
    """How members get in, and who they are then."""

    name: str
    listener: str
    principal: str


BY_PASSWORD: Final = Way(f"{SCRAM} over TLS", LOGIN, f"User:{MEMBER}")
BY_CERTIFICATE: Final = Way("mutual TLS", MUTUAL, f"User:CN={MEMBER}")
BY_TOKEN: Final = Way(f"{BEARER} over TLS", LOGIN, f"User:{tokens.NAME}")
IN_SESSIONS: Final = Way(f"{SCRAM} in sessions of {LIFETIME_MS} ms", SESSIONS, f"User:{MEMBER}")


class SecureServer:
    """A process with three listeners. Leaving the `with` block ends it."""

    def __init__(self, folder: Path) -> None:
        """Make certificates, users and keys of tokens. Raises SuiteError."""
        self._folder = folder / "secure"
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir()
        self._data_dir = self._folder / "data"
        self.log = self._folder / "server.log"
        self.passwords = {name: secrets.token_urlsafe(12) for name in (ADMIN, MEMBER)}
        self._groupkeeper("certs", self._folder / "certificates", "--client", MEMBER)
        self.certificates: CertificateFiles = files_in(self._folder / "certificates")
        for name, password in self.passwords.items():
            file = self._folder / name
            file.write_text(password, encoding="utf-8")
            words = ("--data-dir", self._data_dir, "--password-file", file)
            self._groupkeeper("users", "add", name, *words)
            file.unlink()
        self.key_store = self._folder / "client.p12"
        """The client's key and certificate for Java's client of Kafka 2.8, which takes no PEM file
        with a key that is not encrypted.
        """
        words = ("-in", self.certificates.client, "-out", self.key_store)
        call(["openssl", "pkcs12", "-export", *words, "-passout", f"pass:{STORE}"], self._folder)
        tokens.write_keys(self._folder / "jwks.json")
        self._ports: dict[str, str] = {}
        self._http = ""

    def _groupkeeper(self, *words: str | Path) -> None:
        environment = {"PYTHONPATH": str(ROOT)}
        call([*PROGRAM, *words], self._folder, environment)

    def __enter__(self) -> Self:
        settings = _SETTINGS | {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.certificates.server),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.certificates.authority),
            "sasl.oauthbearer.jwks.endpoint.url": (self._folder / "jwks.json").as_uri(),
        }
        words = ("--http", "127.0.0.1:0", "--data-dir", str(self._data_dir))
        self._process = Process(*words, *assigned(settings), listen=None, log=self.log)
        said = self._process.line(READY_S)
        found = _READY.match(said)
        if found is None:
            self._process.kill()
            raise SuiteError(f"the server did not become ready: {said}{tail(self.log)}")
        listeners = (each.split("://") for each in found[1].split(","))
        self._ports = dict(listeners)
        self._http = found[2]
        self._admin = AdminClient(self.librdkafka(LOGIN, ADMIN))
        return self

    def __exit__(self, *_: object) -> None:
        del self._admin  # it would complain that the server is gone
        self._process.stop()

    def address(self, listener: str) -> str:
        return self._ports[listener]

    def librdkafka(self, listener: str, user: str) -> dict[str, str]:
        """Settings of somebody who logs in with a password."""
        return {
            "bootstrap.servers": self.address(listener),
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.certificates.authority),
            "sasl.mechanism": SCRAM,
            "sasl.username": user,
            "sasl.password": self.passwords[user],
        }

    def allow(self, principal: str, topic: str, group: str) -> None:
        """Let somebody read a topic as a member of a group."""
        for kind, name in ((ResourceType.TOPIC, topic), (ResourceType.GROUP, group)):
            who = ResourcePatternType.LITERAL, principal, "*"
            row = AclBinding(kind, name, *who, AclOperation.READ, AclPermissionType.ALLOW)
            self._admin.create_acls([row])[row].result(_WAIT_S)

    def group(self, name: str) -> dict[str, Any]:  # Any: JSON
        """A group, as the server's pages have it."""
        read: dict[str, Any] = json.loads(self._page(f"api/v1/groups/{name}"))
        return read

    def samples(self, family: str, **labels: str) -> int:
        """The sum of a metric's samples with these labels."""
        wanted = {f'{key}="{value}"' for key, value in labels.items()}
        found = _SAMPLE.findall(self._page("metrics"))
        rows = [(set(told.split(",")), value) for name, told, value in found if name == family]
        return sum(int(float(value)) for told, value in rows if wanted <= told)

    def logins(self, outcome: str, listener: str = SESSIONS) -> int:
        """Authentications that ended so."""
        return self.samples("authentications_total", listener=listener, outcome=outcome)

    def _page(self, path: str) -> str:
        with urllib.request.urlopen(f"http://{self._http}/{path}", timeout=20) as answer:
            return str(answer.read().decode())


def settings_of(server: SecureServer, client: Library, way: Way) -> Mapping[str, str]:
    """What a member is told, so that it gets in: under the names of settings that its client has;
    workers whose clients have none take those of librdkafka.
    """
    if client in (JAVA, OLDER_JAVA):
        return _of_java(server, way, older=client is OLDER_JAVA)
    if client in (KAFKA_PYTHON_3, AIOKAFKA):
        return _of_python(server, way)
    return _of_librdkafka(server, way)


def _of_librdkafka(server: SecureServer, way: Way) -> dict[str, str]:
    mine = {"ssl.ca.location": str(server.certificates.authority)}
    if way is BY_CERTIFICATE:
        both = str(server.certificates.client)
        own = {"ssl.certificate.location": both, "ssl.key.location": both}
        return {"security.protocol": "SSL", **mine, **own}
    if way is BY_TOKEN:
        login = {"sasl.mechanism": BEARER, "token": tokens.good()}
        return {"security.protocol": "SASL_SSL", **mine, **login}
    return server.librdkafka(way.listener, MEMBER)


def _of_python(server: SecureServer, way: Way) -> dict[str, str]:
    mine = {"ssl.cafile": str(server.certificates.authority)}
    if way is BY_CERTIFICATE:
        own = {"ssl.certfile": str(server.certificates.client)}
        return {"security.protocol": "SSL", **mine, **own}
    return {
        "security.protocol": "SASL_SSL",
        **mine,
        "sasl.mechanism": SCRAM,
        "sasl.plain.username": MEMBER,
        "sasl.plain.password": server.passwords[MEMBER],
    }


def _of_java(server: SecureServer, way: Way, *, older: bool) -> dict[str, str]:
    mine = {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(server.certificates.authority),
    }
    if way is BY_CERTIFICATE:
        own = {
            "ssl.keystore.type": "PKCS12" if older else "PEM",
            "ssl.keystore.location": str(server.key_store if older else server.certificates.client),
            **({"ssl.keystore.password": STORE} if older else {}),
        }
        return {"security.protocol": "SSL", **mine, **own}
    modules = "org.apache.kafka.common.security"
    if way is BY_TOKEN:
        module = f"{modules}.oauthbearer.OAuthBearerLoginModule required token='{tokens.good()}';"
        login = {"sasl.mechanism": BEARER, "sasl.login.callback.handler.class": "OnJava$Bearer"}
    else:
        password = server.passwords[MEMBER]
        module = f"{modules}.scram.ScramLoginModule required "
        module += f"username='{MEMBER}' password='{password}';"
        login = {"sasl.mechanism": SCRAM}
    return {"security.protocol": "SASL_SSL", **mine, **login, "sasl.jaas.config": module}
