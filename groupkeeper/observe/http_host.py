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
    cluster or a network of containers call it: no site of the web has a name without a dot. A
    service of Kubernetes has its name up to `.svc`, too. Between those, `app.dev` of
    `app.dev.svc.cluster.local`, is what a site of the web may be called.
    """
    names = {host.strip().lower().rstrip(".") for host in hosts} - {""}
    services = {f"{before}.svc" for before, dot, _ in (n.partition(".svc.") for n in names) if dot}
    return frozenset(names | services | {n.partition(".")[0] for n in names if not _is_address(n)})


def is_own(host: str, names: Collection[str]) -> bool:
    """Whether a Host header is an address, `localhost` or one of the names, with any port."""
    name, colon, port = host.rpartition(":")
    name = name if colon and (port.isdigit() or not port) else host
    name = name.lower().removesuffix(".")
    # RFC 6761: browsers take all names below localhost to this machine.
    return _is_address(name) or f".{name}".endswith(".localhost") or name in names


def strange(headers: Mapping[str, str], names: Collection[str]) -> str | None:
    """Why a request that reads is not answered, in a line; None if it is."""
    host, origin = headers.get("host"), headers.get("origin")
    if host is not None and not is_own(host.strip(), names):  # every browser sends the header
        return (
            f"the Host header is '{host.strip()[:HEADER_MOST]}': ask by an IP address, localhost "
            "or a name of --http, --listen or --advertise, or add this one to the setting "
            "http.hosts"
        )
    # A page cannot set Sec-Fetch-Site. Behind a proxy, Origin has the proxy's name and Host ours.
    if origin is None or headers.get("sec-fetch-site") == "same-origin":
        return None
    if _origin_of(origin) != (host or "").strip().lower().removesuffix(":80"):
        shown = origin[:HEADER_MOST]
        return f"the Origin header is '{shown}': only pages of this port may read it in a browser"
    return None


def _origin_of(origin: str) -> str:
    """Its host and port as in a Host header, without the port that `http` has by default."""
    return origin.partition("://")[2].lower().removesuffix(":80")


def _is_address(name: str) -> bool:
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
