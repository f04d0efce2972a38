"""The second opinion: the message classes of kafka-python 3, made from Kafka's own definitions."""

import json
import re
import uuid
from importlib import import_module, resources
from typing import Any

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


def definition(name: str) -> dict[str, Any]:
    """Kafka's JSON definition of a message, as kafka-python ships it."""
    folder = resources.files("kafka.protocol.schemas.resources")
    text = (folder / f"{name}.json").read_text()
    return json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))


def oracle_class(name: str) -> Any:
    """kafka-python's class of that name."""
    for module in map(import_module, MODULES):
        if hasattr(module, name):
            return getattr(module, name)
    raise LookupError(name)


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
