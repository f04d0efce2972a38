"""What is spoken at an address, for a port that does not answer as a Kafka node.

One request asks for all: it is an ApiVersions to Kafka, and ends as a request does in HTTP, so that
an HTTP server refuses it at once.
"""

import asyncio
from enum import Enum
from struct import Struct
from typing import Final

from groupkeeper.protocol.api_keys import ApiKey

WAIT_S: Final = 2.0
"""How long the connection and the answer may take."""

_CORRELATION_ID: Final = 0x676B7072
_CLIENT_ID: Final = b"groupkeeper\r\n\r\n"
_SIZE: Final = Struct(">i")
_HEADER: Final = Struct(">hhih")
"""API key, version, correlation id, size of the client id."""


class Spoken(Enum):
    """A protocol, by the beginning of an answer."""

    KAFKA = "Kafka"
    HTTP = "HTTP"
    UNKNOWN = "unknown"
    """No answer, or another one; a port with TLS closes the connection."""


async def spoken_at(host: str, port: int) -> Spoken:
    """Ask over a connection of its own."""
    try:
        async with asyncio.timeout(WAIT_S):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(_request())
                return _of(await reader.read(8))
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return Spoken.UNKNOWN


def _request() -> bytes:
    header = _HEADER.pack(ApiKey.API_VERSIONS, 0, _CORRELATION_ID, len(_CLIENT_ID))
    return _SIZE.pack(len(header) + len(_CLIENT_ID)) + header + _CLIENT_ID


def _of(answer: bytes) -> Spoken:
    if answer.startswith(b"HTTP"):
        return Spoken.HTTP
    return Spoken.KAFKA if answer[4:] == _SIZE.pack(_CORRELATION_ID) else Spoken.UNKNOWN
