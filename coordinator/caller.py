"""The other end of a request: the client that sent it, and the place where its answer goes.

Not a connection: access is decided before the core is asked, which knows the principal by name.
"""

from dataclasses import dataclass, field
from typing import Final, Protocol

from groupkeeper.protocol.message import Message

ANONYMOUS: Final = "User:ANONYMOUS"
"""Principal of clients without a login, as Kafka names them."""


def known_as(principal: str) -> str:
    """Return a principal as ACLs and log lines have it; an empty one is that of no login."""
    return principal or ANONYMOUS


class ReplyTo(Protocol):
    """Takes exactly one answer. The core keeps it and returns it with the answer; only the driver
    of a partition calls it.
    """

    def answer(self, response: Message) -> None:
        """Send the response, unless the client has disconnected; calling it twice is a bug."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class Link:
    """Says whether a client's connection still exists; its identity tells connections apart."""

    closed: bool = False


@dataclass(slots=True)
class Peer:
    """The client of one connection, as far as the server has learned about it."""

    client_id: str = ""
    """From the request header; null is read as the empty string, as Kafka does."""
    host: str = ""
    """As Java prints an address: `/127.0.0.1`."""
    software_name: str = ""
    """From ApiVersions v3 or later (KIP-511); empty until the client has said it."""
    software_version: str = ""
    listener: str = field(default="PLAINTEXT", compare=False)
    """Name of the listener of the connection; answers contain that listener's address."""
    link: Link = field(default_factory=Link, repr=False, compare=False)
    principal: str = ""
    """Who has logged in, such as `User:alice`; empty without a login. No decision depends on it."""

    def named(self, client_id: str) -> "Peer":
        """Copy with another client id: `dataclasses.replace` takes five times as long."""
        software = self.software_name, self.software_version
        return Peer(client_id, self.host, *software, self.listener, self.link, self.principal)


@dataclass(slots=True)
class Caller:
    """The sender of one request: the version it speaks, and its connection's client."""

    api_version: int
    peer: Peer = field(default_factory=Peer)
