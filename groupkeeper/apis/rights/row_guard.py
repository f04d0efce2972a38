"""Guards of rows: of requests, and of responses that list what there is.

Rows are taken out of requests in slices, and freed so: freeing very many at once takes long.
"""

from array import array
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final

from groupkeeper.apis.rights.client import AskingClient
from groupkeeper.apis.rights.guard import ERRORS, ChangedResponse, Guard, Guarded, Resource
from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import NO_REPLY, ReplyTo
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.mapped import Bulk, bulk
from groupkeeper.topics.slices import Pace, counts, each
from groupkeeper.turns import Slices

FEW: Final = 50
"""Rows that are decided, or put together, in the same call."""
DECISION: Final = 2
"""Cost of a decision, in items of a `Pace`."""
_TAKEN: Final = 200
"""Rows, or numbers of partitions, that are taken out of a request at a time."""


class Order(Enum):
    """The places of denied rows' results in a response."""

    FIRST = auto()
    LAST = auto()
    ASKED = auto()
    """At their places in the request."""


@dataclass(slots=True)
class DecidedRows:
    """The rows of one request."""

    client: AskingClient
    allowed: list[Any] = field(default_factory=list)
    denied: list[Any] = field(default_factory=list)
    """Results of rows that are denied."""
    flags: bytearray = field(default_factory=bytearray)
    """By row: whether it is allowed."""


class RowsGuard(Guard):
    """Refuses rows of requests. Subclasses say what the rows are."""

    asked: str
    """Array of the request."""
    answered: str
    """Array of the response."""
    order = Order.LAST
    repeats_are_errors = False
    """The handler refuses rows about the same resource, whoever asks."""
    inner: tuple[str, str] | None = None
    """Array of a row, and field with the number of each of its items; None if a row has none."""

    def __init__(self, guarded: Guarded) -> None:
        super().__init__(guarded)
        self._behind = ChangedResponse(self.handler, self.turns)

    def handle(self, request: Any, caller: Caller, reply_to: ReplyTo) -> Any:
        """Implements `Handler`."""
        client = self.client(caller)
        if (refused := self.refused(client, request, caller)) is not None:
            return refused
        if self.changes(request) or not self._are_allowed(client, request, caller):
            return self.split(client, request, caller, reply_to)
        return self.handler(request, caller, reply_to)

    def changes(self, request: Any) -> bool:
        """Return whether the response is changed even if all rows are allowed."""
        return False

    def _are_allowed(self, client: AskingClient, request: Any, caller: Caller) -> bool:
        """Return whether the rows are few, and all of them are allowed."""
        if self.is_free(client):
            return True
        rows, find = self.rows(request, caller), self.resources(request)
        return len(rows) <= FEW and all(
            client.may(*resource) for row in rows if (resource := find(row)) is not None
        )

    def rows(self, request: Any, caller: Caller) -> list[Any]:
        rows: list[Any] = getattr(request, self.asked) or []
        return rows

    def resources(self, request: Any) -> Callable[[Any], Resource | None]:
        """Return the function that says what right a row of this request needs."""
        return self.resource

    def resource(self, row: Any) -> Resource | None:
        """Return what right a row needs; None if it is an error whoever asks."""
        [(operation, kind)] = self.each
        return operation, kind, row if isinstance(row, str) else row.name

    def identity(self, row: Any) -> Hashable:
        """Return what a row is about, to find repeated ones."""
        name: str = row.name
        return name

    def denied(self, row: Any, error: ErrorCode, numbers: Sequence[int]) -> Any:
        """Make the result of a row that is denied. `numbers`: those of its partitions."""
        raise NotImplementedError

    def split(
        self, client: AskingClient, request: Any, caller: Caller, reply_to: ReplyTo
    ) -> Slices[Any]:
        """Ask the handler about the rows that are allowed."""
        rows, resource = self.rows(request, caller), self.resources(request)
        split = yield from self.decide(client, rows, resource)
        setattr(request, self.asked, split.allowed)
        return (
            yield from self._behind.ask(
                request, caller, reply_to, lambda response: self.merge(response, split)
            )
        )

    def decide(
        self, client: AskingClient, rows: list[Any], find: Callable[[Any], Resource | None]
    ) -> Slices[DecidedRows]:
        """Decide about each row, and take it out of the list."""
        split, pace = DecidedRows(client), Pace()
        is_free, times = self.is_free(client), {}
        if self.repeats_are_errors:
            times = yield from counts(rows, self.identity)
        for row in taken(rows):
            passes = is_free or (times and times[self.identity(row)] > 1)
            resource = None if passes else find(row)
            is_allowed = resource is None or client.has(*resource)
            split.flags.append(is_allowed)
            if is_allowed or resource is None:
                split.allowed.append(row)
            else:
                numbers = (yield from numbers_in(row, *self.inner)) if self.inner else ()
                split.denied.append(self.denied(row, ERRORS[resource[1]], numbers))
            if pace.spent(DECISION):
                yield
        while times:  # freed in slices
            for _ in range(min(len(times), _TAKEN)):
                times.popitem()
            yield
        return split

    def merge(self, response: Any, split: DecidedRows) -> Slices[Any]:
        """Put the results of denied rows into a response, unless it is an error as a whole."""
        failed: int = getattr(response, "error_code", 0)
        if failed or response is NO_REPLY or not split.denied:
            return response
        rows = yield from together(getattr(response, self.answered), split, self.order)
        setattr(response, self.answered, rows)
        return response


def together(results: Sequence[Any], split: DecidedRows, order: Order) -> Slices[list[Any]]:
    """Return all results of a request."""
    parts: Iterator[Any]
    if order is Order.ASKED:
        found, denied = iter(results), iter(split.denied)
        parts = (next(found if flag else denied) for flag in split.flags)
    else:
        both = (split.denied, results) if order is Order.FIRST else (results, split.denied)
        parts = (row for rows in both for row in rows)
    every = yield from each(parts, lambda row: row)
    split.denied.clear()  # nothing else may refer to what is freed later, in slices
    return as_bulk(every)


def as_bulk(rows: list[Any]) -> list[Any]:
    """Return the rows of a response, which are freed in slices if they are many."""
    return bulk(rows) if len(rows) > FEW else rows


def taken(rows: list[Any]) -> Iterator[Any]:
    """Take the rows out of a list, in order."""
    rows.reverse()
    while rows:
        some = rows[: -_TAKEN - 1 : -1]
        del rows[-_TAKEN:]
        yield from some


def numbers_in(row: Any, array_name: str, field_name: str) -> Slices["array[int]"]:
    """Take the items out of an array of a row, and return their numbers. `field_name`: where it is
    in an item; empty if the items are numbers.
    """
    items, numbers = getattr(row, array_name), array("i")
    items.reverse()
    while items:
        some = items[: -_TAKEN - 1 : -1]
        del items[-_TAKEN:]
        numbers.extend(some if not field_name else [getattr(one, field_name) for one in some])
        if items:
            yield
    return numbers


class FilterGuard(Guard):
    """Leaves rows out of responses that the client may not see. Subclasses say what rows are."""

    answered: str

    def __init__(self, guarded: Guarded) -> None:
        super().__init__(guarded)
        self._behind = ChangedResponse(self.handler, self.turns)

    def handle(self, request: Any, caller: Caller, reply_to: ReplyTo) -> Any:
        """Implements `Handler`."""
        client = self.client(caller)
        if self.is_free(client):
            return self.handler(request, caller, reply_to)
        return self._behind.ask(
            request, caller, reply_to, lambda response: self._visible(client, response)
        )

    def name(self, row: Any) -> str:
        """Return the name of the resource that a row is about."""
        raise NotImplementedError

    def _visible(self, client: AskingClient, response: Any) -> Slices[Any]:
        [(operation, kind)] = self.each
        rows = getattr(response, self.answered)
        seen = yield from visible(rows, lambda row: client.may(operation, kind, self.name(row)))
        setattr(response, self.answered, seen)
        return response


def visible(rows: Sequence[Any], may_see: Callable[[Any], bool]) -> Slices[list[Any]]:
    """Return the rows that a client may see; the others are freed."""
    seen, pace = [], Pace()
    for row in taken(rows) if isinstance(rows, list) else rows:
        if may_see(row):
            seen.append(row)
        if pace.spent(DECISION):
            yield
    if isinstance(rows, Bulk):
        yield from rows.free()
    return as_bulk(seen)
