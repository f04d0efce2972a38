"""Whether other machines can connect to an address that a port is bound to."""

import asyncio
import socket
from ipaddress import IPv4Address, ip_address

from groupkeeper.settings.options import Address


async def is_reachable(address: Address) -> bool:
    """Whether asyncio binds an address other than the loopback for this one.

    A host name is resolved as asyncio does it, which binds every address found. A name that can no
    longer be resolved counts as reachable.
    """
    host, port = address
    try:
        return not _is_loopback(host)
    except ValueError:
        pass  # a name
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError:
        return True
    return not all(_is_loopback(str(info[4][0])) for info in found)


def _is_loopback(host: str) -> bool:
    """Raises ValueError if `host` is a name."""
    ip = ip_address(host)
    mapped: IPv4Address | None = getattr(ip, "ipv4_mapped", None)
    return (mapped or ip).is_loopback
