"""The second opinion: the message classes of kafka-python 3, made from Kafka's own definitions.

Messages that kafka-python does not have are made by it from those in `definitions/`, which are
Apache Kafka 4.1's.
"""

import uuid
from functools import cache
from importlib import import_module
from pathlib import Path
from types import new_class
from typing import Any

from kafka.protocol.api_message import ApiMessage
from kafka.protocol.schemas import load_json

from groupkeeper.protocol.message import fields_in, layout_of
from groupkeeper.protocol.types import ArrayOf, Fixed, StructOf, WireType

MODULES = (
    "kafka.protocol.metadata",
    "kafka.protocol.consumer",
    "kafka.protocol.producer",
    "kafka.protocol.admin",
)

# Fields that kafka-python calls otherwise than Kafka does, in most messages.
RENAMED = {
    "cluster_authorized_operations": "authorized_operations",
    "topic_authorized_operations": "authorized_operations",
}


DEFINITIONS = Path(__file__).parent / "definitions"


def definition(name: str) -> dict[str, Any]:
    """Kafka's JSON definition of a message."""
    return load_json(name, _package(name))


def _package(name: str) -> str | None:
    """Where the definition is; None for kafka-python's own."""
    return "tests.support.definitions" if (DEFINITIONS / f"{name}.json").exists() else None


@cache
def oracle_class(name: str) -> Any:
    """kafka-python's class of that name."""
    for module in map(import_module, MODULES):
        if hasattr(module, name):
            return getattr(module, name)
    return new_class(name, (ApiMessage,), {"load_json": _package(name)})


def oracle_body(message: object, version: int) -> bytes:
    """The body of the message in the version, as kafka-python encodes it."""
    cls = oracle_class(layout_of(type(message)).name)
    return bytes(cls(**_values(message, version, cls)).encode(version=version))


def _values(message: object, version: int, cls: Any) -> dict[str, Any]:
    values = {}
    plain, tagged = fields_in(type(message), version)
    for field in plain + tagged:
        value = getattr(message, field.name)
        # kafka-python would send a tagged field that holds an empty list or the zero id.
        if field.tag is None or value not in (None, [], bytes(16)):
            name = RENAMED.get(field.name, field.name)
            name = name if name in cls._struct.fields else field.name
            values[name] = _value(field.type, value, version, cls._struct.fields[name])
    return values


def _value(kind: WireType, value: Any, version: int, field: Any) -> Any:
    match kind:
        case ArrayOf(item=StructOf()) if value is not None:
            part = field.data_class
            return [part(version=version, **_values(item, version, part)) for item in value]
        case StructOf() if value is not None:
            return field.data_class(version=version, **_values(value, version, field.data_class))
        case Fixed(name="uuid"):
            return uuid.UUID(bytes=value)
        case Fixed(name="int32") if field.name in RENAMED.values():
            return {bit for bit in range(32) if value >> bit & 1}  # kafka-python's own view of it
        case _:
            return value
