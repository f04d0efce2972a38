"""Where requests name groups, topics, partitions and members, and where answers have errors for
them: read from the classes of the messages.

A message is a chain of levels: itself, then the items of an array in it, then those of an array in
these. OffsetFetch version 8 has four: the request, groups, topics, partitions.
"""

from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Any, Final, NamedTuple

from groupkeeper.protocol.message import Field, fields_in, layout_of
from groupkeeper.protocol.types import ArrayOf, StructOf, WireType


class Kind(Enum):
    """What can be named; the values are the arguments of rules."""

    GROUP = "group"
    TOPIC = "topic"
    PARTITION = "partition"
    MEMBER = "member"

    __hash__ = object.__hash__


TOPIC_RESOURCE: Final = 2
"""Type of a config resource. Source: Kafka's `ConfigResource.Type`."""

_NAMES: Final[Mapping[str, Kind]] = {
    "group_id": Kind.GROUP,
    "key": Kind.GROUP,
    "name": Kind.TOPIC,
    "topic": Kind.TOPIC,
    "topic_name": Kind.TOPIC,
    "topic_id": Kind.TOPIC,
    "resource_name": Kind.TOPIC,
    "partition": Kind.PARTITION,
    "partition_index": Kind.PARTITION,
    "index": Kind.PARTITION,
    "member_id": Kind.MEMBER,
    "group_instance_id": Kind.MEMBER,
    "instance_id": Kind.MEMBER,
}
"""Fields that name something."""

_BARE: Final[Mapping[str, Kind]] = {
    "groups": Kind.GROUP,
    "groups_names": Kind.GROUP,
    "coordinator_keys": Kind.GROUP,
    "topic_names": Kind.TOPIC,
    "partitions": Kind.PARTITION,
    "partition_indexes": Kind.PARTITION,
}
"""Arrays of ids, without structs around them."""

_ARRAYS: Final = frozenset(
    "topics topic_data groups members partitions partition_data resources responses results "
    "coordinators partition_responses transaction_states".split()
)
"""Arrays of structs that name something. Others are the content of a request."""


class Level(NamedTuple):
    """One level of a message."""

    cls: type | None
    """Of its items; None: they are ids."""
    array: str | None
    """The field of the level above that has the items; None: the message itself."""
    kinds: Mapping[str, Kind]
    """Its fields that name something; of ids, "" does."""
    fields: frozenset[str]
    """All fields of this version."""

    @property
    def has_error(self) -> bool:
        """Whether an item can say what went wrong."""
        return "error_code" in self.fields


@cache
def levels_of(cls: type, version: int) -> tuple[Level, ...]:
    """The levels of a message's class, the message itself first."""
    return (*_levels(cls, None, version),)


@cache
def answer_levels_of(request: type, version: int) -> tuple[Level, ...]:
    """The levels of the answer to a request, down to the last one that has errors."""
    response = layout_of(request).response
    assert response is not None, "of a request"
    levels = levels_of(response, version)
    last = max(at for at, level in enumerate(levels) if level.has_error)
    return levels[: last + 1]


def _levels(cls: type, array: str | None, version: int) -> list[Level]:
    plain, in_tags = fields_in(cls, version)
    fields = [*plain, *in_tags]
    kinds = {field.name: _NAMES[field.name] for field in fields if field.name in _NAMES}
    if array is None:
        # `name` and the like are those of topics only in arrays.
        kinds = {name: kind for name, kind in kinds.items() if kind is not Kind.TOPIC}
    level = Level(cls, array, kinds, frozenset(field.name for field in fields))
    below = (_below(field, version) for field in fields)
    return [level, *next((each for each in below if each), [])]


def _below(field: Field, version: int) -> list[Level]:
    item = _item(field.type)
    if isinstance(item, StructOf):
        return _levels(item.cls, field.name, version) if field.name in _ARRAYS else []
    if item is None or field.name not in _BARE:
        return []
    return [Level(None, field.name, {"": _BARE[field.name]}, frozenset())]


def _item(kind: WireType) -> WireType | None:
    return kind.item if isinstance(kind, ArrayOf) else None


class Named(NamedTuple):
    """What an item, and those around it, name. None: this is not said at its level or above."""

    group: str | None = None
    topic: str | None = None
    """Its name; the id in hexadecimal digits if no topic has the id."""
    partition: int | None = None
    member: tuple[str | None, ...] | None = None
    """Member id and instance id."""


# Any: messages of any class, or ids.
def named(item: Any, level: Level, around: Named, topics_by_id: Mapping[bytes, Any]) -> Named:
    """What an item of a level names, within those around it."""
    found: dict[str, Any] = {}
    for name, kind in level.kinds.items():
        value = getattr(item, name) if name else item
        if name == "topic_id":
            if any(value) and not found.get("topic"):
                topic = topics_by_id.get(value)
                found["topic"] = value.hex() if topic is None else topic.name
        elif name == "resource_name" and item.resource_type != TOPIC_RESOURCE:
            continue
        elif kind is Kind.MEMBER:
            found["member"] = (*found.get("member", ()), value)
        elif value is not None and kind.value not in found:
            found[kind.value] = value
    return around._replace(**found)
