"""What the endpoints of the API stand on, and what each call gives them."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from groupkeeper.clock import Clock
from groupkeeper.groups.event_limits import Personal
from groupkeeper.groups.group_partitions import GroupPartitions
from groupkeeper.groups.lag import GroupLags
from groupkeeper.observe.http_exchange import HttpRequest
from groupkeeper.observe.metrics import Metrics
from groupkeeper.observe.seldom import Seldom
from groupkeeper.settings.options import ServeOptions
from groupkeeper.topics.topics import Topics
from groupkeeper.turns import PacedTurns
from groupkeeper.web.lag_history import LagHistory

READERS: Final = 2
"""Answers from stored events that are made at a time; others wait. Each takes up to some hundred
megabytes while it is made."""

# Any: JSON.
Object: TypeAlias = dict[str, Any]


@dataclass(slots=True, frozen=True)
class Parts:
    """The server, as the endpoints see it."""

    options: ServeOptions
    groups: GroupPartitions
    topics: Topics
    metrics: Metrics
    clock: Clock
    turns: PacedTurns
    personal: Personal
    about: Callable[[], Object]
    """What identifies this server, at the beginning of every answer."""
    lags: GroupLags
    history: LagHistory
    reading: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(READERS))
    """For answers from stored events."""
    followers: set[object] = field(default_factory=set)
    """Streams of events that are open."""
    seldom: Seldom = field(default_factory=Seldom)
    """When lines about what clients repeat are due."""


@dataclass(slots=True, frozen=True)
class RoutedRequest:
    """A request that fits a route."""

    request: HttpRequest
    names: Mapping[str, str]
    """Decoded parts of the path, by their names in the route."""
    query: Mapping[str, Any]
    """Every parameter of the route; what was not given has its default, or None. Any: by kind."""
    body: Any = None
    """JSON that fits the route's schema. Any: JSON."""


class HttpRefused(Exception):
    """A request that is answered with an error. One line: what is wrong, and what to do."""

    def __init__(
        self, status: int, text: str, headers: Mapping[str, str] | None = None, **fields: Any
    ) -> None:
        """`fields` of the answer, besides `error`. Any: JSON."""
        super().__init__(text)
        self.status = status
        self.text = text
        self.headers = headers or {}
        self.fields = fields


SOON: Final = {"Retry-After": "1"}
"""Of an answer 503: it will pass."""
