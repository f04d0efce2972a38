"""Answers requests under `/api/v1`: finds the route, checks the parameters, encodes the answer."""

from contextlib import nullcontext

from groupkeeper.observe.http_exchange import HttpAnswer, HttpRequest, json_line
from groupkeeper.web.encoding import encoded
from groupkeeper.web.openapi import DOCUMENTED, PREFIX, document
from groupkeeper.web.parameters import read_query
from groupkeeper.web.parts import Call, Object, Parts, Refused
from groupkeeper.web.route import DOCUMENT, find_route
from groupkeeper.web.routes import ROUTES


class Api:
    """The API of one server."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def close(self) -> None:
        """The server stops."""
        self._parts.history.close()

    async def answer(self, request: HttpRequest) -> HttpAnswer:
        """One request. What goes wrong is `{"error": ...}` with a status."""
        try:
            if request.path == DOCUMENT:
                return await self._found(document(ROUTES, DOCUMENTED))
            route, names = find_route(ROUTES, PREFIX, request)
            call = Call(request, names, read_query(request.query, route.parameters))
            async with self._parts.reading if route.reads_events else nullcontext():
                found = await route.handle(self._parts, call)
                if isinstance(found, HttpAnswer):
                    return found
                return await self._found(self._parts.about() | found)
        except Refused as refused:
            whole = self._parts.about() | {"error": refused.text} | refused.fields
            return HttpAnswer(refused.status, json_line(whole), headers=refused.headers)

    async def _found(self, whole: Object) -> HttpAnswer:
        return HttpAnswer(200, await self._parts.turns.run(encoded(whole)))
