"""Detects an HTTP server at an address, for a port that does not respond like a Kafka node.

It sends an ApiVersions request that ends with an empty line, so that an HTTP server rejects it
immediately.
"""

import asyncio
from typing import Final

from groupkeeper.client.structs import RequestFrame
from groupkeeper.protocol.messages.api_versions import ApiVersionsRequest

WAIT_S: Final = 2.0
"""Maximum time for the connection and the response."""


async def speaks_http(host: str, port: int) -> bool:
    """Return whether the answer is one of HTTP. Uses a separate connection."""
    frame = RequestFrame(ApiVersionsRequest(), 0)
    header = frame.build_request_header(0, "groupkeeper\r\n\r\n").encode()
    try:
        async with asyncio.timeout(WAIT_S):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(len(header).to_bytes(4, "big") + header)
                answer = await reader.read(8)
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return False
    return answer.startswith(b"HTTP")
