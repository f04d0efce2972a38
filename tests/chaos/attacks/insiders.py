"""What attacks on TLS and logins have in common: first bytes, whole logins, and what is counted."""

import re
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.request import urlopen

from groupkeeper.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from groupkeeper.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.chaos import secure
from tests.chaos.target import Target
from tests.chaos.wire import ATTACKER, Client, dial
from tests.support import wire
from tests.support.wire import frame

MADE_ANEW_S = 1.2
"""So old may a page of metrics be."""
RSS = re.compile(r"VmRSS:\s*(\d+)")

SSL, MUTUAL, SASL, SASL_SSL = "SSL", "MUTUAL", "SASL_PLAINTEXT", "SASL_SSL"


def counted(target: Target, name: str, **labels: str) -> float:
    """The sum of a metric over all series with these labels, once everything of now is in it."""
    time.sleep(MADE_ANEW_S)
    host, port = target.http
    with urlopen(f"http://{host}:{port}/metrics", timeout=10.0) as answer:
        text = answer.read().decode()
    found = 0.0
    for line in text.splitlines():
        series, _, value = line.rpartition(" ")
        if series.partition("{")[0] == f"groupkeeper_{name}":
            given = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', series))
            found += float(value) * (labels.items() <= given.items())
    return found


def logins(target: Target, outcome: str, **labels: str) -> int:
    return int(counted(target, "authentications_total", outcome=outcome, **labels))


def memory_mib(target: Target) -> float:
    """What the server has in memory now."""
    with open(f"/proc/{target.pid}/status") as status:
        found = RSS.search(status.read())
    assert found is not None
    return int(found[1]) / 1024


def log_lines(target: Target) -> Iterator[str]:
    """Everything that the server has logged."""
    with (target.folder / "server.log").open(encoding="utf-8") as log:
        yield from log


# -- TLS -------------------------------------------------------------------------------------------


def context(target: Target) -> ssl.SSLContext:
    """Of a client that trusts the server."""
    return ssl.create_default_context(cafile=str(secure.authority_pem(target.folder)))


def client_hello() -> bytes:
    """How a client begins."""
    out = ssl.MemoryBIO()
    hello = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), out, server_hostname="localhost")
    try:
        hello.do_handshake()
    except ssl.SSLWantReadError:
        return out.read()
    raise AssertionError("it waits for nobody")


def over_tls(target: Target, listener: str, of: ssl.SSLContext) -> wire.Client:
    """A client after the handshake. Raises OSError, of which ssl.SSLError is one."""
    made = dial(target.ports[listener])
    try:
        return wire.Client(of.wrap_socket(made, server_hostname="localhost"), 20.0)
    except OSError:
        made.close()
        raise


# -- logins ----------------------------------------------------------------------------------------


def hello(mechanism: str) -> bytes:
    return frame(1, SaslHandshakeRequest(mechanism=mechanism), 1)


def token(data: bytes) -> bytes:
    return frame(2, SaslAuthenticateRequest(auth_bytes=data), 2)


def plain(name: str = "alice", password: str = "alice-secret") -> bytes:
    return f"\0{name}\0{password}".encode()


def bearer(text: str) -> bytes:
    return f"n,,\x01auth=Bearer {text}\x01\x01".encode()


class Talking:
    """A client in the middle of a login."""

    def __init__(self, target: Target, mechanism: str, source: str = ATTACKER) -> None:
        self.client = Client(target.ports[SASL], source, 20.0)
        answer = self.client.call(1, SaslHandshakeRequest(mechanism=mechanism))
        assert answer.error_code == 0, f"{mechanism}: error {answer.error_code}"

    def send(self, data: bytes) -> None:
        """What `take` has the answer to."""
        self.client.send(2, SaslAuthenticateRequest(auth_bytes=data))

    def take(self) -> Any:
        return self.client.take()

    def say(self, data: bytes) -> Any:
        """The answer to a token. Raises OSError."""
        self.send(data)
        return self.take()

    def close(self) -> None:
        self.client.close()


def each_in_turn(
    talks: Sequence[Talking], data: Callable[[Any], bytes], last: Sequence[Any] | None = None
) -> list[Any]:
    """Every one of them says what follows from its last answer; all the answers. They are on their
    way together.
    """
    for talk, answer in zip(talks, last or [None] * len(talks), strict=True):
        talk.send(data(answer))
    return [talk.take() for talk in talks]
