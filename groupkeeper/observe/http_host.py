"""Checks the Host header of the HTTP port: is it a name of this server, or a rebound one?

A page of any site can make the browser of a person who can reach the port send requests here under
the site's name (DNS rebinding), and read the answers as its own. Their Host header has that name.
Requests by an address, `localhost` or a name of this server are answered.
"""

from collections.abc import Collection, Iterable, Mapping
from ipaddress import ip_address
from typing import Final

SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""
HEADER_MOST: Final = 100
"""Characters of a header that are shown."""


def own_names(hosts: Iterable[str]) -> frozenset[str]:
    """Return the names of this server in lower case, each also as its first label alone.

    Neighbours in a cluster or a container network use the first label; no web site has a name
    without a dot. A Kubernetes service also has its name up to `.svc`, but nothing shorter:
    `app.dev` of `app.dev.svc.cluster.local` may be the name of a web site.
    """
    names = {host.strip().lower().rstrip(".") for host in hosts} - {""}
    services = {f"{before}.svc" for before, dot, _ in (n.partition(".svc.") for n in names) if dot}
    return frozenset(names | services | {n.partition(".")[0] for n in names if not _is_address(n)})


def is_own(host: str, names: Collection[str]) -> bool:
    """Return whether a Host header is an address, `localhost` or a known name, with any port."""
    name, colon, port = host.rpartition(":")
    name = name if colon and (port.isdigit() or not port) else host
    name = name.lower().removesuffix(".")
    # RFC 6761: browsers resolve all names below localhost to this machine.
    return _is_address(name) or f".{name}".endswith(".localhost") or name in names


def strange(method: str, headers: Mapping[str, str], names: Collection[str]) -> str | None:
    """Return a line why a request is not answered; None if it is.

    Programs other than browsers send neither Origin nor Sec-Fetch-Site.
    Source: Fetch Metadata (`Sec-Fetch-Site`), and RFC 6454 for browsers without it.
    """
    host, origin, site = map(headers.get, ("host", "origin", "sec-fetch-site"))
    if host is not None and not is_own(host.strip(), names):  # every browser sends the header
        return (
            f"the Host header is '{host.strip()[:HEADER_MOST]}': ask by an IP address, localhost "
            "or the host of --http, or allow this name with --set http.hosts=NAME"
        )
    # A page cannot set Sec-Fetch-Site. Behind a proxy, Origin has the proxy's name and Host ours.
    if site == "same-origin":
        return None
    if origin is None:
        is_other = method not in SAFE and site not in (None, "none")
        return "this was sent for a page of another origin" if is_other else None
    if _origin_of(origin) != (host or "").strip().lower().removesuffix(":80"):
        shown = origin[:HEADER_MOST]
        return f"the Origin header is '{shown}': only pages of this port may read it in a browser"
    return None


def _origin_of(origin: str) -> str:
    """Return an origin's host and port as in a Host header, without the default port of `http`."""
    return origin.partition("://")[2].lower().removesuffix(":80")


def _is_address(name: str) -> bool:
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
