"""What passes between the HTTP port and an API that answers all paths under a prefix."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol
from urllib.parse import urlsplit

JSON: Final = "application/json"
SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""


@dataclass(slots=True, frozen=True)
class HttpRequest:
    """One request, as it came: nothing is decoded."""

    method: str
    path: str
    """Without the prefix; percent-encoded."""
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    """By name, in any case."""
    remote: str = ""
    """Address of the client."""
    body: bytes = b""
    """Empty unless it was sent as JSON."""


class Pieces(Protocol):
    """The body of an answer that is sent as it comes."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Asked for a piece when those before are taken."""

    async def aclose(self) -> None:
        """Called once, when all is sent or the connection is closed."""


@dataclass(slots=True, frozen=True)
class HttpAnswer:
    """The answer."""

    status: int
    body: bytes | list[bytes] | Pieces
    """A long one in pieces; `Pieces` where the end is not known yet."""
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


Api = Callable[[HttpRequest], Awaitable[HttpAnswer]]
"""Answers every request under its prefix; works in slices."""

Apis = Mapping[str, Api]
"""By prefix, which ends with a slash."""


def media_type(headers: Mapping[str, str]) -> str:
    """Of the body, without its parameters."""
    return headers.get("Content-Type", "").partition(";")[0].strip().lower()


def is_foreign(method: str, headers: Mapping[str, str]) -> bool:
    """Whether a browser sends this change for a page of another origin. Programs that are no
    browsers send neither header.

    Source: Fetch Metadata (`Sec-Fetch-Site`), and RFC 6454 for browsers without it.
    """
    if method in SAFE:
        return False
    site = headers.get("Sec-Fetch-Site")
    if site is not None:
        return site not in ("same-origin", "none")
    origin = headers.get("Origin")
    if origin is None:
        return False
    try:
        return urlsplit(origin).netloc.lower() != headers.get("Host", "").lower()
    except ValueError:  # brackets that do not match
        return True
