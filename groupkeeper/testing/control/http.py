"""The HTTP control API of a test broker, the counterpart of `groupkeeper.testing` for any language.

Finds the route, checks parameters and body, and calls the broker on a thread. Changes are made one
at a time, in order of arrival. The OpenAPI document is at `/control/v1/openapi.json`.
"""

import asyncio
import json
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from groupkeeper.observe.http_exchange import HttpAnswer, HttpRequest
from groupkeeper.observe.http_host import is_own
from groupkeeper.settings.table import SettingsError
from groupkeeper.storage.errors import StorageError
from groupkeeper.testing.control import broker_routes, group_routes
from groupkeeper.testing.control.parts import ControlParts, ServedBroker
from groupkeeper.testing.control.schemas import DOCUMENTED, PREFIX, schemas
from groupkeeper.testing.errors import BrokerDown, RequestFailed, WaitTimedOut
from groupkeeper.web.body import check, read_body
from groupkeeper.web.openapi import document
from groupkeeper.web.parts import HttpRefused, Object, RoutedRequest
from groupkeeper.web.route import DOCUMENT, Route, find_route, read_query

__all__ = ["PREFIX", "Control"]

ROUTES: Final = (*broker_routes.ROUTES, *group_routes.ROUTES)
STATUSES: Final[Mapping[type[Exception], int]] = {
    WaitTimedOut: 408,
    BrokerDown: 409,
    RequestFailed: 400,
    SettingsError: 400,
    StorageError: 500,
    OSError: 500,
    ValueError: 400,
}
"""Status by exception type; the first match counts. The message becomes the error text."""


class Control:
    """Handles requests under `PREFIX`."""

    def __init__(self, broker: ServedBroker) -> None:
        self._parts = ControlParts(broker)
        self._schemas = schemas()

    async def close(self) -> None:
        """Wait for the change in progress; cancel all others."""
        await asyncio.to_thread(partial(self._parts.changing.shutdown, cancel_futures=True))

    async def answer(self, request: HttpRequest) -> HttpAnswer:
        """Handle one request. Errors are `{"error": ...}` with a status."""
        try:
            _check_sender(request)
            if request.path == DOCUMENT:
                return _answer(200, document(ROUTES, DOCUMENTED))
            route, names = find_route(ROUTES, PREFIX, request)
            body = self._body(route, request)
            call = RoutedRequest(request, names, read_query(request.query, route.parameters), body)
            found = await route.handle(self._parts, call)
            return found if isinstance(found, HttpAnswer) else _answer(200, self._about() | found)
        except HttpRefused as refused:
            whole = self._about() | {"error": refused.text}
            return _answer(refused.status, whole, refused.headers)
        except tuple(STATUSES) as error:
            status = next(code for kind, code in STATUSES.items() if isinstance(error, kind))
            return _answer(status, self._about() | {"error": str(error)})

    async def no_path(self, _: HttpRequest) -> HttpAnswer:
        """Handle a request outside `PREFIX`."""
        line = f"no such path: all paths of the control begin with {PREFIX}"
        return _answer(404, self._about() | {"error": line})

    def _about(self) -> Object:
        return {"cluster": self._parts.broker.cluster_id}

    # Any: JSON.
    def _body(self, route: Route, request: HttpRequest) -> Mapping[str, Any]:
        """Read and check the body, if the route has one. Raises HttpRefused."""
        if not route.body:
            return {}
        body = read_body(request)
        check(body, self._schemas[route.body], self._schemas)
        return body


def _check_sender(request: HttpRequest) -> None:
    """Reject browser pages, which send an Origin header or a foreign Host. Raises HttpRefused."""
    if request.headers.get("origin"):
        raise HttpRefused(403, "the control port is not for web pages: send no Origin header")
    if not is_own(request.headers.get("host", "").strip(), ()):
        raise HttpRefused(403, "the Host header is a name: use an IP address, or localhost")


def _answer(status: int, whole: Object, headers: Mapping[str, str] | None = None) -> HttpAnswer:
    return HttpAnswer(status, json.dumps(whole).encode() + b"\n", headers=headers or {})
