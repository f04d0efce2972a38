"""What passes between the HTTP port and an API that answers all paths under a prefix."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

JSON: Final = "application/json"


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
