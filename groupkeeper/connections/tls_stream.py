"""TLS between a socket and its connection, by `ssl` in memory; of the HTTP port, too.

To the socket this is a protocol, to the connection a transport, so that all of what a connection
does is the same with and without TLS: everything encrypted goes to the socket's transport at once,
which alone buffers, and asks to pause. asyncio's own TLS would tell a connection of its client only
after the handshake, would keep a buffer that no limit counts, and would close without telling the
client why its certificate is refused.

The connection is entered into the table before the handshake, so that half-open ones count.
Source: Kafka's `SslTransportLayer`; RFC 8446.
"""

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from groupkeeper.access.tls import ListenerTls
from groupkeeper.connections.call import HTTP, other_protocol
from groupkeeper.connections.handshakes import Handshakes

RECORD_BYTES: Final = 16 * 1024
"""Maximum plaintext of one record."""
HANDSHAKE_BYTES: Final = 16 * 1024
"""Maximum bytes held for a step of a handshake."""
LINGER_S: Final = 1.0
"""How long a client may take to read why it is refused."""

PLAINTEXT: Final = (
    "bytes that are no TLS: this port speaks TLS; set security.protocol=SSL in the client, or "
    "SASL_SSL where clients log in"
)
HTTP_REQUEST: Final = "an HTTP request: this port speaks TLS"
HUNG_UP: Final = "it hung up: perhaps it does not trust the certificate of this server"
_HANDSHAKE: Final = 0x16
"""Type of the first record of a client."""
_WORDS: Final = {
    "CERTIFICATE_VERIFY_FAILED": "its certificate is not trusted",
    "NO_SHARED_CIPHER": "no cipher suite in common",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it shows no certificate (ssl.client.auth = required)",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it refuses the certificate of this server",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it refuses the certificate of this server",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not trust the certificate of this server",
    "UNSUPPORTED_PROTOCOL": "no version of TLS in common",
}
"""Words for OpenSSL's reasons; others are shown as they are."""


class TlsStream(asyncio.BufferedProtocol, asyncio.Transport):
    """TLS of one accepted socket."""

    __slots__ = (
        *("_connection", "_handshakes", "_incoming", "_is_open", "_is_refused", "_outgoing"),
        *("_raw", "_received", "_session", "_timer", "_tls", "_told"),
    )

    def __init__(
        self,
        connection: asyncio.Protocol,
        tls: ListenerTls,
        handshakes: Handshakes,
        told: Callable[[str], None] | None = None,
    ) -> None:
        """`told` is called with the principal of the client before its first byte."""
        super().__init__()
        self._connection = connection
        self._told = told
        self._tls = tls
        self._handshakes = handshakes
        self._received = handshakes.received
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._session: ssl.SSLObject | None = None
        """None until the client has sent something: an idle connection costs little."""
        self._is_open = False
        """Whether the handshake is done."""
        self._is_refused = False
        """Whether an alert was sent: what still comes is dropped."""
        self._raw: asyncio.Transport
        self._timer: asyncio.TimerHandle | None = None

    # -- the socket's calls --------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._raw = transport
        self._connection.connection_made(self)
        if not transport.is_closing():  # else there are too many
            most = self._handshakes.timeout_s
            self._timer = asyncio.get_running_loop().call_later(most, self._too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None:
            self.eof_received()
        if self._timer is not None:
            self._timer.cancel()
        self._connection.connection_lost(exc)

    def eof_received(self) -> None:
        """Note a client that ends the handshake. One that sends nothing at all, as a probe of a
        load balancer, is not told.
        """
        if self._session is not None and not self._is_open:
            self._fail(HUNG_UP)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._received if self._is_open else self._received[:HANDSHAKE_BYTES]

    def buffer_updated(self, nbytes: int) -> None:
        if self._is_refused:
            return
        data = self._received[:nbytes]
        self._incoming.write(data)
        if self._is_open:
            self._read(nbytes)
        elif self._session is None and data[0] != _HANDSHAKE:
            self._fail(HTTP_REQUEST if other_protocol(bytes(data[:4]), 0) is HTTP else PLAINTEXT)
        else:
            self._raw.pause_reading()
            self._handshakes.queue(self._step)

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()

    # -- the handshake -------------------------------------------------------------------------

    def _step(self) -> None:
        if self._raw.is_closing() or self._is_refused:
            return
        session = self._session
        if session is None:
            context = self._tls.context
            session = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
            self._session = session
        try:
            session.do_handshake()
            principal = self._tls.principal_of(session.getpeercert(True))
        except ssl.SSLWantReadError:
            self._flush()
            self._raw.resume_reading()
        except ssl.SSLError as error:
            self._refuse(error)
        except ValueError as error:
            self._fail(str(error))
        else:
            self._open(principal)

    def _open(self, principal: str) -> None:
        assert self._timer is not None
        if self._told is not None:
            self._told(principal)
        self._tls.logged_in(principal, self._host)
        self._timer.cancel()
        self._is_open = True
        self._flush()
        self._raw.resume_reading()
        if self._incoming.pending:
            self._read(RECORD_BYTES)

    def _too_slow(self) -> None:
        if not self._is_open:
            self._fail(f"the handshake took more than {self._handshakes.timeout_s:.0f} s")

    def _fail(self, reason: str) -> None:
        """Count and log the end of TLS, and close."""
        self._count(reason)
        self._raw.close()

    def _refuse(self, error: ssl.SSLError) -> None:
        """Send the alert that says why, and close when the client has read it: what it still sends
        would otherwise reset the connection, and the alert be lost.
        """
        self._flush()
        self._count(_words(error))
        self._session, self._is_open, self._is_refused = None, False, True
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(LINGER_S, self._raw.close)
        with suppress(OSError):  # the client has left
            self._raw.write_eof()
        self._raw.resume_reading()

    def _count(self, reason: str) -> None:
        self._handshakes.failed(self._host, self._tls.listener, reason)

    @property
    def _host(self) -> str:
        """The address of the client, as Java prints it."""
        peer = self._raw.get_extra_info("peername")
        return f"/{peer[0]}" if peer else "/"

    # -- the connection's bytes ----------------------------------------------------------------

    def _read(self, most: int) -> None:
        """Decrypt all whole records, and give them to the connection together. `most`: as many
        bytes as one may have, which are set aside for it.
        """
        session, incoming = self._session, self._incoming
        assert session is not None
        try:
            data = session.read(most)
            ended = not data
            if incoming.pending and data:
                parts = [data]
                ended = self._read_more(session, parts)
                data = b"".join(parts)
        except ssl.SSLWantReadError:
            return
        except ssl.SSLError as error:
            self._refuse(error)
            return
        if self._outgoing.pending:  # the answer to a new key
            self._flush()
        if data:
            self._connection.data_received(data)
        if ended:
            self.close()

    def _read_more(self, session: ssl.SSLObject, parts: list[bytes]) -> bool:
        """Add the following records that are whole; return whether the client has ended."""
        with suppress(ssl.SSLWantReadError):
            while data := session.read(RECORD_BYTES):
                parts.append(data)
                if not self._incoming.pending:
                    return False  # an exception takes longer
            return True
        return False

    def _flush(self) -> None:
        if not self._raw.is_closing():
            self._raw.write(self._outgoing.read())

    # -- the connection's transport ------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        session = self._session
        if session is None or self._raw.is_closing():
            return
        written, size = session.write(data), len(data)
        while written < size:  # one record at a time
            written += session.write(memoryview(data)[written:])
        self._raw.write(self._outgoing.read())

    def close(self) -> None:
        """Say that no more bytes follow, and close when all is sent."""
        self.write_eof()
        self._raw.close()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        """Say that no more bytes follow."""
        if self._is_open and self._session is not None and not self._raw.is_closing():
            with suppress(ssl.SSLError):  # it wants the client's answer, which is not waited for
                self._session.unwrap()
            self._flush()

    def abort(self) -> None:
        self._raw.abort()

    def is_closing(self) -> bool:
        return self._raw.is_closing()

    def pause_reading(self) -> None:
        self._raw.pause_reading()

    def resume_reading(self) -> None:
        self._raw.resume_reading()

    def is_reading(self) -> bool:
        return self._raw.is_reading()

    # Any: as asyncio declares it.
    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._raw.get_extra_info(name, default)

    def get_protocol(self) -> asyncio.Protocol:
        return self._connection

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.Protocol)
        self._connection = protocol

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._raw.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return self._raw.get_write_buffer_size()


def _words(error: ssl.SSLError) -> str:
    reason = error.reason or "not TLS"
    text = _WORDS.get(reason, reason.replace("_", " ").lower())
    why = getattr(error, "verify_message", "")
    return f"{text}: {why}" if why else text
