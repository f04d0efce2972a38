"""Plays the conversations on Apache Kafka and writes its answers to `kafka.json`.

    python -m tests.access.record

Needs Java and Maven, like `make parity`.
"""

import asyncio
import json
import socket
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from groupkeeper.access.users import TYPE_OF, salted_password
from groupkeeper.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from tests.access import tokens
from tests.access.conversations import (
    CASES,
    ITERATIONS,
    LIFETIME_MS,
    PLAIN_USERS,
    RECEIVE_BYTES,
    RECORDED,
    SALT,
    SASL,
    SCRAM_256,
    SCRAM_512,
    SCRAM_PASSWORD,
    SCRAM_USER,
    SESSIONS,
    Talk,
)
from tests.access.user_requests import USERS_RECORDED, played
from tests.parity.brokers import Groupkeeper, Kafka, Profile, free_port
from tests.support.wire import connect

MODULES = "org.apache.kafka.common.security"
READ_S = 20.0
Heard = dict[str, list[str]]
"""By the name of a conversation, or of a request about users."""


class SocketLine:
    """A connection through a real socket."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=READ_S)

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def read(self) -> bytes | None:
        size = self._exactly(4)
        return None if size is None else self._exactly(int.from_bytes(size, "big"))

    def _exactly(self, size: int) -> bytes | None:
        data = b""
        while len(data) < size:
            try:
                part = self._socket.recv(size - len(data))
            except ConnectionError:
                part = b""
            if not part:
                return None
            data += part
        return data

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    def close(self) -> None:
        self._socket.close()


def settings(ports: dict[str, int], jwks: Path) -> dict[str, str]:
    """Of Kafka; those of the listeners are Groupkeeper's, too."""
    users = " ".join(f'user_{name}="{password}"' for name, password in PLAIN_USERS.items())
    found = {
        "sasl.enabled.mechanisms": f"PLAIN,{SCRAM_256},{SCRAM_512},OAUTHBEARER",
        "listener.name.sessions.connections.max.reauth.ms": str(LIFETIME_MS),
        "sasl.server.max.receive.size": str(RECEIVE_BYTES),
        "sasl.oauthbearer.jwks.endpoint.url": jwks.as_uri(),
        "sasl.oauthbearer.expected.issuer": tokens.ISSUER,
        "sasl.oauthbearer.expected.audience": tokens.AUDIENCE,
        # The default of Kafka 4.1.0 verifies no signature.
        "sasl.oauthbearer.jwt.validator.class": f"{MODULES}.oauthbearer.BrokerJwtValidator",
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "listener.security.protocol.map": ",".join(
            f"{name}:{'SASL_PLAINTEXT' if name in (SASL, SESSIONS) else 'PLAINTEXT'}"
            for name in ports
        ),
        "advertised.listeners": ",".join(
            f"{name}://127.0.0.1:{port}" for name, port in ports.items() if name != "CONTROLLER"
        ),
        "inter.broker.listener.name": "PLAINTEXT",
    }
    for listener in (SASL, SESSIONS):
        prefix = f"listener.name.{listener.lower()}"
        found |= {
            f"{prefix}.plain.sasl.jaas.config": (
                f"{MODULES}.plain.PlainLoginModule required {users};"
            ),
            f"{prefix}.oauthbearer.sasl.jaas.config": (
                f"{MODULES}.oauthbearer.OAuthBearerLoginModule required;"
            ),
            f"{prefix}.oauthbearer.sasl.server.callback.handler.class": (
                f"{MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler"
            ),
        }
        for mechanism in (SCRAM_256, SCRAM_512):
            module = f"{MODULES}.scram.ScramLoginModule required;"
            found[f"{prefix}.{mechanism.lower()}.sasl.jaas.config"] = module
    return found


class SecureKafka(Kafka):
    """A broker with listeners with SASL beside the plain one."""

    def __init__(self, folder: Path, more: Mapping[str, str] | None = None) -> None:
        """`more`: settings beside those of the listeners."""
        self.ports = {SASL: free_port(), SESSIONS: free_port()}
        self._jwks = folder / "jwks.json"
        tokens.write_keys(self._jwks)
        super().__init__(Profile(dict(more or {})), folder)

    def configure(self) -> None:
        if not hasattr(self, "_controller"):
            self._controller = free_port()
        ports = {"PLAINTEXT": self.port, "CONTROLLER": self._controller, **self.ports}
        self._settings |= settings(ports, self._jwks)
        lines = [
            line
            for line in self._properties.splitlines()
            if line.partition("=")[0] not in self._settings
        ]
        lines = [
            f"controller.quorum.voters=0@127.0.0.1:{self._controller}"
            if line.startswith("controller.quorum.voters")
            else line
            for line in lines
        ]
        lines += [f"{name}={value}" for name, value in self._settings.items()]
        self._file.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def command(self) -> list[str]:
        java, *rest = super().command()
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self._jwks.as_uri()}"
        files = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.files={self._jwks}"
        return [java, allowed, files, *rest]


def add_users(port: int) -> None:
    upsertions = [
        ScramCredentialUpsertion(
            name=SCRAM_USER,
            mechanism=TYPE_OF[each],
            iterations=ITERATIONS,
            salt=SALT,
            salted_password=salted_password(each, SCRAM_PASSWORD, SALT, ITERATIONS),
        )
        for each in (SCRAM_256, SCRAM_512)
    ]
    with connect(("127.0.0.1", port)) as client:
        for each in upsertions:  # a user may occur once in a request
            answer = client.call(0, AlterUserScramCredentialsRequest(upsertions=[each]))
            assert not any(row.error_code for row in answer.results), answer


class SecureGroupkeeper(Groupkeeper):
    """The server of this checkout with the same listeners."""

    def __init__(self, folder: Path) -> None:
        super().__init__(Profile({}), folder)
        self.ports = {SASL: free_port(), SESSIONS: free_port()}
        jwks = folder / "jwks.json"
        tokens.write_keys(jwks)
        self._settings |= settings({"PLAINTEXT": self.port, **self.ports}, jwks)

    def command(self) -> list[str]:
        words = super().command()
        at = words.index("--listen")  # the settings have the listeners
        return words[:at] + words[at + 2 :]


def played_on(broker: SecureKafka | SecureGroupkeeper) -> tuple[Heard, Heard]:
    """Start the broker, ask about users and hold the conversations, and kill it."""
    try:
        asyncio.run(broker.start())
        add_users(broker.port)
        time.sleep(2)
        with connect(("127.0.0.1", broker.port)) as client:
            told = played(lambda request: client.call(0, request))
        return told, {name: heard(broker.ports[where], name) for name, (where, _) in CASES.items()}
    finally:
        broker.kill()


def heard(port: int, name: str) -> list[str]:
    """What comes back in a conversation."""
    line = SocketLine(port)
    talk = Talk(line)
    CASES[name][1](talk)
    line.close()
    return talk.heard


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        told, conversations = played_on(SecureKafka(Path(folder)))
    USERS_RECORDED.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    RECORDED.write_text(json.dumps(conversations, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
