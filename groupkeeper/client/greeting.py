"""Detects the protocol at an address, for a port that does not respond like a Kafka node.

It sends an ApiVersions request that ends with an empty line, so that an HTTP server rejects it
immediately.
"""

import asyncio
from typing import Final

from groupkeeper.client.structs import RequestFrame
from groupkeeper.protocol.messages.api_versions import ApiVersionsRequest

KAFKA, HTTP, UNKNOWN = "Kafka", "HTTP", "unknown"
WAIT_S: Final = 2.0
"""Maximum time for the connection and the response."""

_CORRELATION_ID: Final = 0x676B7072


async def spoken_at(host: str, port: int) -> str:
    """Return KAFKA, HTTP, or UNKNOWN for any other response or none (a TLS port closes the
    connection). Uses a separate connection.
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
