"""What a client of another protocol says first, for the log: where Kafka has the size of a request.

All of these are sizes beyond any `socket.request.max.bytes` that makes sense.
"""

from typing import Final

_HTTP: Final = (
    *(b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC"),
    b"PRI ",  # HTTP/2
)
_TLS: Final = b"\x16\x03"
"""A handshake record of SSL 3 or any TLS."""

HTTP: Final = (
    "an HTTP request: this port speaks Kafka's protocol; metrics are on the port of --http"
)
TLS: Final = "a TLS handshake: this port speaks plaintext; set security.protocol=PLAINTEXT"


def other_protocol(data: bytes, pos: int) -> str | None:
    """What the four bytes at `pos` begin if they are no size; None if nobody knows."""
    first = bytes(data[pos : pos + 4])
    if first in _HTTP:
        return HTTP
    return TLS if first.startswith(_TLS) else None
