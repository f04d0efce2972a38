"""Reads and checks the body of a request that changes something.

A web page of another origin cannot make a browser send such a request: the body must be JSON, and
the port checks the Host header of every request (decision 008).
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from groupkeeper.observe.http_exchange import JSON, HttpRequest, media_type
from groupkeeper.web.parts import HttpRefused


# Any: JSON.
def read_body(request: HttpRequest) -> Mapping[str, Any]:
    """Return the JSON object in the body. Raises HttpRefused."""
    if media_type(request.headers) != JSON:
        raise HttpRefused(415, f"send the body with Content-Type: {JSON}")
    try:
        body = json.loads(request.body)
    except (ValueError, RecursionError):
        raise HttpRefused(400, "the body is not JSON: send an object") from None
    if not isinstance(body, dict):
        raise HttpRefused(400, "the body is not a JSON object: send one")
    return body


_TYPES: Final[Mapping[str, type | tuple[type, ...]]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}
_LIMITS: Final[Mapping[type, tuple[str, str, str]]] = {
    str: ("minLength", "maxLength", " characters"),
    int: ("minimum", "maximum", ""),
    float: ("minimum", "maximum", ""),
    list: ("minItems", "maxItems", " items"),
    dict: ("minProperties", "maxProperties", " fields"),
}
"""JSON Schema keywords for the minimum and maximum of a value, or of its size with a unit."""


# Any: JSON, and the subset of JSON Schema used by our schemas.
def check(value: Any, schema: Mapping[str, Any], schemas: Mapping[str, Any], at: str = "") -> None:
    """Raise HttpRefused with one line that names the field, unless the value fits the schema."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    if "type" in schema and not _is(value, schema["type"]):
        kinds = schema["type"]
        named = kinds if isinstance(kinds, str) else " or ".join(kinds)
        raise HttpRefused(400, f"{_what(at)} is not of type {named}{_told(schema)}")
    if "enum" in schema and value not in schema["enum"]:
        raise HttpRefused(400, f"{_what(at)} is {value!r}: give one of {', '.join(schema['enum'])}")
    if "pattern" in schema and isinstance(value, str) and not re.search(schema["pattern"], value):
        raise HttpRefused(400, f"{_what(at)} is {value[:100]!r}{_told(schema)}")
    if type(value) in _LIMITS:
        _check_limits(value, schema, at)
    if isinstance(value, list):
        items = schema.get("items", {})
        for number, each in enumerate(value):
            check(each, items, schemas, f"{at}[{number}]")
    elif isinstance(value, dict) and "properties" in schema:
        _check_fields(value, schema, schemas, at)


def _is(value: Any, kind: str | list[str]) -> bool:
    if not isinstance(kind, str):
        return any(_is(value, each) for each in kind)
    return isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _what(at: str) -> str:
    return f"'{at}'" if at else "the body"


def _told(schema: Mapping[str, Any]) -> str:
    return f": {schema['description']}" if "description" in schema else ""


def _check_limits(value: Any, schema: Mapping[str, Any], at: str) -> None:
    low, high, unit = _LIMITS[type(value)]
    size = len(value) if unit else value
    if schema.get(low, size) <= size <= schema.get(high, size):
        return
    least, most = schema.get(low, 0), schema.get(high)
    wanted = f"{least} or more" if most is None else f"{least} to {most}"
    line = f"{_what(at)} {'has' if unit else 'is'} {size}{unit}: give {wanted}"
    raise HttpRefused(400, f"{line}{_told(schema)}")


def _check_fields(
    value: Mapping[str, Any], schema: Mapping[str, Any], schemas: Mapping[str, Any], at: str
) -> None:
    known, inside = schema["properties"], f"{at}." if at else ""
    for name in value:
        if name not in known:
            offer = f"give {', '.join(known)}" if known else "give none"
            raise HttpRefused(400, f"unknown field '{inside}{name[:100]}': {offer}")
    for name in schema.get("required", ()):
        if name not in value:
            raise HttpRefused(400, f"'{inside}{name}' is missing{_told(known[name])}")
    for name, each in value.items():
        check(each, known[name], schemas, f"{inside}{name}")
