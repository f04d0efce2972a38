"""Finds where a message names groups, topics, partitions and members, and where it has error codes,
from the message classes.

A message is a chain of levels: the message, the items of one of its arrays, the items of an array
in those, and so on. OffsetFetch version 8 has four: request, groups, topics, partitions.
"""

from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Any, Final, NamedTuple

from groupkeeper.protocol.message import Field, fields_in, layout_of
from groupkeeper.protocol.types import ArrayOf, StructOf, WireType


class Kind(Enum):
    """A kind of name in a message; the values are the parameter names of rules."""

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
"""Fields that hold a name."""

_BARE: Final[Mapping[str, Kind]] = {
    "groups": Kind.GROUP,
    "groups_names": Kind.GROUP,
    "coordinator_keys": Kind.GROUP,
    "topic_names": Kind.TOPIC,
    "partitions": Kind.PARTITION,
    "partition_indexes": Kind.PARTITION,
}
"""Arrays of plain names instead of structs."""

_ARRAYS: Final = frozenset(
    "topics topic_data groups members partitions partition_data resources responses results "
    "coordinators partition_responses transaction_states creations filters filter_results "
    "upsertions".split()
)
"""Arrays of structs that form a level. Other arrays are plain content. A level of a request and the
one at the same depth of its response name the same: groups, topics, partitions or members."""


class Level(NamedTuple):
    """One level of a message."""

    cls: type | None
    """Class of the items; None if the items are plain names."""
    array: str | None
    """The array field of the level above; None for the message itself."""
    kinds: Mapping[str, Kind]
    """Fields that hold a name; the key is "" if the items are plain names."""
    fields: frozenset[str]
    """All fields of this version."""

    @property
    def has_error(self) -> bool:
        """Whether an item has an error code."""
        return "error_code" in self.fields


@cache
def levels_of(cls: type, version: int) -> tuple[Level, ...]:
    """Return the levels of a message class, the message itself first."""
    return (*_levels(cls, None, version),)


@cache
def answer_levels_of(request: type, version: int) -> tuple[Level, ...]:
    """Return the levels of a request's response, down to the last one with an error code."""
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
        # `name` and similar fields hold topics only inside arrays.
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
    """The names held by an item and the levels above it. None: neither has such a name."""

    group: str | None = None
    topic: str | None = None
    """Topic name, or the topic id in hexadecimal if it is unknown."""
    partition: int | None = None
    member: tuple[str | None, ...] | None = None
    """Member id and instance id."""


# Any: messages of any class, or ids.
def named(item: Any, level: Level, around: Named, topics_by_id: Mapping[bytes, Any]) -> Named:
    """Return the names of an item, including those of the levels above (`around`)."""
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
