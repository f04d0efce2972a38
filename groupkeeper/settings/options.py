"""What one server process is told on its command line: addresses, data directory, node id.

Plain values, checked where they are read. Not the settings under Kafka's names: those are in
``settings``, and one field here.
"""

from dataclasses import dataclass, field
from pathlib import Path

from groupkeeper.settings.table import Settings

Address = tuple[str, int]
"""Host and port, as asyncio takes them. Port 0 asks for any free one."""


@dataclass(slots=True)
class ServeOptions:
    """Everything that ``groupkeeper.server.main.run`` needs to know."""

    data_dir: Path
    listen: Address = ("127.0.0.1", 9092)
    advertise: Address | None = None
    """What clients are told to connect to; None = the address that was really bound."""
    http: Address | None = ("127.0.0.1", 9644)
    """None = no HTTP port."""
    node_id: int = 0
    dev: bool = False
    settings: Settings = field(default_factory=Settings)
    unused_keys: tuple[str, ...] = ()
    """Settings that were given but mean something to Kafka only; worth one log line."""


def parse_address(text: str, *, any_port: bool = True) -> Address:
    """``HOST:PORT``, with IPv6 hosts in brackets. Raises ValueError with what is wrong, in words.

    ``any_port`` allows port 0, which is good for listening and useless to be told to others.
    """
    host, colon, digits = text.strip().rpartition(":")
    if not colon or not host:
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
    """The inverse of :func:`parse_address`."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
