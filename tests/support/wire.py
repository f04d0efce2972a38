"""Kafka's wire for tests: frames, what is sent and answered on one connection, a blocking client.

    with connect(("127.0.0.1", port)) as client:
        assert client.call(4, heartbeat(member_id, generation)).error_code == 0

The API is that of the request's class. The product's codecs encode and decode; versions and
contents are the caller's.
"""

import itertools
import socket
from collections import deque
from typing import Any, NamedTuple, Self

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import Message, key_of
from tests.support.codecs import request_encoder, response_decoder

Address = tuple[str, int]

CLIENT_ID = "tester"
ANSWER_S = 60.0
_READ_BYTES = 1 << 18


class Gone(ConnectionError):
    """The server closed the connection."""


def frame(
    version: int, request: Message, correlation_id: int = 0, client_id: str | None = CLIENT_ID
) -> bytes:
    """The whole request as it goes to the socket, size included."""
    return request_encoder(key_of(type(request)), version)(request, correlation_id, client_id)


class Frames:
    """Cuts the bytes of a connection into frames, which are returned without their size."""

    def __init__(self) -> None:
        self._unread = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that these bytes complete."""
        unread, frames, pos = self._unread, [], 0
        unread += data
        while len(unread) - pos >= 4:
            end = pos + 4 + int.from_bytes(unread[pos : pos + 4], "big")
            if len(unread) < end:
                break
            frames.append(bytes(unread[pos + 4 : end]))
            pos = end
        del unread[:pos]
        return frames


class _Sent(NamedTuple):
    key: ApiKey
    version: int
    correlation_id: int


class Exchange:
    """The requests of one connection that are not answered yet; correlation ids count from 1."""

    def __init__(self, client_id: str | None = CLIENT_ID) -> None:
        self.client_id = client_id
        self._ids = itertools.count(1)
        self._sent: deque[_Sent] = deque()

    def request(self, version: int, request: Message) -> bytes:
        """The frame of a request, which is answered after all those before it."""
        sent = _Sent(key_of(type(request)), version, next(self._ids))
        self._sent.append(sent)
        return frame(version, request, sent.correlation_id, self.client_id)

    def response(self, frame: bytes) -> Any:
        """The answer to the oldest request. AssertionError for the answer to another one."""
        key, version, correlation_id = self._sent.popleft()
        answered, response = response_decoder(key, version)(frame, 0, len(frame))
        assert answered == correlation_id, f"answer {answered} to request {correlation_id}"
        return response


class Client:
    """A connected socket, which blocks until the answer is there: TimeoutError if none comes."""

    def __init__(
        self, connected: socket.socket, timeout: float = ANSWER_S, client_id: str | None = CLIENT_ID
    ) -> None:
        connected.settimeout(timeout)
        self.socket = connected
        self._exchange = Exchange(client_id)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def call(self, version: int, request: Message) -> Any:
        """The answer. Raises OSError: Gone if the connection is closed."""
        self.send(version, request)
        return self.take()

    def send(self, version: int, request: Message) -> None:
        """Send a request, whose answer `take` returns later."""
        self.send_frame(self._exchange.request(version, request))

    def take(self) -> Any:
        """The next answer."""
        return self._exchange.response(self.read_frame())

    def send_frame(self, data: bytes) -> None:
        self.socket.sendall(data)

    def read_frame(self) -> bytes:
        """The next frame, without its size. Raises OSError: Gone at the end of the connection."""
        return self._read(int.from_bytes(self._read(4), "big"))

    def is_closed(self) -> bool:
        """Wait for the next byte; whether the connection ends instead."""
        return not self.socket.recv(1)

    def close(self) -> None:
        self.socket.close()

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self.socket.recv(min(_READ_BYTES, size - len(data)))
            if not part:
                raise Gone(f"{len(data)} of {size} bytes of an answer")
            data += part
        return bytes(data)


def connect(
    address: Address, timeout: float = ANSWER_S, client_id: str | None = CLIENT_ID
) -> Client:
    """A client on a new connection."""
    return Client(socket.create_connection(address, timeout=timeout), timeout, client_id)
