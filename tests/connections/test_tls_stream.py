"""TLS on a real loopback port: what clients see, what counts, and what is told."""

import asyncio
import errno
import os
import random
import socket
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from groupkeeper.access.audit import LoginAudit
from groupkeeper.access.tls import ListenerTls
from groupkeeper.connections import handshakes
from groupkeeper.connections.connection import Connection
from groupkeeper.connections.handshakes import AT_ONCE, Handshakes
from groupkeeper.connections.listener import Listener
from groupkeeper.connections.outbox import PIECE_BYTES
from groupkeeper.connections.stream import BUFFERED_BYTES
from groupkeeper.connections.tls_stream import TlsStream
from groupkeeper.protocol.messages.api_versions import ApiVersionsRequest
from groupkeeper.settings.options import Listen, SecurityProtocol
from groupkeeper.settings.table import load
from tests.support.certificates import SUBJECT, Certificates
from tests.support.fake_socket import Bench
from tests.support.served import Lines
from tests.support.wire import frame

QUESTION = frame(0, ApiVersionsRequest())
WAIT_S = 20.0


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


class Port:
    """A TLS listener."""

    def __init__(self, made: Certificates, *assignments: str) -> None:
        self.bench = Bench()
        self.table = self.bench.new_table(most=50, most_per_host=50)
        self.services = replace(self.bench.services, connections=self.table)
        self.listener = Listener(self.services)
        settings, _ = load(assignments=(*made.settings(), *assignments))
        self.counts = Counter[tuple[str, ...]]()
        listen = Listen("SSL", protocol=SecurityProtocol.SSL)
        self.tls = ListenerTls(listen, settings, LoginAudit(self.counts))
        self.made = made
        self.address = ("", 0)
        self.kept: list[asyncio.StreamWriter] = []

    async def start(self, host: str = "127.0.0.1") -> "Port":
        self.address = await self.listener.start((host, 0), "SSL", self.tls)
        return self

    async def dial(
        self, context: ssl.SSLContext | None = None, **more: Any
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        pair = await asyncio.open_connection(*self.address, ssl=context, **more)
        self.kept.append(pair[1])
        return pair

    async def ask(self, context: ssl.SSLContext | None = None) -> asyncio.StreamReader:
        reader, writer = await self.dial(context or self.made.context())
        await ask(reader, writer)
        return reader

    @property
    def opened(self) -> list[Any]:
        return [*self.table.opened]

    async def until(self, done: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not done():  # noqa: ASYNC110  # of what is told to nobody
                await asyncio.sleep(0.001)


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    writer.write(QUESTION)
    async with asyncio.timeout(WAIT_S):
        return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


Start = Callable[..., Any]


@pytest.fixture
async def start(made: Certificates) -> AsyncIterator[Start]:
    ports: list[Port] = []

    async def start(*assignments: str, host: str = "127.0.0.1") -> Port:
        ports.append(Port(made, *assignments))
        return await ports[-1].start(host)

    yield start
    for port in ports:
        for writer in port.kept:
            writer.transport.abort()
        port.listener.stop()
        port.listener.close()
        await port.until(lambda port=port: not port.table.opened)


async def seen(port: Port, lines: Lines, reason: str) -> dict[str, Any]:
    """The line about a failed handshake, which is counted."""
    await port.until(lambda: port.bench.stats.handshakes_failed > 0)
    [line] = [each for each in lines() if each["event"] == "no TLS"]
    assert reason in line["reason"]
    assert (line["client"], line["listener"]) == ("/127.0.0.1", "SSL")
    await port.until(lambda: not port.table.opened)
    return line


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_a_request_is_answered(start: Start, version: ssl.TLSVersion, host: str) -> None:
    port = await start(host=host)
    context = port.made.context()
    context.minimum_version = context.maximum_version = version
    await port.ask(context)
    [connection] = port.opened
    assert connection.host == f"/{host}"
    assert connection.peer.principal == ""


async def test_a_client_with_a_certificate_is_its_subject(start: Start) -> None:
    port = await start("ssl.client.auth=required")
    await port.ask(port.made.context(with_key=True))
    [connection] = port.opened
    assert connection.peer.principal == f"User:{SUBJECT}"
    assert connection.peer.named("other").principal == f"User:{SUBJECT}"


async def test_a_login_by_a_certificate_is_counted_and_logged(start: Start, lines: Lines) -> None:
    port = await start("ssl.client.auth=requested")
    assert [*port.counts] == [("SSL", "certificate", "succeeded")], "from the start"
    await port.ask()
    assert port.counts.total() == 0, "a client without a certificate"
    await port.ask(port.made.context(with_key=True))
    assert port.counts == {("SSL", "certificate", "succeeded"): 1}
    [line] = [each for each in lines() if each["event"] == "logged in"]
    assert (line["principal"], line["client"]) == (f"User:{SUBJECT}", "/127.0.0.1")


async def test_rules_make_the_name(start: Start) -> None:
    port = await start(
        "ssl.client.auth=requested", "ssl.principal.mapping.rules=RULE:^CN=(.*?),.*$/$1/U"
    )
    await port.ask(port.made.context(with_key=True))
    assert port.opened[0].peer.principal == "User:ALICE"
    await port.ask()
    assert port.opened[1].peer.principal == "", "a certificate is not required"


async def test_without_a_rule_for_it_a_client_is_closed(start: Start, lines: Lines) -> None:
    port = await start("ssl.client.auth=required", "ssl.principal.mapping.rules=RULE:nobody/x/")
    reader, _ = await port.dial(port.made.context(with_key=True))
    assert await reader.read() == b""
    await seen(port, lines, "no rule of ssl.principal.mapping.rules applies to 'CN=alice")


async def test_a_client_without_a_certificate_is_told_so(start: Start, lines: Lines) -> None:
    port = await start("ssl.client.auth=required")
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_REQUIRED"):
        await port.ask()
    await seen(port, lines, "it shows no certificate (ssl.client.auth = required)")


async def test_a_client_that_sends_more_when_it_is_refused_reads_why(start: Start) -> None:
    port = await start("ssl.client.auth=required")
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = port.made.context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    client = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    reader, writer = await port.dial()
    flight = b""
    async with asyncio.timeout(WAIT_S):
        while not flight:
            with pytest.raises(ssl.SSLWantReadError):
                client.do_handshake()
            sent = outgoing.read()
            if incoming.pending or not sent or sent[5] != 1:  # not the hello
                flight = sent
            else:
                writer.write(sent)
            if not flight:
                incoming.write(await reader.read(1 << 16))
    first = 5 + int.from_bytes(flight[3:5], "big")
    writer.write(flight[:first])  # no certificate
    await port.until(lambda: port.bench.stats.handshakes_failed == 1)
    writer.write(flight[first:])
    async with asyncio.timeout(WAIT_S):
        told = await reader.read()
    assert told[0] == 0x15, "an alert"
    writer.close()
    await port.until(lambda: not port.opened)


async def test_a_certificate_of_another_authority_is_refused(
    start: Start, lines: Lines, tmp_path: Path
) -> None:
    port = await start("ssl.client.auth=required")
    context = port.made.context()
    context.load_cert_chain(Certificates(tmp_path).client_pem)
    with pytest.raises(ssl.SSLError, match="UNKNOWN_CA"):
        await port.ask(context)
    await seen(port, lines, "its certificate is not trusted: unable to get local issuer")


async def test_a_client_that_does_not_trust_the_server_is_named(
    start: Start, lines: Lines, tmp_path: Path
) -> None:
    port = await start()
    context = Certificates(tmp_path).context()

    def dial() -> None:
        with socket.create_connection(port.address) as plain, pytest.raises(ssl.SSLError):
            context.wrap_socket(plain, server_hostname="localhost")

    await asyncio.to_thread(dial)
    await seen(port, lines, "it does not trust the certificate of this server")


async def test_a_client_that_hangs_up_in_the_handshake_is_named(
    start: Start, lines: Lines, tmp_path: Path
) -> None:
    port = await start()
    with pytest.raises(ssl.SSLCertVerificationError):  # asyncio's clients send no alert
        await port.ask(Certificates(tmp_path).context())
    await seen(port, lines, "it hung up: perhaps it does not trust")


async def test_a_probe_that_sends_nothing_is_not_told(start: Start, lines: Lines) -> None:
    port = await start()
    _, writer = await port.dial()
    await port.until(lambda: bool(port.opened))
    writer.close()
    await port.until(lambda: not port.table.opened)
    assert port.bench.stats.handshakes_failed == 0
    assert not lines()


async def test_a_version_that_is_not_enabled_is_refused(start: Start, lines: Lines) -> None:
    port = await start("ssl.enabled.protocols=TLSv1.3")
    context = port.made.context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"):
        await port.ask(context)
    await seen(port, lines, "no version of TLS in common")


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (QUESTION, "bytes that are no TLS: this port speaks TLS; set security.protocol=SSL"),
        (b"GET / HTTP/1.1\r\n\r\n", "an HTTP request: this port speaks TLS"),
        (b"\x16\x03\x01\x00\x02no handshake", "no TLS"),
    ],
)
async def test_other_protocols_are_named(
    start: Start, lines: Lines, sent: bytes, reason: str
) -> None:
    port = await start()
    reader, writer = await port.dial()
    writer.write(sent)
    async with asyncio.timeout(WAIT_S):
        await reader.read()
    await port.until(lambda: port.bench.stats.handshakes_failed == 1)
    if reason != "no TLS":
        await seen(port, lines, reason)


async def test_a_tls_client_on_a_plain_port_is_named(
    start: Start, lines: Lines, made: Certificates
) -> None:
    port = await start()
    plain = await port.listener.start(("127.0.0.1", 0), "PLAINTEXT")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.open_connection(*plain, ssl=made.context())
    [line] = [each for each in lines() if each["event"] == "connection refused"]
    assert line["received"].startswith("a TLS handshake: this port speaks plaintext")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_client_that_resumes_its_session_is_the_same(
    start: Start, version: ssl.TLSVersion
) -> None:
    port = await start("ssl.client.auth=required")
    context = port.made.context(with_key=True)
    context.minimum_version = context.maximum_version = version

    def ask_again(session: ssl.SSLSession | None) -> tuple[ssl.SSLSession | None, bool]:
        plain = socket.create_connection(port.address, timeout=WAIT_S)
        with context.wrap_socket(plain, server_hostname="localhost", session=session) as client:
            client.sendall(QUESTION)
            assert client.recv(4)
            return client.session, bool(client.session_reused)

    session, _ = await asyncio.to_thread(ask_again, None)
    names = asyncio.ensure_future(asyncio.to_thread(ask_again, session))
    seen: set[str] = set()
    while not names.done():
        seen |= {each.peer.principal for each in port.opened if each.peer.client_id}
        await asyncio.sleep(0)
    assert names.result()[1]
    assert seen == {f"User:{SUBJECT}"}


async def test_a_listener_can_be_left(start: Start) -> None:
    port = await start()
    reader = await port.ask()
    port.listener.leave("SSL")
    async with asyncio.timeout(WAIT_S):
        assert await reader.read() == b""
    with pytest.raises(OSError, match=r"Connect call failed|reset"):
        await port.dial()


# -- half-open handshakes -------------------------------------------------------------------------


async def test_half_open_handshakes_count_and_end_in_time(
    start: Start, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshakes.Handshakes.__init__, "__defaults__", (0.2,))
    port = await start()
    port.table.most = 3
    hello = client_hello(port.made)
    readers = []
    for sent in (b"", hello[:1], hello):
        reader, writer = await port.dial()
        writer.write(sent)
        readers.append(reader)
    await port.until(lambda: len(port.opened) == 3)
    refused, _ = await port.dial()
    assert await refused.read() == b"", "over max.connections"
    assert port.bench.stats.refused == 1
    for reader in readers:
        await reader.read()
    await port.until(lambda: not port.table.opened)
    assert port.bench.stats.handshakes_failed == 3
    told = [each for each in lines() if each["event"] == "no TLS"]
    assert len(told) == 1, "one line a second of an address"
    assert told[0]["reason"] == "the handshake took more than 0 s"


def test_a_handshake_has_ten_seconds() -> None:
    assert handshakes.TIMEOUT_S == 10.0


def client_hello(made: Certificates) -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = made.context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


async def test_four_steps_are_made_in_an_iteration() -> None:
    found: list[int] = []
    iteration = 0
    queue = Handshakes(Bench().stats)

    def again() -> None:
        nonlocal iteration
        iteration += 1
        if iteration < 40:
            asyncio.get_running_loop().call_soon(again)

    again()
    for _ in range(10):
        queue.queue(lambda: found.append(iteration))
    await asyncio.sleep(0)
    queue.queue(lambda: found.append(iteration))
    for _ in range(40):
        await asyncio.sleep(0)
    counts = [found.count(each) for each in sorted({*found})]
    assert (sum(counts), max(counts)) == (11, AT_ONCE)


async def test_a_step_that_raises_does_not_stop_the_others() -> None:
    queue = Handshakes(Bench().stats)
    asyncio.get_running_loop().set_exception_handler(lambda _, context: None)
    done: list[int] = []
    for number in range(12):
        queue.queue(lambda number=number: done.append(number) if number % 2 else 1 / 0)
    for _ in range(20):
        await asyncio.sleep(0)
    assert done == [1, 3, 5, 7, 9, 11]


async def test_handshakes_of_many_at_once_all_succeed(start: Start) -> None:
    port = await start()
    context = port.made.context()
    await asyncio.gather(*(port.ask(context) for _ in range(40)))
    assert len(port.opened) == 40
    assert port.bench.stats.handshakes_failed == 0


# -- after the handshake --------------------------------------------------------------------------


async def test_many_requests_in_pieces_of_any_size_are_answered(start: Start) -> None:
    port = await start()
    reader, writer = await port.dial(port.made.context())
    data = QUESTION * 3_000  # several records, and requests across their borders
    for pos in range(0, len(data), 40_000):
        writer.write(data[pos : pos + 40_000])
    async with asyncio.timeout(WAIT_S):
        for _ in range(3_000):
            await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


async def test_an_end_by_the_client_ends_the_connection(start: Start) -> None:
    port = await start()
    await port.ask()
    port.kept[0].close()
    await port.until(lambda: not port.table.opened)
    assert port.bench.stats.handshakes_failed == 0


async def test_a_close_is_announced_to_the_client(start: Start) -> None:
    port = await start()
    reader = await port.ask()
    port.opened[0].close()
    async with asyncio.timeout(WAIT_S):
        assert await reader.read() == b"", "and no SSLEOFError"


async def test_an_abort_closes_at_once(start: Start) -> None:
    port = await start()
    await port.ask()
    port.opened[0].abort()
    await port.until(lambda: not port.table.opened)


async def test_broken_records_end_the_connection_in_one_line(start: Start, lines: Lines) -> None:
    port = await start()
    await port.ask()
    raw = port.kept[0].get_extra_info("socket")
    os.write(raw.fileno(), b"\x17\x03\x03\x00\x20" + bytes(32))
    await seen(port, lines, "decryption failed or bad record mac")


async def test_the_descriptor_of_the_socket_is_known(start: Start) -> None:
    port = await start()
    await port.ask()
    assert len(port.listener.descriptors) == 2
    [connection] = port.opened
    assert connection._fd in port.listener.descriptors
    accepted = connection.transport.get_extra_info("socket")
    assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1


async def test_a_client_that_does_not_read_is_noticed_and_all_of_it_counts(start: Start) -> None:
    port = await start()
    reader, writer = await port.dial(port.made.context(), limit=1024)
    await ask(reader, writer)
    [connection] = port.opened
    size = 40 * PIECE_BYTES
    connection._out.send([bytes(size)])
    raw = connection.transport
    in_buffer = raw.get_write_buffer_size()
    assert BUFFERED_BYTES < in_buffer < 2 * PIECE_BYTES + BUFFERED_BYTES
    assert connection.unsent > size // 4, "with what waits before the transport"
    async with asyncio.timeout(WAIT_S):
        got = 0
        while got < size:
            got += len(await reader.read(1 << 20))
    await port.until(lambda: connection.unsent == 0)


async def test_reading_pauses_and_resumes(start: Start) -> None:
    port = await start()
    reader, writer = await port.dial(port.made.context())
    await ask(reader, writer)
    [connection] = port.opened
    connection.transport.pause_reading()
    assert not connection.is_read
    writer.write(QUESTION)
    for _ in range(100):
        await asyncio.sleep(0)
    assert not reader._buffer  # type: ignore[attr-defined]  # private
    connection.transport.resume_reading()
    assert connection.is_read
    async with asyncio.timeout(WAIT_S):
        await reader.readexactly(4)


# -- any bytes -------------------------------------------------------------------------------------


class Socket(asyncio.Transport):
    """The transport of a socket that takes everything."""

    def __init__(self, *, is_gone: bool) -> None:
        super().__init__()
        self.is_gone = is_gone
        """Whether the client has reset the connection, of which nobody is told yet."""
        self.sent = bytearray()
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += data

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading

    def write_eof(self) -> None:
        if self.is_gone:
            raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")


def feed(stream: TlsStream, data: bytes) -> None:
    room = stream.get_buffer(-1)[: len(data)]
    room[:] = data[: len(room)]
    stream.buffer_updated(len(room))


async def test_no_bytes_of_a_client_raise_anything(made: Certificates) -> None:
    bench, chance = Bench(), random.Random(32)
    table = bench.new_table(most=10, most_per_host=10)
    services = replace(bench.services, connections=table)
    settings, _ = load(assignments=made.settings(client_auth="required"))
    tls = ListenerTls(Listen("SSL", protocol=SecurityProtocol.SSL), settings)
    queue = Handshakes(bench.stats)
    whole = client_hello(made)
    failed: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failed.append(context))
    for _ in range(1_500):
        stream, raw = (
            TlsStream(Connection(services, "SSL"), tls, queue),
            Socket(is_gone=chance.random() < 0.5),
        )
        stream.connection_made(raw)
        changed = bytearray(whole[: chance.randint(1, len(whole))])
        for _ in range(chance.randint(0, 6)):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        while changed and not raw.closed:
            size = chance.randint(1, len(changed))
            feed(stream, bytes(changed[:size]))
            del changed[:size]
            for _ in range(3):
                await asyncio.sleep(0)
        if chance.random() < 0.5:
            stream.eof_received()
        stream.connection_lost(chance.choice((None, ConnectionResetError())))
    assert not failed
    assert not table.opened
