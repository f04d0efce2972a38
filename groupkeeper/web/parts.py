"""Parameters and errors of the API's handlers: the server's parts, and the request."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from groupkeeper.clock import Clock
from groupkeeper.groups.event_limits import Personal
from groupkeeper.groups.group_partitions import GroupPartitions, ServedGroups
from groupkeeper.groups.lag import GroupLags
from groupkeeper.observe.http_exchange import HttpRequest
from groupkeeper.observe.metrics import Metrics
from groupkeeper.observe.seldom import AUDIT_S, Seldom
from groupkeeper.settings.options import ServeOptions
from groupkeeper.topics.topics import Topics
from groupkeeper.turns import PacedTurns
from groupkeeper.web.lag_history import LagHistory

READERS: Final = 2
"""Maximum number of requests that read stored events concurrently; others wait. Each may take some
hundred megabytes."""

# Any: JSON.
Object: TypeAlias = dict[str, Any]


@dataclass(slots=True, frozen=True)
class Parts:
    """The parts of the server that the handlers use."""

    options: ServeOptions
    groups: ServedGroups
    topics: Topics
    metrics: Metrics
    clock: Clock
    turns: PacedTurns
    personal: Personal
    about: Callable[[], Object]
    """Returns the fields that identify this server, the first ones of each response."""
    lags: GroupLags
    history: LagHistory
    inferred_cause: Callable[[str], Object | None] | None = None
    """Of an observer, which infers causes and changes nothing: returns `last_cause` of a group."""
    knows_lag: bool = True
    """False for an observer that does not ask where logs end."""
    reading: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(READERS))
    """Limits requests that read stored events."""
    followers: set[object] = field(default_factory=set)
    """Open event streams."""
    seldom: Seldom = field(default_factory=Seldom)
    """Limits the rate of log lines that clients can cause."""
    denials: Seldom = field(default_factory=lambda: Seldom(interval_s=AUDIT_S))
    """The same for lines about changes that a token does not allow, by address."""

    @property
    def is_observer(self) -> bool:
        """Whether this is an observer of another cluster: it has no coordinator."""
        return self.inferred_cause is not None

    @property
    def coordinator(self) -> GroupPartitions:
        """The partitions as a coordinator, for changes."""
        assert isinstance(self.groups, GroupPartitions), "an observer refuses changes"
        return self.groups

    def may_write(self, request: HttpRequest) -> bool:
        """Return whether a request may change something: by its token, else by the setting."""
        if self.is_observer:
            return False
        by_setting = self.options.settings.http_api_write
        return by_setting if request.may_write is None else request.may_write


@dataclass(slots=True, frozen=True)
class RoutedRequest:
    """A request matched to a route."""

    request: HttpRequest
    names: Mapping[str, str]
    """Decoded path parameters, by name."""
    query: Mapping[str, Any]
    """All query parameters of the route; missing ones are their default or None. Any: by kind."""
    body: Any = None
    """Body that fits the route's schema. Any: JSON."""


class HttpRefused(Exception):
    """An error response. The text is one line with the problem and its remedy."""

    def __init__(
        self, status: int, text: str, headers: Mapping[str, str] | None = None, **fields: Any
    ) -> None:
        """`fields`: further fields of the response besides `error`. Any: JSON."""
        super().__init__(text)
        self.status = status
        self.text = text
        self.headers = headers or {}
        self.fields = fields


SOON: Final = {"Retry-After": "1"}
"""Headers of a response 503 for a short outage."""
