"""Words that the JSON Schemas of HTTP APIs are made of."""

from typing import Any, Final

# Any: JSON Schema.
Schema = dict[str, Any]

TEXT: Final[Schema] = {"type": "string"}
NUMBER: Final[Schema] = {"type": "integer"}
FLAG: Final[Schema] = {"type": "boolean"}
OBJECT: Final[Schema] = {"type": "object"}


def told(schema: Schema, about: str) -> Schema:
    return schema | {"description": about}


def or_null(schema: Schema) -> Schema:
    if "$ref" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    return schema | {"type": [schema["type"], "null"]}


def array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def record(**properties: Schema) -> Schema:
    """Return the schema of an object with these properties, all required."""
    return {"type": "object", "properties": properties, "required": [*properties]}
