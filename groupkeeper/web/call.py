"""One call of an endpoint, with its parameters checked."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from groupkeeper.observe.http_exchange import HttpRequest


@dataclass(slots=True, frozen=True)
class Call:
    """A request that fits a route."""

    request: HttpRequest
    names: Mapping[str, str]
    """Decoded parts of the path, by their names in the route."""
    query: Mapping[str, Any]
    """Every parameter of the route; what was not given has its default, or None. Any: by kind."""
    body: Any = None
    """JSON that fits the route's schema. Any: JSON."""
