"""Which name a request of the HTTP port gives this server: one of its own, or one rebound to it.

A page of any site can make the browser of a person who can reach the port send requests here under
the site's own name (DNS rebinding), and read the answers as its own. Their Host header has that
name. Requests by an address, `localhost` or a name of this server are answered.
"""

from collections.abc import Collection, Iterable, Mapping
from ipaddress import ip_address
from typing import Final

HEADER_MOST: Final = 100
"""Characters of a header that are shown."""


def own_names(hosts: Iterable[str]) -> frozenset[str]:
    """Names of this server in lower case, each also by its first label alone, as neighbours in a
    cluster or a network of containers call it. No site of the web has a name without a dot.
    """
    names = {host.strip().lower() for host in hosts} - {""}
    return frozenset(names | {name.partition(".")[0] for name in names if not _is_address(name)})


def is_own(host: str, names: Collection[str]) -> bool:
    """Whether a Host header is an address, `localhost` or one of the names, with any port."""
    name, _, port = host.rpartition(":")
    name = (name if port.isdigit() else host).lower()
    return _is_address(name) or name == "localhost" or name in names


def strange(headers: Mapping[str, str], names: Collection[str]) -> str | None:
    """Why a request that reads is not answered, in a line; None if it is."""
    host, origin = headers.get("Host", "").strip(), headers.get("Origin")
    if not is_own(host, names):
        return (
            f"the Host header is '{host[:HEADER_MOST]}': ask by an IP address, localhost or a name "
            "of --http, --listen or --advertise, or add this one to the setting http.hosts"
        )
    if origin is not None and origin.partition("://")[2].lower() != host.lower():
        shown = origin[:HEADER_MOST]
        return f"the Origin header is '{shown}': only pages of this port may read it in a browser"
    return None


def _is_address(name: str) -> bool:
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
