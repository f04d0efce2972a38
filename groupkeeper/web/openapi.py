"""Generates the OpenAPI document of an API from its routes and schemas."""

import re
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from groupkeeper import __version__
from groupkeeper.observe.http_exchange import JSON
from groupkeeper.web.json_schema import Schema, ref
from groupkeeper.web.route import PLACE_PATTERN, Route
from groupkeeper.web.schemas import schemas

PREFIX: Final = "/api/v1/"
_STREAM: Final = "text/event-stream"


class Documented(NamedTuple):
    """An API's title, description and schemas for its OpenAPI document."""

    prefix: str
    title: str
    about: str
    schemas: Callable[[], dict[str, Schema]]
    takes_tokens: bool = False
    """Whether requests may need a bearer token."""


DOCUMENTED: Final = Documented(
    PREFIX,
    "Groupkeeper",
    "Consumer groups, and why they rebalanced. Times (`..._ms`) are Unix milliseconds, durations"
    " milliseconds. Fields may be added.",
    schemas,
    takes_tokens=True,
)
_TOKEN: Final = {
    "type": "http",
    "scheme": "bearer",
    "description": "Needed if the server has `http.tokens.file`; the role `write` is for changes.",
}


def document(routes: Iterable[Route], documented: Documented) -> dict[str, Any]:
    """Return the OpenAPI document. Any: JSON."""
    paths: dict[str, dict[str, Any]] = {}
    statuses = {400, 401} if documented.takes_tokens else {400}
    for route in routes:
        where = paths.setdefault(documented.prefix + route.path, {})
        where[route.method.lower()] = _operation(route, statuses)
    components: dict[str, Any] = {"schemas": documented.schemas()}
    security: dict[str, Any] = {}
    if documented.takes_tokens:
        components["securitySchemes"] = {"token": _TOKEN}
        security = {"security": [{}, {"token": []}]}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": documented.title,
            "version": __version__,
            "description": documented.about,
        },
        "paths": paths,
        "components": components,
    } | security


def _operation(route: Route, statuses: set[int]) -> dict[str, Any]:
    names = re.findall(r"{(\w+)}", route.path)
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in names
    ]
    parameters += [
        {"name": each.name, "in": "query", "description": each.about, "schema": each.schema()}
        for each in route.parameters.values()
    ]
    if not route.answer:
        schema = {"type": "string", "pattern": PLACE_PATTERN}
        about = "`id` of the last event received; the stream continues after it."
        header = {"name": "Last-Event-ID", "in": "header", "description": about}
        parameters.append(header | {"schema": schema})
    errors = {str(each): _error(each) for each in sorted({*statuses, *route.statuses})}
    body = {}
    if route.body:
        content = {JSON: {"schema": ref(route.body)}}
        body = {"requestBody": {"required": True, "content": content}}
    return body | {
        "operationId": route.handle.__name__,
        "summary": route.about,
        "parameters": parameters,
        "responses": {"200": _found(route)} | errors,
    }


def _found(route: Route) -> dict[str, Any]:
    if not route.answer:
        about = "`id` is EPOCH.SEQ, `data` an event; a comment after every 15 s without events."
        return {"description": about, "content": {_STREAM: {"schema": {"type": "string"}}}}
    return {"description": "OK.", "content": {JSON: {"schema": ref(route.answer)}}}


def _error(status: int) -> dict[str, Any]:
    schema: Schema = ref("Error")
    phrase = HTTPStatus(status).phrase
    return {"description": f"{phrase}.", "content": {JSON: {"schema": schema}}}
