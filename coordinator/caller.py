"""Who sent a request: what the decisions need to know about the other end of a connection.

Not a connection and not a principal: access is decided before the core is asked.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class Caller:
    """The sender of one request, as the request header and the socket tell it."""

    api_version: int
    client_id: str = ""
    """From the request header; null is read as the empty string, as Kafka does."""
    client_host: str = ""
    """As Java prints an address: ``/127.0.0.1``."""
