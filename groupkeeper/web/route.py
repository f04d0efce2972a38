"""A route of a JSON API: its path, what answers it, and what its OpenAPI document says.

The tables of routes are in `routes` and, of the control of a test broker, in
`groupkeeper.testing.control`.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from groupkeeper.observe.http_exchange import HttpAnswer, HttpRequest
from groupkeeper.web.parameters import Parameter, read_segment
from groupkeeper.web.parts import Call, Object, Refused

DOCUMENT: Final = "openapi.json"
"""Path of the description of all others."""

Handle = Callable[[Any, Call], Awaitable[Object | HttpAnswer]]
"""Makes the answer, from what the API stands on (Any: its own) and the call: a JSON object, without
what identifies the server. Raises Refused."""


@dataclass(slots=True, frozen=True)
class Route:
    """One path and method."""

    path: str
    """Without the prefix; names in braces."""
    handle: Handle
    about: str
    answer: str
    """Name of the answer's schema; empty for a stream of events."""
    parameters: Mapping[str, Parameter]
    method: str = "GET"
    statuses: Sequence[int] = ()
    """Of errors, besides 400 of wrong parameters."""
    body: str = ""
    """Name of the body's schema."""
    reads_events: bool = False
    """Stored ones, which takes memory: see `parts.READERS`."""

    def fits(self, segments: Sequence[str]) -> dict[str, str] | None:
        """The names in a path; None if it is another one."""
        own = self.path.split("/")
        if len(own) != len(segments):
            return None
        names: dict[str, str] = {}
        for mine, theirs in zip(own, segments, strict=True):
            if mine.startswith("{") and theirs:
                names[mine[1:-1]] = theirs
            elif mine != theirs:
                return None
        return names


def table(*parameters: Parameter) -> dict[str, Parameter]:
    """Parameters by name."""
    return {each.name: each for each in parameters}


def find_route(
    routes: Iterable[Route], prefix: str, request: HttpRequest
) -> tuple[Route, dict[str, str]]:
    """The route of a request, and the names in its path. Raises Refused."""
    segments = request.path.split("/")
    fitting = [(each, names) for each in routes if (names := each.fits(segments)) is not None]
    if not fitting:
        raise Refused(404, f"no such path: see {prefix}{DOCUMENT} for those that exist")
    method = "GET" if request.method == "HEAD" else request.method
    for route, names in fitting:
        if route.method == method:
            return route, {name: read_segment(text) for name, text in names.items()}
    allowed = ", ".join(each.method for each, _ in fitting)
    raise Refused(405, f"{request.method} is not for this path: use {allowed}", {"Allow": allowed})
