"""Damaged logins and handshakes, input after input: tokens of each mechanism, what clients sent in
the recorded conversations, first bytes of TLS, whole handshakes of a client that is there, and its
certificate. Without sockets; `fuzz.py` plays them.
"""

import asyncio
import ssl
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, cast

from groupkeeper.access.audit import LoginAudit
from groupkeeper.access.certificate import expiry_of, subject_of
from groupkeeper.access.login import Login, Phase, Sasl, TokenOutcome
from groupkeeper.access.oauth import Bearer, OAuthConversation, TokenRules, verified
from groupkeeper.access.plain import PlainConversation, listed
from groupkeeper.access.principal_mapping import PrincipalMapping
from groupkeeper.access.scram import ScramConversation
from groupkeeper.access.tls import ListenerTls
from groupkeeper.access.users import Users, user_key
from groupkeeper.connections.connection import Connection
from groupkeeper.connections.handshakes import Handshakes
from groupkeeper.connections.sasl_connection import SaslConnection
from groupkeeper.connections.tls_stream import TlsStream
from groupkeeper.settings.options import Listen, SecurityProtocol
from groupkeeper.settings.table import load
from tests.access import tokens
from tests.access.conversations import (
    CASES,
    NONCE,
    PLAIN_USERS,
    SCRAM_256,
    SCRAM_512,
    SCRAM_PASSWORD,
    SCRAM_USER,
    Talk,
    scram_final,
    scram_first,
)
from tests.access.record import SocketLine
from tests.access.secured import Secured, stored
from tests.support.certificates import Certificates
from tests.support.fake_socket import Bench, FakeSocket

VERSIONS = ("TLSv1_2", "TLSv1_3")
CREDENTIALS = {each: stored(each, SCRAM_PASSWORD) for each in (SCRAM_256, SCRAM_512)}
USERS = Users(lambda: {user_key(SCRAM_USER, each): CREDENTIALS[each] for each in CREDENTIALS})

# -- what is fuzzed --------------------------------------------------------------------------------


def validate_now(token: str) -> Any:
    async def validate() -> Bearer:
        keys = [tokens.key(each) for each in (tokens.RSA, tokens.EC)]
        return verified(token, keys, TokenRules(), 0)

    return validate()


def new_sasl() -> Sasl:
    return Sasl(
        listener="SASL_PLAINTEXT",
        mechanisms={
            "PLAIN": lambda: PlainConversation(listed(PLAIN_USERS)),
            SCRAM_256: lambda: ScramConversation(SCRAM_256, USERS),
            SCRAM_512: lambda: ScramConversation(SCRAM_512, USERS),
            "OAUTHBEARER": lambda: OAuthConversation(validate_now),
        },
        lifetime_ms={},
        seconds=lambda: 0.0,
        wall_ms=lambda: 0,
        audit=LoginAudit(Counter(), lambda: 0.0),
        delay_s=0,
    )


def mutated(data: bytes, random: Random) -> bytes:
    """The bytes with some of them changed, left out, repeated or moved."""
    found = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        at = random.randrange(len(found) + 1)
        size = random.choice((1, 1, 2, 8))
        match random.randrange(5):
            case 0:
                found[at:at] = random.randbytes(size)
            case 1:
                del found[at : at + size]
            case 2:
                found[at : at + 1] = bytes([random.choice(b"\0\x01,=:n\xff pryam{}.")])
            case 3:
                found[at:at] = found[at : at + 20]
            case _:
                found[at:] = b""
    return bytes(found)


def bearer_token(token: str) -> bytes:
    return f"n,,\x01auth=Bearer {token}\x01\x01".encode()


def step(login: Login, token: bytes) -> TokenOutcome:
    found = login.token(token)
    if isinstance(found, TokenOutcome):
        return found
    try:  # nothing waits: there is no need for a loop
        found.__await__().send(None)  # type: ignore[attr-defined]
    except StopIteration as end:
        outcome: TokenOutcome = end.value
        return outcome
    raise AssertionError("it waits")


# -- the parts -------------------------------------------------------------------------------------

Inputs = AsyncIterator[str]
"""A word for each input, about what became of it."""


async def damaged_tokens(random: Random, _: Path) -> Inputs:
    """Every mechanism; the final message of SCRAM is often good to the server's nonce."""
    sasl = new_sasl()
    good = {
        "PLAIN": [b"\0alice\0alice-secret", b"alice\0alice\0alice-secret"],
        SCRAM_256: [scram_first()[0], f"n,a=carol,n=carol,r={NONCE}".encode()],
        SCRAM_512: [scram_first(more=",tokenauth=true")[0], scram_first("a=2Cb=3Dc")[0]],
        "OAUTHBEARER": [bearer_token(each()) for each in tokens.KINDS.values()],
    }
    while True:
        mechanism = random.choice((*good, SCRAM_256, SCRAM_512, "PLAIN"))
        login = Login(sasl, "/10.0.0.7")
        login.handshake(mechanism, 1)
        seed = random.choice(good[mechanism])
        is_noise = random.random() < 0.02
        outcome = step(login, random.randbytes(60) if is_noise else mutated(seed, random))
        if not outcome.ends and login.phase is Phase.TOKENS and mechanism.startswith("SCRAM"):
            bare = scram_first()[1]
            final = b"c=biws,r=x,p=YWJj"
            if random.random() < 0.05:
                final = scram_final(mechanism, bare, outcome.reply, SCRAM_PASSWORD)
            outcome = step(login, mutated(final, random))
        assert not outcome.ends or outcome.response() is not None
        yield login.phase.name


class Overheard(SocketLine):
    """A connection whose client is listened to."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.sent: list[bytes] = []

    def send(self, data: bytes) -> None:
        self.sent.append(data)
        super().send(data)


def overheard(folder: Path) -> list[list[bytes]]:
    """What the client of each conversation sends."""
    found = []
    with Secured(folder) as server:
        for listener, play in CASES.values():
            line = Overheard(server.ports[listener])
            play(Talk(line))
            line.close()
            found.append(line.sent)
    return found


async def damaged_conversations(random: Random, folder: Path) -> Inputs:
    """Some frames of a conversation are damaged, left out, repeated, cut, or those of another."""
    conversations = await asyncio.to_thread(overheard, folder)
    frames = [each for sent in conversations for each in sent]
    sasl, bench = new_sasl(), Bench()
    bench.services.logins = {"SASL_PLAINTEXT": lambda: Login(sasl)}
    while True:
        connection = SaslConnection(bench.services, "SASL_PLAINTEXT")
        number = random.randrange(50_000)
        socket = FakeSocket(connection, f"10.0.{number // 250}.{number % 250}")
        for each in random.choice(conversations):
            chosen = random.choice(frames) if random.random() < 0.1 else each
            data = chosen if random.random() < 0.5 else mutated(chosen, random)
            cut = random.randrange(len(data) + 1) if random.random() < 0.2 else len(data)
            for piece in (data[:cut], data[cut:]):
                if piece and not socket.closed:
                    connection.data_received(piece)
            await asyncio.sleep(0)
        if not socket.closed:
            connection.abort()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not connection.peer.principal or connection._login.principal
        phase = connection._login.phase.name
        del connection, socket
        assert [*bench.table.opened] == [bench.connection]
        yield phase


def feed(stream: TlsStream, data: bytes) -> None:
    room = stream.get_buffer(-1)[: len(data)]
    room[:] = data[: len(room)]
    stream.buffer_updated(len(room))


class TlsPort:
    """A listener that asks clients for a certificate."""

    def __init__(self, folder: Path) -> None:
        self.made = Certificates(folder)
        self._bench = Bench()
        self._bench.services.connections = self._bench.new_table(most_per_host=1_000)
        settings, _ = load(assignments=self.made.settings(client_auth="required"))
        self._tls = ListenerTls(Listen("SSL", protocol=SecurityProtocol.SSL), settings)
        self._queue = Handshakes(self._bench.stats)
        self._clients = {each: self._client(each) for each in VERSIONS}

    def _client(self, version: str) -> ssl.SSLContext:
        context = self.made.context(with_key=True)
        context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
        return context

    def client(self, version: str) -> tuple[ssl.SSLObject, ssl.MemoryBIO, ssl.MemoryBIO]:
        """A client, what it reads, and what it has written."""
        ends = ssl.MemoryBIO(), ssl.MemoryBIO()
        return self._clients[version].wrap_bio(*ends, server_hostname="localhost"), *ends

    def hello(self, version: str) -> bytes:
        client, _, out = self.client(version)
        with suppress(ssl.SSLWantReadError):
            client.do_handshake()
        return out.read()

    def accepted(self) -> tuple[TlsStream, "TlsSocket"]:
        connection = Connection(self._bench.services, "SSL")
        stream = TlsStream(connection, self._tls, self._queue)
        return stream, TlsSocket(cast(asyncio.Protocol, stream))


class TlsSocket(FakeSocket):
    """A fake socket that, like a real one, may be told twice to read or not to read."""

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def write(self, data: Any) -> None:
        if not self.closed:  # what follows an alert is dropped
            super().write(data)

    def write_eof(self) -> None:
        pass


async def damaged_hellos(random: Random, folder: Path) -> Inputs:
    """The first bytes of a client, in pieces, and then its end."""
    port = TlsPort(folder)
    hellos = [port.hello(version) for version in VERSIONS]
    while True:
        stream, raw = port.accepted()
        data = mutated(random.choice(hellos), random)
        if random.random() < 0.05:
            data = b"\x16\x03\x01" + random.randbytes(random.randrange(600))
        for _ in range(random.randrange(4)):
            at = random.randrange(len(data) + 1)
            data = data[:at] + random.randbytes(1) + data[at + 1 :]
        at = random.choice((len(data), random.randrange(len(data) + 1)))
        for piece in (data[:at], data[at:]):
            if piece and not raw.closed:
                feed(stream, piece)
                await turn()
        yield "answered" if raw.writes else "closed" if raw.closed else "waits"
        await ended(stream, raw)


async def turn() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def ended(stream: TlsStream, raw: FakeSocket) -> None:
    if not raw.closed:
        stream.eof_received()
    raw.close()
    await turn()


async def damaged_handshakes(random: Random, folder: Path) -> Inputs:
    """A client is there; one of its flights, or its first request, is damaged."""
    port = TlsPort(folder)
    while True:
        client, incoming, out = port.client(random.choice(VERSIONS))
        stream, raw = port.accepted()
        damaged = random.randrange(4)
        for number in range(4):
            with suppress(ssl.SSLError):
                client.do_handshake()
                client.write(bytes(4) if random.random() < 0.5 else random.randbytes(40))
            if data := out.read():
                sent = mutated(data, random) if number == damaged else data
                if sent and not raw.closed:
                    feed(stream, sent)
                await turn()
            incoming.write(b"".join(raw.writes))
            raw.writes.clear()
        yield "open" if stream._is_open else "closed" if raw.closed else "refused"
        await ended(stream, raw)


async def damaged_certificates(random: Random, folder: Path) -> Inputs:
    """What is read of a certificate that OpenSSL has verified, and more."""
    pem = Certificates(folder).client_pem.read_text()
    good = ssl.PEM_cert_to_DER_cert(pem[pem.index("-----BEGIN CERTIFICATE") :].strip() + "\n")
    rules = PrincipalMapping("RULE:^CN=(.*?),OU=(.*?),.*$/$1-$2/U,RULE:^.*[cC]N=(.*)$/$1/,DEFAULT")
    while True:
        data, words = mutated(good, random), "refused"
        with suppress(ValueError):
            expiry_of(data)
        with suppress(ValueError):
            rules.name_of(subject_of(data))
            words = "named"
        yield words
