"""Checks a body against its schema in the document: the part of JSON Schema that is used there."""

from collections.abc import Mapping
from typing import Any, Final

from groupkeeper.web.parts import Refused

_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


# Any: JSON, and JSON Schema.
def check(value: Any, schema: Mapping[str, Any], schemas: Mapping[str, Any], at: str = "") -> None:
    """Raises Refused with one line that names the field, unless the value fits the schema."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    what = f"'{at}'" if at else "the body"
    kinds = schema.get("type", [*_TYPES])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if not any(_is(value, kind) for kind in kinds):
        raise Refused(400, f"{what} is no {' or '.join(kinds)}{_told(schema)}")
    if "enum" in schema and value not in schema["enum"]:
        raise Refused(400, f"{what} is {value!r}: give one of {', '.join(schema['enum'])}")
    if isinstance(value, int | float) and not isinstance(value, bool):
        _check_limits(value, schema, what)
    if isinstance(value, list):
        for number, each in enumerate(value):
            check(each, schema.get("items", {}), schemas, f"{at}[{number}]")
    if isinstance(value, dict) and "properties" in schema:
        _check_fields(value, schema, schemas, at)


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _TYPES[kind])


def _told(schema: Mapping[str, Any]) -> str:
    return f": {schema['description']}" if "description" in schema else ""


def _check_limits(value: float, schema: Mapping[str, Any], what: str) -> None:
    least, most = schema.get("minimum", value), schema.get("maximum", value)
    if not least <= value <= most:
        wanted = f"{least} or more" if "maximum" not in schema else f"{least} to {most}"
        raise Refused(400, f"{what} is {value}: give {wanted}")


def _check_fields(
    value: Mapping[str, Any], schema: Mapping[str, Any], schemas: Mapping[str, Any], at: str
) -> None:
    known, inside = schema["properties"], f"{at}." if at else ""
    for name in value:
        if name not in known:
            offer = f"give {', '.join(known)}" if known else "give none"
            raise Refused(400, f"unknown field '{inside}{name[:100]}': {offer}")
    for name in schema.get("required", ()):
        if name not in value:
            raise Refused(400, f"'{inside}{name}' is missing{_told(known[name])}")
    for name, each in value.items():
        check(each, known[name], schemas, f"{inside}{name}")
