"""The HTTP control of a test broker: what `groupkeeper.testing` does in Python, for any language.

Finds the route, reads and checks parameters and body, and calls the broker on a thread. Changes are
made one after another, in the order in which they come. The document is at
`/control/v1/openapi.json`.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from groupkeeper.observe.http_exchange import HttpAnswer, HttpRequest
from groupkeeper.settings.table import SettingsError
from groupkeeper.storage.errors import StorageError
from groupkeeper.testing.control.body import check
from groupkeeper.testing.control.parts import Parts, ServedBroker
from groupkeeper.testing.control.routes import ROUTES
from groupkeeper.testing.control.schemas import DOCUMENTED, PREFIX, schemas
from groupkeeper.testing.errors import BrokerDown, RequestFailed, WaitTimedOut
from groupkeeper.web.body import check_host, read_body
from groupkeeper.web.call import Call
from groupkeeper.web.openapi import document
from groupkeeper.web.parameters import read_query
from groupkeeper.web.parts import Object, Refused
from groupkeeper.web.route import DOCUMENT, Route, find_route

__all__ = ["PREFIX", "Control"]

READERS: Final = 4
"""Threads that look; one more makes changes."""
STATUSES: Final[Mapping[type[Exception], int]] = {
    WaitTimedOut: 408,
    BrokerDown: 409,
    RequestFailed: 400,
    SettingsError: 400,
    StorageError: 500,
    OSError: 500,
    ValueError: 400,
}
"""What the broker raises, the first that fits; the text says what is wrong."""


class Control:
    """Answers requests under `PREFIX`."""

    def __init__(self, broker: ServedBroker) -> None:
        self._broker = broker
        self._changing = ThreadPoolExecutor(1, "control")
        self._looking = ThreadPoolExecutor(READERS, "control-looking")
        self._parts = Parts(broker, self._run)
        self._schemas = schemas()

    # Any: what a handler's function returns.
    async def _run(self, do: Callable[[], Any], *, changes: bool) -> Any:
        executor = self._changing if changes else self._looking
        return await asyncio.get_running_loop().run_in_executor(executor, do)

    async def close(self) -> None:
        """Finish the change under way; nothing else is."""
        for executor in (self._changing, self._looking):
            await asyncio.to_thread(partial(executor.shutdown, cancel_futures=True))

    async def answer(self, request: HttpRequest) -> HttpAnswer:
        """One request. What goes wrong is `{"error": ...}` with a status."""
        try:
            _check_sender(request)
            if request.path == DOCUMENT:
                return _answer(200, document(ROUTES, DOCUMENTED))
            route, names = find_route(ROUTES, PREFIX, request)
            body = self._body(route, request)
            call = Call(request, names, read_query(request.query, route.parameters), body)
            found = await route.handle(self._parts, call)
            return found if isinstance(found, HttpAnswer) else _answer(200, self._about() | found)
        except Refused as refused:
            whole = self._about() | {"error": refused.text}
            return _answer(refused.status, whole, refused.headers)
        except tuple(STATUSES) as error:
            status = next(code for kind, code in STATUSES.items() if isinstance(error, kind))
            return _answer(status, self._about() | {"error": str(error)})

    async def no_path(self, _: HttpRequest) -> HttpAnswer:
        """One that is not under `PREFIX`."""
        line = f"no such path: those of the control begin with {PREFIX}"
        return _answer(404, self._about() | {"error": line})

    def _about(self) -> Object:
        return {"cluster": self._broker.cluster_id}

    # Any: JSON.
    def _body(self, route: Route, request: HttpRequest) -> Mapping[str, Any]:
        """Of a change; may be left out where it has no field that must be there."""
        if route.method == "GET":
            return {}
        if not request.body and route.method == "DELETE":
            return {}
        schema = self._schemas[route.body]
        body = read_body(request, (), "")
        check(body, schema, self._schemas)
        return body


def _check_sender(request: HttpRequest) -> None:
    """No page of a browser may ask: it has an Origin header, or another name for this machine."""
    check_host(request, (), "")
    if request.headers.get("Origin"):
        raise Refused(403, "the control port is not for pages of a browser: send no Origin header")


def _answer(status: int, whole: Object, headers: Mapping[str, str] | None = None) -> HttpAnswer:
    return HttpAnswer(status, json.dumps(whole).encode() + b"\n", headers=headers or {})
