"""Messages as aiokafka Schemas: the same layout in the schema language of aiokafka.

The product's compiler works from the layout itself; aiokafka's interpreter on these Schemas is a
second opinion on its bytes. What aiokafka lacks or has wrong (uuid, uint16, the size in front of a
tagged field) is supplied here with the same interface. Its types know no difference between
nullable and not nullable.
"""

from struct import Struct
from typing import Any, Protocol

from aiokafka.protocol import types as aiokafka_types

from groupkeeper.protocol.message import fields_in, layout_of
from groupkeeper.protocol.types import ArrayOf, Fixed, Sized, StructOf, WireType
from groupkeeper.protocol.wire import write_tags

# Any: aiokafka is not typed for us, and a Schema's values are whatever its fields hold.
_FIXED: dict[str, Any] = {
    "bool": aiokafka_types.Boolean,
    "int8": aiokafka_types.Int8,
    "int16": aiokafka_types.Int16,
    "int32": aiokafka_types.Int32,
    "int64": aiokafka_types.Int64,
}


class Readable(Protocol):
    """Where aiokafka's types read from, such as a BytesIO."""

    def read(self, size: int, /) -> bytes: ...


class PackedType:
    """A value of fixed width that aiokafka has no type for."""

    def __init__(self, code: str) -> None:
        self._struct = Struct(">" + code)

    def encode(self, value: object) -> bytes:
        return self._struct.pack(value)

    def decode(self, data: Readable) -> object:
        return self._struct.unpack(data.read(self._struct.size))[0]


class MarkedSchema:
    """A struct behind an int8 that says whether it is there."""

    def __init__(self, schema: aiokafka_types.Schema) -> None:
        self._schema = schema

    def encode(self, value: object) -> bytes:
        return b"\xff" if value is None else b"\x01" + self._schema.encode(value)

    def decode(self, data: Readable) -> object:
        there = data.read(1) == b"\x01"
        return self._schema.decode(data) if there else None


class SizedTags:
    """A tag buffer with the size before each value, which aiokafka's own forgets to write."""

    def encode(self, value: dict[int, bytes]) -> bytes:
        return write_tags(sorted(value.items()))

    def decode(self, data: Readable) -> dict[int, bytes]:
        tags: dict[int, bytes] = aiokafka_types.TaggedFields.decode(data)
        return tags


def schema_of(cls: type, version: int) -> aiokafka_types.Schema:
    """The aiokafka Schema of a message class in a version; tagged fields as one field `tags`."""
    return _schema(cls, version, layout_of(cls).is_flexible(version))


def _schema(cls: type, version: int, flexible: bool) -> aiokafka_types.Schema:
    plain, _ = fields_in(cls, version)
    fields = [(field.name, _type(field.type, version, flexible)) for field in plain]
    if flexible:
        fields.append(("tags", SizedTags()))
    return aiokafka_types.Schema(*fields)


def _type(kind: WireType, version: int, flexible: bool) -> Any:  # Any: one of aiokafka's types
    match kind:
        case Fixed():
            return _FIXED.get(kind.name) or PackedType(kind.code)
        case Sized(is_text=True):
            return aiokafka_types.CompactString() if flexible else aiokafka_types.String()
        case Sized():
            return aiokafka_types.CompactBytes if flexible else aiokafka_types.Bytes
        case ArrayOf():
            array = aiokafka_types.CompactArray if flexible else aiokafka_types.Array
            return array(_type(kind.item, version, flexible))
        case StructOf():
            schema = _schema(kind.cls, version, flexible)
            return MarkedSchema(schema) if kind.nullable else schema


def values_of(
    message: object, version: int, tags: dict[int, bytes] | None = None
) -> tuple[object, ...]:
    """The message as the nested tuples of its Schema, with `tags` in the tag buffer of each struct.

    Tagged fields of the message itself are not among the values.
    """
    flexible = layout_of(type(message)).is_flexible(version)
    return _values(message, version, (tags or {}) if flexible else None)


def _values(message: object, version: int, tags: dict[int, bytes] | None) -> tuple[object, ...]:
    plain, _ = fields_in(type(message), version)
    values = [_plain(field.type, getattr(message, field.name), version, tags) for field in plain]
    return tuple(values) if tags is None else (*values, tags)


def _plain(kind: WireType, value: object, version: int, tags: dict[int, bytes] | None) -> object:
    if isinstance(kind, StructOf) and value is not None:
        return _values(value, version, tags)
    if isinstance(kind, ArrayOf) and isinstance(value, list):
        return [_plain(kind.item, item, version, tags) for item in value]
    return value
