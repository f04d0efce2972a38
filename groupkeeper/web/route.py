"""The routes of a JSON API: paths, handlers, query parameters and their checks, and descriptions
for the OpenAPI document.

The tables of routes are in `api`, and in `groupkeeper.testing.control` for the test broker.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import parse_qsl, unquote

from groupkeeper.observe.http_exchange import HttpAnswer, HttpRequest
from groupkeeper.web.parts import HttpRefused, Object, RoutedRequest

_Kind = Literal["text", "number", "place"]

EventPosition = tuple[int, int]
"""(epoch, seq) of an event: its position among the events of a partition."""

PLACE_PATTERN: Final = r"^[0-9]{1,10}\.[0-9]{1,19}$"
LONGEST: Final = 5_000
"""Maximum length of a text parameter, in characters."""
_MOST: Final = 2**53 - 1


@dataclass(slots=True, frozen=True)
class Parameter:
    """A query parameter."""

    name: str
    about: str
    kind: _Kind = "text"
    default: int | None = None
    least: int = 0
    most: int = _MOST
    of: Sequence[str] = ()
    """Permitted values of a text; empty for any."""

    def schema(self) -> dict[str, Any]:
        """Return the parameter's JSON Schema."""
        if self.kind == "number":
            schema: dict[str, Any] = {"type": "integer", "minimum": self.least}
            schema |= {"maximum": self.most}
            return schema if self.default is None else schema | {"default": self.default}
        schema = {"type": "string"}
        if self.kind == "place":
            return schema | {"pattern": PLACE_PATTERN}
        return schema | ({"enum": list(self.of)} if self.of else {"maxLength": LONGEST})

    def read(self, text: str) -> int | str | EventPosition:
        """Parse and check a value. Raises HttpRefused."""
        if self.kind == "number":
            return self._number(text)
        if self.kind == "place":
            return read_place(text, f"parameter '{self.name}'")
        if self.of and text not in self.of:
            raise HttpRefused(400, f"unknown {self.name} '{_cut(text)}': give {_either(self.of)}")
        if len(text) > LONGEST:
            raise HttpRefused(400, f"parameter '{self.name}' has more than {LONGEST} characters")
        return text

    def _number(self, text: str) -> int:
        number = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None
        if number is None or not self.least <= number <= self.most:
            limits = f"from {self.least} to {self.most}"
            line = f"parameter '{self.name}' is '{_cut(text)}': give a number {limits}"
            raise HttpRefused(400, line)
        return number


def read_place(text: str, what: str) -> EventPosition:
    """Parse a position `EPOCH.SEQ`. Raises HttpRefused."""
    if not re.fullmatch(PLACE_PATTERN, text):
        line = f"{what} is '{_cut(text)}': give EPOCH.SEQ from an earlier response"
        raise HttpRefused(400, line)
    epoch, seq = text.split(".")
    return int(epoch), int(seq)


def place_text(place: EventPosition) -> str:
    return f"{place[0]}.{place[1]}"


# Any: values of parameters.
def read_query(query: str, known: Mapping[str, Parameter]) -> dict[str, Any]:
    """Return the values of all known parameters, defaults included. Raises HttpRefused."""
    found: dict[str, Any] = {each.name: each.default for each in known.values()}
    seen = set[str]()
    try:
        pairs = parse_qsl(query, keep_blank_values=True, errors="strict")
    except ValueError:
        raise HttpRefused(400, "the query is not percent-encoded UTF-8") from None
    for name, text in pairs:
        if name not in known:
            raise HttpRefused(400, f"unknown parameter '{_cut(name)}': {_offer(known)}")
        if name in seen:
            raise HttpRefused(400, f"parameter '{name}' is given twice: give it once")
        seen.add(name)
        found[name] = known[name].read(text)
    return found


def read_segment(text: str) -> str:
    """Decode a percent-encoded path segment. Raises HttpRefused."""
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise HttpRefused(400, "the path is not percent-encoded UTF-8") from None


def _offer(known: Mapping[str, Parameter]) -> str:
    return f"give {_either([*known])}" if known else "this path takes none"


def _either(names: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _cut(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:100]}..."


# -- routes ----------------------------------------------------------------------------------------

DOCUMENT: Final = "openapi.json"
"""Path of the OpenAPI document, after the prefix."""

Handle = Callable[[Any, RoutedRequest], Awaitable[Object | HttpAnswer]]
"""Handles a request: (parts of the API, request) -> JSON object, without the fields that identify
the server. Raises HttpRefused. Any: each API has its own parts."""


@dataclass(slots=True, frozen=True)
class Route:
    """A path and method with their handler."""

    path: str
    """Path after the prefix; parameters are in braces."""
    handle: Handle
    about: str
    answer: str
    """Name of the response's schema; empty for a stream of events."""
    parameters: Mapping[str, Parameter]
    method: str = "GET"
    statuses: Sequence[int] = ()
    """Statuses of errors, besides 400 for invalid parameters."""
    body: str = ""
    """Name of the body's schema."""
    reads_events: bool = False
    """Whether the handler reads stored events, which takes memory: see `parts.READERS`."""

    def fits(self, segments: Sequence[str]) -> dict[str, str] | None:
        """Return the path parameters, still encoded; None if the path does not match."""
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
    """Return parameters by name."""
    return {each.name: each for each in parameters}


def find_route(
    routes: Iterable[Route], prefix: str, request: HttpRequest
) -> tuple[Route, dict[str, str]]:
    """Return the route of a request, and its path parameters. Raises HttpRefused."""
    segments = request.path.split("/")
    fitting = [(each, names) for each in routes if (names := each.fits(segments)) is not None]
    if not fitting:
        raise HttpRefused(404, f"no such path: all paths are listed in {prefix}{DOCUMENT}")
    method = "GET" if request.method == "HEAD" else request.method
    for route, names in fitting:
        if route.method == method:
            return route, {name: read_segment(text) for name, text in names.items()}
    allowed = ", ".join(each.method for each, _ in fitting)
    raise HttpRefused(
        405, f"this path does not support {request.method}: use {allowed}", {"Allow": allowed}
    )
