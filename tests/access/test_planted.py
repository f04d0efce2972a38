"""Planted secrets: after logins, failures, changes of users and refused starts none of them is in
the data directory (but the catalog), logs, events, metrics, arguments of processes, what `dump`
prints, error texts, answers on the wire and the JSON API.
"""

import contextlib
import hmac
import json
import os
import ssl
import subprocess
import sys
import threading
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from urllib.request import urlopen

import pytest

from groupkeeper.access.users import TYPE_OF, credential, salted_password
from groupkeeper.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from groupkeeper.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    ResourceType,
)
from groupkeeper.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)
from tests.access import tokens
from tests.access.conversations import SASL, SCRAM_256, SCRAM_512, Talk, bearer, scram
from tests.access.record import MODULES, SocketLine
from tests.support import certificates
from tests.support.certificates import Certificates
from tests.support.consumer import Member
from tests.support.planted import Planted
from tests.support.process import PROGRAM, ROOT, Process, Ready
from tests.support.wire import Client, connect

SALT = b"salt-that-a-client-chose"
LEAST = 30
CATALOG = ("catalog", "catalog-copy")
"""Folders that have the keys of users."""


class Arguments:
    """What is seen of the arguments of all processes, again and again."""

    def __init__(self) -> None:
        self.seen: set[bytes] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(0.02):
            for each in Path("/proc").glob("[0-9]*/cmdline"):
                with contextlib.suppress(OSError):
                    self.seen.add(each.read_bytes())

    def end(self) -> None:
        self._over.set()
        self._thread.join()


class Scene:
    """A server that knows secrets, and everything that others see of it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.planted = Planted()
        self.shown: dict[str, bytes] = {}
        self.made = Certificates(folder)
        self._monkeypatch = monkeypatch
        tokens.write_keys(folder / "jwks.json")
        self.plain = {name: self.planted.text(f"password of {name}") for name in ("alice", "bob")}

    def command(self, *words: str | Path, says: str = "") -> int:
        """Run a command; all that it prints is kept."""
        done = subprocess.run(
            [*PROGRAM, *map(str, words)],
            input=says.encode(),
            capture_output=True,
            check=False,
            timeout=120,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        self.shown[f"{len(self.shown)} {' '.join(map(str, words[:2]))}"] = done.stdout + done.stderr
        return done.returncode

    def hidden(self, what: str) -> str:
        """The password of the next key or store of `certificates`."""
        password = self.planted.text(what)
        self._monkeypatch.setattr(certificates, "PASSWORD", password)
        return password

    def properties(self) -> dict[str, str]:
        """Settings of the server. It is given them in a file."""
        planted, made = self.planted, self.made
        planted.key("key of the server", made.server.read_bytes())
        planted.key("key of a client", made.client_pem.read_bytes())
        users = " ".join(f'user_{name}="{each}"' for name, each in self.plain.items())
        names = ("PLAINTEXT", SASL, "SASL_SSL", "MUTUAL")
        return {
            "listeners": ",".join(f"{name}://127.0.0.1:0" for name in names),
            "listener.security.protocol.map": ",".join(
                f"{name}:{'SSL' if name == 'MUTUAL' else name}" for name in names
            ),
            "sasl.enabled.mechanisms": f"PLAIN,{SCRAM_256},{SCRAM_512},OAUTHBEARER",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
                f"{MODULES}.plain.PlainLoginModule required {users};"
            ),
            "sasl.oauthbearer.jwks.endpoint.url": (self.folder / "jwks.json").as_uri(),
            "sasl.oauthbearer.expected.issuer": tokens.ISSUER,
            "sasl.oauthbearer.expected.audience": tokens.AUDIENCE,
            "ssl.key.password": self.hidden("password of the key"),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(made.encrypted()),
            "listener.name.mutual.ssl.keystore.type": "PKCS12",
            "listener.name.mutual.ssl.keystore.password": self.hidden("password of PKCS12"),
            "listener.name.mutual.ssl.keystore.location": str(made.pkcs12()),
            "listener.name.mutual.ssl.truststore.type": "PKCS12",
            "listener.name.mutual.ssl.truststore.password": self.hidden("password of trust"),
            "listener.name.mutual.ssl.truststore.location": str(made.trusted_pkcs12()),
            "listener.name.mutual.ssl.client.auth": "required",
            "offsets.topic.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
            "connection.failed.authentication.delay.ms": "20",
        }

    def written(self, name: str, properties: Mapping[str, str]) -> Path:
        path = self.folder / name
        path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        return path

    def login_file(self, name: str, password: str) -> Path:
        module = f'ScramLoginModule required username="{name}" password="{password}";'
        given = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": SCRAM_512,
            "sasl.jaas.config": f"{MODULES}.scram.{module}",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.made.ca),
        }
        return self.written(f"{name}.properties", given)

    # -- what is played ------------------------------------------------------------------------

    def users(self, ready: Ready, admin: str) -> None:
        """Changed by commands and over the wire, rightly and wrongly."""
        planted, carol = self.planted, self.planted.text("password of carol")
        host, port = ready.listeners["SASL_SSL"]
        where = "--bootstrap-server", f"{host}:{port}", "--command-config"
        file = self.login_file("admin", admin)
        billing = planted.text("first password of billing")
        assert self.command("users", "add", "billing", *where, file, says=billing) == 0
        again = planted.text("second password of billing")
        assert self.command("users", "add", "billing", *where, file, says=again) == 0
        gone = planted.text("password of somebody who is removed")
        assert self.command("users", "add", "gone", *where, file, says=gone) == 0
        assert self.command("users", "remove", "gone", *where, file) == 0
        wrong = self.login_file("admin", planted.text("wrong password of a command"))
        assert self.command("users", "list", "--timeout", "2", *where, wrong) == 1
        long = planted.text("password that is too long") * 100
        assert self.command("users", "add", "long", *where, wrong, says=long) == 2
        with connect(ready.listeners["PLAINTEXT"]) as client:
            for mechanism in (SCRAM_256, SCRAM_512):
                self._set(client, "carol", mechanism, carol)
            self._set(client, "", SCRAM_256, planted.text("password of nobody"))
            row = ScramCredentialDeletion(name="nobody", mechanism=1)
            client.call(0, AlterUserScramCredentialsRequest(deletions=[row]))
            described = client.call(0, DescribeUserScramCredentialsRequest(users=None))
            configs = [
                DescribeConfigsResource(resource_type=ResourceType.BROKER, resource_name=name)
                for name in ("0", "")
            ]
            told = client.call(4, DescribeConfigsRequest(resources=configs, include_synonyms=True))
            assert "ssl.key.password" in repr(told)
        self.shown["answers"] = repr((described, told)).encode()

    def _set(self, client: Client, name: str, mechanism: str, password: str) -> None:
        salted = salted_password(mechanism, password, SALT, 4096)
        if name:
            stored = credential(mechanism, salted, SALT, 4096)
            for what in ("stored_key", "server_key"):
                self.planted.add(f"{what} of {name}, {mechanism}", getattr(stored, what))
            kind = mechanism.replace("SCRAM-", "").replace("-", "").lower()
            key = hmac.digest(salted, b"Client Key", kind)
            self.planted.add(f"client key of {name}, {mechanism}", key)
        self.planted.add(f"salted password of {name or 'nobody'}, {mechanism}", salted)
        row = ScramCredentialUpsertion(
            name=name,
            mechanism=TYPE_OF[mechanism],
            iterations=4096,
            salt=SALT,
            salted_password=salted,
        )
        answer = client.call(0, AlterUserScramCredentialsRequest(upsertions=[row]))
        self.shown[f"set {name} {mechanism}"] = repr(answer).encode()

    def logins(self, ready: Ready) -> None:
        planted, port = self.planted, ready.listeners[SASL][1]
        alice, carol = self.plain["alice"], planted.secrets["password of carol"].decode()
        wrong = {each: planted.text(f"wrong password, {each}") for each in ("PLAIN", SCRAM_512)}

        def talk() -> Talk:
            return Talk(SocketLine(port))

        talks = [talk() for _ in range(9)]
        talks[0].plain("alice", alice)
        talks[1].plain("alice", wrong["PLAIN"])
        talks[2].hello("PLAIN")
        talks[2].token(f"bob\0alice\0{alice}".encode())
        talks[3].hello("PLAIN")
        talks[3].token(f"\0alice\0{planted.text('password in four parts')}\0more".encode())
        talks[4].hello("PLAIN", 0)
        talks[4].raw(f"\0alice\0{planted.text('wrong password without a header')}".encode())
        talks[5].send_bytes(f"\0\0\0\x10{planted.text('password instead of a request')}".encode())
        scram(talks[6], SCRAM_512, "carol", carol)
        scram(talks[7], SCRAM_512, "carol", wrong[SCRAM_512])
        scram(talks[8], SCRAM_256, "nobody", planted.text("password of an unknown user"))
        kinds = ("RS256", "none", "HS256 with the public key", "expired", "of a stranger")
        kinds = (*kinds, "for another audience", "tampered", "without a name")
        for kind in kinds:
            bearer(talk(), planted.token(f"token, {kind}", tokens.KINDS[kind]()))
        heard = [each.heard for each in talks]
        assert heard[0][-1].startswith("SaslAuthenticate error 0") and "ListGroups" in heard[6][-1]
        self.shown["heard"] = repr(heard).encode()

    def member(self, ready: Ready) -> None:
        """Of a group, with a certificate: there are events with its principal."""
        context = self.made.context(with_key=True)
        with connect(ready.listeners["MUTUAL"]) as client:
            client.socket = context.wrap_socket(client.socket, server_hostname="localhost")
            member = Member(client, "group").settle()
            assert client.call(3, member.heartbeat_request()).error_code == 0
        stranger = ssl.create_default_context()
        with contextlib.suppress(OSError), connect(ready.listeners["MUTUAL"]) as client:
            stranger.wrap_socket(client.socket, server_hostname="localhost")

    def refused_starts(self, properties: Mapping[str, str]) -> None:
        """Settings that are wrong, and hold secrets."""
        planted = self.planted
        jaas = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
        odd = planted.text("password in settings that cannot be read")
        cases: list[dict[str, str]] = [
            {"ssl.key.password": planted.text("wrong password of the key")},
            {"listener.name.mutual.ssl.keystore.password": planted.text("wrong one of PKCS12")},
            {jaas: f'{MODULES}.plain.PlainLoginModule required user_x="{odd}'},
            {"ssl.keystore.password": planted.text("password that PEM has not")},
        ]
        for at, changed in enumerate(cases):
            file = self.written(f"refused-{at}.properties", {**properties, **changed})
            data = self.folder / "refused"
            assert self.command("serve", "--data-dir", data, "--config", file) == 2, changed
        password = planted.text("password in the URL of keys")
        url = {"sasl.oauthbearer.jwks.endpoint.url": f"http://user:{password}@127.0.0.1:1/keys"}
        file = self.written("url.properties", {**properties, **url})
        words = "--http", "off", "--data-dir", str(self.folder / "other"), "--config", str(file)
        log = self.folder / "other.log"
        with Process(*words, listen=None, log=log) as process:
            port = process.ready().listeners[SASL][1]
            bearer(Talk(SocketLine(port)), tokens.good())
            process.stop()
        assert b"keys of tokens cannot be read" in log.read_bytes()

    # -- what is seen --------------------------------------------------------------------------

    def look_at(self, ready: Ready, pid: int) -> None:
        """Everything but files, while the server runs."""
        api = "/api/v1"
        group = f"{api}/groups/group"
        paths = ["/metrics", "/", "/readyz", f"{api}/groups", f"{api}/openapi.json", group]
        paths += [f"{group}/{each}" for each in ("members", "rounds", "why", "offsets")]
        for path in paths:
            with contextlib.suppress(OSError), urlopen(f"http://{ready.http}{path}") as answer:
                self.shown[path] = answer.read()
        assert {"/metrics", f"{group}/members", f"{group}/rounds"} <= self.shown.keys()
        assert b"authentications_total" in self.shown["/metrics"]
        for name in ("status", "why"):
            words = ["group"] if name == "why" else []
            self.command(name, *words, "--http", ready.http)
        self.shown["environment"] = Path(f"/proc/{pid}/environ").read_bytes()

    def look_at_files(self, data: Path) -> None:
        """After the end of the server."""
        for path in sorted(data.rglob("*")):
            if path.is_dir() and any(path.glob("*.log")):
                assert self.command("dump", path) == 0
            elif path.is_file() and path.parent.name not in CATALOG:
                self.shown[str(path.relative_to(self.folder))] = path.read_bytes()
        for log in self.folder.glob("*.log"):
            self.shown[log.name] = log.read_bytes()


def test_no_planted_secret_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene, arguments = Scene(tmp_path, monkeypatch), Arguments()
    data, log = tmp_path / "data", tmp_path / "server.log"
    try:
        admin = scene.planted.text("password of the first user")
        assert scene.command("users", "add", "admin", "--data-dir", data, says=admin) == 0
        properties = scene.properties()
        config = scene.written("server.properties", properties)
        words = "--http", "127.0.0.1:0", "--data-dir", str(data), "--config", str(config)
        with Process(*words, listen=None, log=log) as process:
            ready = process.ready()
            scene.users(ready, admin)
            scene.logins(ready)
            scene.member(ready)
            scene.look_at(ready, process.pid)
            assert process.stop() == 0
            scene.shown["output"] = process.output.encode()
        scene.refused_starts(properties)
        scene.look_at_files(data)
    finally:
        arguments.end()
    scene.shown["arguments"] = b"\n".join(arguments.seen)
    assert sys.executable.encode() in scene.shown["arguments"]
    assert len(scene.planted.secrets) >= LEAST
    lines = [json.loads(line) for line in scene.shown["server.log"].splitlines()]
    events = {line["event"] for line in lines}
    assert {"login failed", "no TLS", "credentials set", "credentials removed"} <= events
    assert any("__group_events" in name for name in scene.shown)
    assert b"keys of a user" in b"".join(scene.shown.values())  # of dump
    found = {name: scene.planted.found_in(data) for name, data in scene.shown.items()}
    assert {name: what for name, what in found.items() if what} == {}
    kept = b"".join(each.read_bytes() for each in (data / "catalog").iterdir())
    assert len(scene.planted.found_in(kept)) == 4  # two keys of a user for each mechanism


def test_a_secret_is_found_however_it_is_written() -> None:
    planted = Planted()
    planted.add("key", bytes(range(200, 232)))
    text = planted.text("password")
    pairs: list[tuple[str, bytes]] = [
        ("key", bytes(range(195, 240))),
        ("key", b'"' + b64encode(b"?" + bytes(range(200, 232)) + b"!") + b'"'),
        ("key", repr(bytes(range(200, 232))).encode()),
        ("key", bytes(range(200, 232)).hex().encode()),
        ("password", f"User:{text}?".encode()),
        ("password", b64encode(f"\0alice\0{text}".encode())),
    ]
    for what, data in pairs:
        assert planted.found_in(data) == [what]
    assert planted.found_in(b"nothing") == []
