"""The options of one server process: addresses, data directory, node id.

Values are checked where they are read. The settings under Kafka's names are one field of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final

from groupkeeper.settings.table import Settings

Address = tuple[str, int]
"""Host and port, as in asyncio. Port 0 means any free one."""

MEMORY: Final = Path("memory")
"""Shown in place of the data directory if there is none."""


EVERYWHERE: Final = ("0.0.0.0", "::")  # noqa: S104  # compared with, and Kafka's empty host
PLAINTEXT: Final = "PLAINTEXT"
"""Name of the only listener, as in Kafka."""


class SecurityProtocol(Enum):
    """The security of a listener, below Kafka's protocol. Source: Kafka's enum."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def is_tls(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


@dataclass(slots=True, frozen=True)
class Listen:
    """One listener of the Kafka port."""

    name: str = PLAINTEXT
    bind: Address = ("127.0.0.1", 9092)
    advertised: Address | None = None
    """The address given to its clients; None: the bound one."""
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT

    @property
    def addresses(self) -> tuple[Address, ...]:
        return (self.bind,) if self.advertised is None else (self.bind, self.advertised)


@dataclass(slots=True)
class ServeOptions:
    """The arguments of `groupkeeper.server.main.run`."""

    data_dir: Path
    listeners: tuple[Listen, ...] = (Listen(),)
    """At least one."""
    http: Address | None = ("127.0.0.1", 9644)
    """None: no HTTP port."""
    node_id: int = 0
    dev: bool = False
    memory: bool = False
    """All files are in memory, and end with the process; `data_dir` is `MEMORY`."""
    settings: Settings = field(default_factory=Settings)
    topics: Mapping[str, int] = field(default_factory=dict)
    """To be created at the start unless they exist: names, and numbers of partitions."""
    unused_keys: tuple[str, ...] = ()
    """Given settings that only Kafka uses; they are named in a log line."""

    @property
    def has_tls(self) -> bool:
        """Whether one of the ports has TLS."""
        return self.settings.http_tls or any(each.protocol.is_tls for each in self.listeners)

    @property
    def hosts(self) -> list[str]:
        """Host names of the HTTP port, or the Kafka port beside it, for browsers and scripts."""
        known = (self.http, *(at for each in self.listeners for at in each.addresses))
        given = (self.settings.http_hosts or "").split(",")
        return [*(each[0] for each in known if each), *given]


def parse_address(text: str, *, any_port: bool = True) -> Address:
    """Parse `HOST:PORT`, with IPv6 hosts in brackets. Raises ValueError with a message.

    `any_port` allows port 0, which can be listened on but not advertised.
    """
    host, colon, digits = text.strip().rpartition(":")
    if not colon or not host or "/" in text:
        raise ValueError(f"{text!r} is not HOST:PORT, such as 127.0.0.1:9092 or [::1]:9092")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{text!r}: put an IPv6 address in brackets, such as [::1]:9092")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 5 and int(digits) <= 65535):
        raise ValueError(f"{text!r}: the port is a number from 0 to 65535")
    if int(digits) == 0 and not any_port:
        raise ValueError(f"{text!r}: clients cannot connect to port 0")
    return host, int(digits)


def format_address(address: Address) -> str:
    """Return the inverse of `parse_address`."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
