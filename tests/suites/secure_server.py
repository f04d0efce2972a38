"""A server of ours on which nobody gets in who does not belong: TLS, logins and access control.

Certificates and users are made with `groupkeeper`, as its users make them.
"""

import itertools
import json
import re
import secrets
import shutil
import urllib.request
from base64 import b64decode
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
from groupkeeper.access.users import KEY as OF_USERS
from groupkeeper.server.offline_catalog import offline_catalog
from groupkeeper.settings.table import load
from tests.access import tokens
from tests.clients.libraries import AIOKAFKA, KAFKA_PYTHON_3, Library
from tests.suites.checks import UnmetError
from tests.suites.process import call
from tests.suites.suite import SuiteError
from tests.support.planted import Planted
from tests.support.process import PROGRAM, READY_S, ROOT, Process, assigned, tail
from tests.truth.foreign import JAVA, OLDER_JAVA

LOGIN, MUTUAL, SESSIONS = "SASL_SSL", "MUTUAL", "SESSIONS"
"""Listeners: with logins, with certificates of clients, with logins that end."""
LIFETIME_MS: Final = 1_500
SCRAM, BEARER = "SCRAM-SHA-512", "OAUTHBEARER"
ADMIN, MEMBER = "admin", "member"
CERTIFICATES, STORE, CATALOGS = "certificates", "client.p12", ("catalog", "catalog-copy")
"""Files and folders that have secrets: keys, and what passwords are checked with."""
PARTITIONS: Final = "offsets.topic.num.partitions"
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
    PARTITIONS: "3",
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
        """Make certificates, users and keys of tokens. Raises SuiteError. `folder`: that of the
        suite.
        """
        self._of_suite = folder
        self._folder = folder / "secure"
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir()
        self._data_dir = self._folder / "data"
        self.log = self._folder / "server.log"
        self.passwords = {name: secrets.token_urlsafe(12) for name in (ADMIN, MEMBER)}
        self._planted = Planted()
        self._tokens = itertools.count(1)
        self._groupkeeper("certs", self._folder / CERTIFICATES, "--client", MEMBER)
        self.certificates: CertificateFiles = files_in(self._folder / CERTIFICATES)
        for path in self.certificates:
            if path != self.certificates.authority:
                self._planted.key(f"key in {path.name}", path.read_bytes())
        for name, password in self.passwords.items():
            self._planted.add(f"password of {name}", password.encode())
            file = self._folder / name
            file.write_text(password, encoding="utf-8")
            words = ("--data-dir", self._data_dir, "--password-file", file)
            self._groupkeeper("users", "add", name, *words)
            file.unlink()
        self.key_store = self._folder / STORE
        """The client's key and certificate for Java's client of Kafka 2.8, which takes no PEM file
        with a key that is not encrypted.
        """
        self.store_password = self._planted.text("password of the key store")
        file.write_text(self.store_password, encoding="utf-8")
        words = ("-in", self.certificates.client, "-out", self.key_store)
        call(["openssl", "pkcs12", "-export", *words, "-passout", f"file:{file}"], self._folder)
        file.unlink()
        tokens.write_keys(self._folder / "jwks.json")
        self._ports: dict[str, str] = {}
        self._http = ""

    def _groupkeeper(self, *words: str | Path) -> str:
        environment = {"PYTHONPATH": str(ROOT)}
        return call([*PROGRAM, *words], self._folder, environment)

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

    def token(self) -> str:
        """A new token that lets its bearer in."""
        return self._planted.token(f"token {next(self._tokens)}", tokens.good())

    def check_secrets(self) -> None:
        """Look for passwords, keys and tokens in all files of the suite, but those that are made to
        have them, and in what `groupkeeper dump` prints. The server has ended. Raises UnmetError.
        """
        planted = Planted()
        planted.secrets |= self._planted.secrets
        settings, _ = load(assignments=[f"{PARTITIONS}={_SETTINGS[PARTITIONS]}"])
        with offline_catalog(self._data_dir, settings) as catalog:
            for name, value in catalog.access.items():
                if name.startswith(OF_USERS):
                    for each in ("stored_key", "server_key"):
                        planted.add(f"{each} of {name}", b64decode(str(value[each])))
        shown = {
            f"dump {name}": self._groupkeeper("dump", self._data_dir / name).encode()
            for name in CATALOGS
        }
        for path in sorted(self._of_suite.rglob("*")):
            if path.is_file() and not {CERTIFICATES, STORE, *CATALOGS} & {*path.parts}:
                shown[str(path.relative_to(self._of_suite))] = path.read_bytes()
        found = {name: planted.found_in(data) for name, data in shown.items()}
        if told := [f"{name}: {', '.join(what)}" for name, what in found.items() if what]:
            raise UnmetError("\n".join(told))

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
        login = {"sasl.mechanism": BEARER, "token": server.token()}
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
            **({"ssl.keystore.password": server.store_password} if older else {}),
        }
        return {"security.protocol": "SSL", **mine, **own}
    modules = "org.apache.kafka.common.security"
    if way is BY_TOKEN:
        module = f"{modules}.oauthbearer.OAuthBearerLoginModule required token='{server.token()}';"
        login = {"sasl.mechanism": BEARER, "sasl.login.callback.handler.class": "OnJava$Bearer"}
    else:
        password = server.passwords[MEMBER]
        module = f"{modules}.scram.ScramLoginModule required "
        module += f"username='{MEMBER}' password='{password}';"
        login = {"sasl.mechanism": SCRAM}
    return {"security.protocol": "SASL_SSL", **mine, **login, "sasl.jaas.config": module}
