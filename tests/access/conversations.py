"""SASL conversations: what a client sends, step by step, and what comes back.

Each is played on Apache Kafka (`python -m tests.access.record`), whose answers are in `kafka.json`,
and on this server; both must be equal. What is random or a time is left out: nonces, signatures,
and lifetimes to the second.
"""

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from groupkeeper.protocol.message import Message
from groupkeeper.protocol.messages.api_versions import ApiVersionsRequest
from groupkeeper.protocol.messages.heartbeat import HeartbeatRequest
from groupkeeper.protocol.messages.list_groups import ListGroupsRequest
from groupkeeper.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from groupkeeper.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from groupkeeper.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.access import tokens

RECORDED = Path(__file__).with_name("kafka.json")
PLAIN_USERS = {"alice": "alice-secret", "bob": "bob-secret"}
SCRAM_USER, SCRAM_PASSWORD, SALT, ITERATIONS = "carol", "carol-secret", b"0123456789abcdef", 4096
SCRAM_256, SCRAM_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
NONCE = "fyko+d2lbbFgONRv9qkxdawL"
SASL, SESSIONS = "SASL_PLAINTEXT", "SESSIONS"
"""Listeners: without and with `connections.max.reauth.ms`."""
LIFETIME_MS = 30_000
RECEIVE_BYTES = 20_000


class Line(Protocol):
    """A connection to a server."""

    def send(self, data: bytes) -> None: ...

    def read(self) -> bytes | None:
        """The next frame without its size, which may be empty; None at the end."""

    def pause(self, seconds: float) -> None: ...


class Talk:
    """One connection on which a conversation takes place, and what came back."""

    def __init__(self, line: Line) -> None:
        from tests.support.wire import Exchange

        self._line = line
        self._exchange = Exchange()
        self.heard: list[str] = []

    def send(self, version: int, request: Message) -> None:
        self._line.send(self._exchange.request(version, request))

    def ask(self, version: int, request: Message) -> Any:
        """Send a request and note the answer. None at the end of the connection."""
        self.send(version, request)
        return self.take()

    def take(self) -> Any:
        frame = self._line.read()
        if frame is None:
            self.heard.append("closed")
            return None
        response = self._exchange.response(frame)
        self.heard.append(shown(response))
        return response

    def raw(self, token: bytes) -> bytes | None:
        """Send a token without a header, and note what comes back."""
        self._line.send(len(token).to_bytes(4, "big") + token)
        frame = self._line.read()
        self.heard.append("closed" if frame is None else f"raw {shown_token(frame)}")
        return frame

    def send_bytes(self, data: bytes) -> None:
        self._line.send(data)
        frame = self._line.read()
        self.heard.append("closed" if frame is None else f"{len(frame)} bytes")

    def pause(self, seconds: float) -> None:
        self._line.pause(seconds)

    def end(self) -> None:
        """Note whether the connection ends by itself."""
        frame = self._line.read()
        self.heard.append("closed" if frame is None else "more")

    def hello(self, mechanism: str, version: int = 1) -> Any:
        return self.ask(version, SaslHandshakeRequest(mechanism=mechanism))

    def token(self, token: bytes, version: int = 2) -> Any:
        return self.ask(version, SaslAuthenticateRequest(auth_bytes=token))

    def plain(self, name: str = "alice", password: str = "alice-secret") -> None:
        self.hello("PLAIN")
        self.token(f"\0{name}\0{password}".encode())


def shown(response: Any) -> str:
    """A response in a line."""
    name = type(response).__name__.removesuffix("Response")
    words = [f"error {response.error_code}"] if hasattr(response, "error_code") else []
    if getattr(response, "error_message", None):
        words.append(repr(response.error_message))
    if hasattr(response, "mechanisms"):
        words.append(",".join(sorted(response.mechanisms)))
    if getattr(response, "auth_bytes", b""):
        words.append(shown_token(bytes(response.auth_bytes)))
    if getattr(response, "session_lifetime_ms", 0):
        seconds = response.session_lifetime_ms / 1000
        words.append(f"lifetime {round(seconds, -2 if seconds > LIFETIME_MS / 500 else 0):.0f} s")
    words += [f"topic error {each.error_code}" for each in getattr(response, "topics", [])]
    return " ".join([name, *words])


def shown_token(token: bytes) -> str:
    text = token.decode(errors="replace")
    text = re.sub(rf"r={re.escape(NONCE)}[^,]+", "r=NONCE", text)
    return repr(re.sub(r"v=[A-Za-z0-9+/=]+", "v=SIGNATURE", text))


# -- SCRAM's client --------------------------------------------------------------------------------


def scram_first(name: str = SCRAM_USER, head: str = "n,,", more: str = "") -> tuple[bytes, str]:
    bare = f"n={name},r={NONCE}{more}"
    return (head + bare).encode(), bare


def scram_final(
    mechanism: str, bare: str, server: bytes, password: str, head: str = "n,,", nonce: str = ""
) -> bytes:
    """The final message to a server's first."""
    kind = {SCRAM_256: "sha256", SCRAM_512: "sha512"}[mechanism]
    fields = dict(each.split("=", 1) for each in server.decode().split(","))
    salt, rounds = base64.b64decode(fields["s"]), int(fields["i"])
    salted = hashlib.pbkdf2_hmac(kind, password.encode(), salt, rounds)
    client_key = hmac.digest(salted, b"Client Key", kind)
    stored_key = hashlib.new(kind, client_key).digest()
    channel = base64.b64encode(head.encode()).decode()
    without_proof = f"c={channel},r={nonce or fields['r']}"
    signed = f"{bare},{server.decode()},{without_proof}".encode()
    signature = hmac.digest(stored_key, signed, kind)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()


def scram(
    talk: Talk,
    mechanism: str = SCRAM_256,
    name: str = SCRAM_USER,
    password: str = SCRAM_PASSWORD,
    head: str = "n,,",
    nonce: str = "",
    more: str = "",
) -> None:
    """A whole login."""
    talk.hello(mechanism)
    first, bare = scram_first(name, head, more)
    answer = talk.token(first)
    if answer is not None and not answer.error_code:
        server = bytes(answer.auth_bytes)
        answer = talk.token(scram_final(mechanism, bare, server, password, head, nonce))
    if answer is None or answer.error_code:
        talk.end() if answer is not None else None
    else:
        talk.ask(4, ListGroupsRequest())


# -- the conversations -----------------------------------------------------------------------------

Play = Callable[[Talk], object]
CASES: dict[str, tuple[str, Play]] = {}
"""Name -> listener, and what the client does."""


def case(listener: str = SASL) -> Callable[[Play], Play]:
    def add(play: Play) -> Play:
        CASES[play.__name__.replace("_", " ")] = listener, play
        return play

    return add


@case()
def plain(talk: Talk) -> None:
    talk.ask(3, ApiVersionsRequest(client_software_name="test", client_software_version="1"))
    talk.plain()
    talk.ask(4, ListGroupsRequest())


@case()
def plain_wrong_password(talk: Talk) -> None:
    talk.plain(password="wrong")
    talk.end()


@case()
def plain_unknown_user(talk: Talk) -> None:
    talk.plain(name="nobody")
    talk.end()


@case()
def plain_without_a_name(talk: Talk) -> None:
    talk.plain(name="")
    talk.end()


@case()
def plain_without_a_password(talk: Talk) -> None:
    talk.plain(password="")
    talk.end()


@case()
def plain_two_parts(talk: Talk) -> None:
    talk.hello("PLAIN")
    talk.token(b"alice\0alice-secret")
    talk.end()


@case()
def plain_four_parts(talk: Talk) -> None:
    talk.hello("PLAIN")
    talk.token(b"\0alice\0alice-secret\0more")
    talk.end()


@case()
def plain_as_oneself(talk: Talk) -> None:
    talk.hello("PLAIN")
    talk.token(b"alice\0alice\0alice-secret")


@case()
def plain_as_somebody_else(talk: Talk) -> None:
    talk.hello("PLAIN")
    talk.token(b"bob\0alice\0alice-secret")
    talk.end()


@case()
def scram_256(talk: Talk) -> None:
    scram(talk)


@case()
def scram_512(talk: Talk) -> None:
    scram(talk, SCRAM_512)


@case()
def scram_wrong_password(talk: Talk) -> None:
    scram(talk, SCRAM_512, password="wrong")


@case()
def scram_unknown_user(talk: Talk) -> None:
    scram(talk, name="nobody")


@case()
def scram_nonce_of_another(talk: Talk) -> None:
    scram(talk, nonce=NONCE + "another")


@case()
def scram_replay(talk: Talk) -> None:
    """The final message of an earlier login."""
    talk.hello(SCRAM_256)
    first, bare = scram_first()
    talk.token(first)
    old = b"r=" + NONCE.encode() + b"0,s=" + base64.b64encode(SALT) + b",i=4096"
    talk.token(scram_final(SCRAM_256, bare, old, SCRAM_PASSWORD))
    talk.end()


@case()
def scram_final_message_first(talk: Talk) -> None:
    talk.hello(SCRAM_256)
    talk.token(b"c=biws,r=abc,p=YWJj")
    talk.end()


@case()
def scram_with_channel_binding(talk: Talk) -> None:
    scram(talk, head="p=tls-unique,,")


@case()
def scram_client_that_could_bind(talk: Talk) -> None:
    scram(talk, head="y,,")


@case()
def scram_as_oneself(talk: Talk) -> None:
    scram(talk, head=f"n,a={SCRAM_USER},")


@case()
def scram_as_somebody_else(talk: Talk) -> None:
    scram(talk, head="n,a=alice,")


@case()
def scram_delegation_token(talk: Talk) -> None:
    scram(talk, more=",tokenauth=true")


@case()
def scram_no_utf8(talk: Talk) -> None:
    talk.hello(SCRAM_256)
    talk.token(b"n,,n=\xff\xfe,r=abc")
    talk.end()


@case()
def scram_token_after_the_login(talk: Talk) -> None:
    scram(talk)
    talk.token(b"c=biws,r=abc,p=YWJj")
    talk.ask(4, ListGroupsRequest())


@case()
def mechanism_that_is_not_enabled(talk: Talk) -> None:
    talk.hello("GSSAPI")
    talk.end()


@case()
def mechanism_in_lower_case(talk: Talk) -> None:
    talk.hello("plain")
    talk.end()


@case()
def handshake_v0(talk: Talk) -> None:
    talk.hello("PLAIN", 0)
    talk.raw(b"\0alice\0alice-secret")
    talk.ask(4, ListGroupsRequest())


@case()
def handshake_v0_wrong_password(talk: Talk) -> None:
    talk.hello("PLAIN", 0)
    talk.raw(b"\0alice\0wrong")


@case()
def handshake_v0_scram(talk: Talk) -> None:
    talk.hello(SCRAM_512, 0)
    first, bare = scram_first()
    server = talk.raw(first)
    assert server is not None
    talk.raw(scram_final(SCRAM_512, bare, server, SCRAM_PASSWORD))
    talk.ask(4, ListGroupsRequest())


@case()
def handshake_v0_scram_wrong_password(talk: Talk) -> None:
    talk.hello(SCRAM_512, 0)
    first, bare = scram_first()
    server = talk.raw(first)
    assert server is not None
    talk.raw(scram_final(SCRAM_512, bare, server, "wrong"))


@case()
def authenticate_v0(talk: Talk) -> None:
    talk.hello("PLAIN")
    talk.token(b"\0alice\0alice-secret", 0)


@case()
def request_without_a_login(talk: Talk) -> None:
    talk.ask(4, ListGroupsRequest())


@case()
def token_without_a_handshake(talk: Talk) -> None:
    talk.token(b"\0alice\0alice-secret")


@case()
def request_instead_of_a_token(talk: Talk) -> None:
    talk.hello("PLAIN")
    talk.ask(4, ListGroupsRequest())
    talk.end()


@case()
def metadata_instead_of_a_token(talk: Talk) -> None:
    talk.hello("PLAIN")
    talk.ask(9, MetadataRequest(topics=[MetadataRequestTopic(name="t")]))
    talk.end()


@case()
def heartbeat_after_versions(talk: Talk) -> None:
    talk.ask(0, ApiVersionsRequest())
    talk.ask(4, HeartbeatRequest(group_id="g", member_id="m"))


@case()
def versions_twice(talk: Talk) -> None:
    talk.ask(0, ApiVersionsRequest())
    talk.ask(0, ApiVersionsRequest())


@case()
def versions_after_the_handshake(talk: Talk) -> None:
    talk.hello("PLAIN")
    talk.ask(0, ApiVersionsRequest())
    talk.end()


@case()
def handshake_twice(talk: Talk) -> None:
    talk.hello("PLAIN")
    talk.hello("PLAIN")
    talk.end()


@case()
def versions_with_an_odd_name(talk: Talk) -> None:
    talk.ask(3, ApiVersionsRequest(client_software_name="-", client_software_version="1"))
    talk.ask(3, ApiVersionsRequest(client_software_name="t", client_software_version="1"))
    talk.plain()


@case()
def request_after_the_login(talk: Talk) -> None:
    talk.plain()
    talk.hello("PLAIN")
    talk.token(b"\0alice\0alice-secret")
    talk.ask(0, ApiVersionsRequest())


@case()
def no_kafka(talk: Talk) -> None:
    talk.send_bytes(b"\0\0\0\x10" + b"\x60" * 16)


@case()
def an_empty_request(talk: Talk) -> None:
    talk.send_bytes(bytes(4))


@case()
def a_request_that_is_too_long(talk: Talk) -> None:
    talk.send_bytes((RECEIVE_BYTES + 1).to_bytes(4, "big") + b"\0\x11\0\1")


@case()
def a_negative_size(talk: Talk) -> None:
    talk.send_bytes(b"\xff" * 4)


# -- sessions --------------------------------------------------------------------------------------


@case(SESSIONS)
def session(talk: Talk) -> None:
    talk.plain()
    talk.ask(4, ListGroupsRequest())


@case(SESSIONS)
def reauthentication(talk: Talk) -> None:
    talk.plain()
    talk.plain()
    talk.ask(4, ListGroupsRequest())


@case(SESSIONS)
def reauthentication_twice_at_once(talk: Talk) -> None:
    talk.plain()
    talk.plain()
    talk.hello("PLAIN")
    talk.ask(4, ListGroupsRequest())


@case(SESSIONS)
def reauthentication_as_another(talk: Talk) -> None:
    talk.plain()
    talk.plain("bob", "bob-secret")
    talk.end()


@case(SESSIONS)
def reauthentication_wrong_password(talk: Talk) -> None:
    scram(talk)
    scram(talk, password="wrong")


@case(SESSIONS)
def reauthentication_other_mechanism(talk: Talk) -> None:
    talk.plain()
    scram(talk)


@case(SESSIONS)
def reauthentication_unknown_mechanism(talk: Talk) -> None:
    talk.plain()
    talk.hello("GSSAPI")
    talk.end()


@case(SESSIONS)
def reauthentication_interrupted(talk: Talk) -> None:
    talk.plain()
    talk.hello("PLAIN")
    talk.ask(4, ListGroupsRequest())
    talk.end()


# -- OAUTHBEARER -----------------------------------------------------------------------------------


def bearer(talk: Talk, token: str, head: str = "n,,", version: int = 2) -> None:
    talk.hello("OAUTHBEARER")
    answer = talk.token(f"{head}\x01auth=Bearer {token}\x01\x01".encode(), version)
    if answer is not None and answer.auth_bytes:
        answer = talk.token(b"\x01", version)
    if answer is None or answer.error_code:
        talk.end() if answer is not None else None
    else:
        talk.ask(4, ListGroupsRequest())


for _name, _make in tokens.KINDS.items():
    CASES[f"bearer {_name}"] = SASL, (lambda talk, make=_make: bearer(talk, make()))


@case()
def bearer_as_oneself(talk: Talk) -> None:
    bearer(talk, tokens.good(), "n,a=dave,")


@case()
def bearer_as_somebody_else(talk: Talk) -> None:
    bearer(talk, tokens.good(), "n,a=alice,")


@case()
def bearer_without_a_token(talk: Talk) -> None:
    talk.hello("OAUTHBEARER")
    talk.token(b"n,,\x01\x01")
    talk.end()


@case()
def bearer_with_extensions(talk: Talk) -> None:
    talk.hello("OAUTHBEARER")
    talk.token(f"n,,\x01auth=Bearer {tokens.good()}\x01traceId=123\x01\x01".encode())


def recorded() -> dict[str, list[str]]:
    found: dict[str, list[str]] = json.loads(RECORDED.read_text(encoding="utf-8"))
    return found
