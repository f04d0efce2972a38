"""What is spoken at an address, for a port that does not answer as a Kafka node.

One request asks for all: it is an ApiVersions to Kafka, and ends as a request does in HTTP, so that
an HTTP server refuses it at once.
"""

import asyncio
from typing import Final

from groupkeeper.client.structs import RequestFrame
from groupkeeper.protocol.messages.api_versions import ApiVersionsRequest

KAFKA, HTTP, UNKNOWN = "Kafka", "HTTP", "unknown"
WAIT_S: Final = 2.0
"""How long the connection and the answer may take."""

_CORRELATION_ID: Final = 0x676B7072


async def spoken_at(host: str, port: int) -> str:
    """KAFKA, HTTP, or UNKNOWN if there is no answer or another one: a port with TLS closes the
    connection. Asks over a connection of its own.
    """
    frame = RequestFrame(ApiVersionsRequest(), 0)
    header = frame.build_request_header(_CORRELATION_ID, "groupkeeper\r\n\r\n").encode()
    try:
        async with asyncio.timeout(WAIT_S):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(len(header).to_bytes(4, "big") + header)
                answer = await reader.read(8)
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return UNKNOWN
    if answer.startswith(b"HTTP"):
        return HTTP
    return KAFKA if answer[4:] == _CORRELATION_ID.to_bytes(4, "big") else UNKNOWN
