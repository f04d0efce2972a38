"""Which topic names are legal, which collide, and which belong to the server.

Not the catalog: nothing here knows which topics exist.
Source: Kafka's ``org.apache.kafka.common.internals.Topic``.
"""

import re
from typing import Final

GROUP_TOPIC: Final = "__consumer_offsets"
"""The group coordinator's log, visible to clients as an internal topic."""

RESERVED: Final = frozenset({GROUP_TOPIC, "__group_events"})
"""Names that clients may neither create, delete nor produce to."""

MAX_LENGTH: Final = 249
"""A folder is called ``<topic>-<partition>``, and 255 bytes is what file systems take."""

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def complaint(name: str) -> str | None:
    """What is wrong with a name, or None. Ask before it gets near the file system."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > MAX_LENGTH:
        return (
            f"Topic name is invalid: the length of '{name}' is longer than the max allowed length "
            f"{MAX_LENGTH}"
        )
    if _LEGAL.fullmatch(name) is None:
        return (
            f"Topic name is invalid: '{name}' contains one or more characters other than "
            "ASCII alphanumerics, '.', '_' and '-'"
        )
    return None


def collision_key(name: str) -> str:
    """Two names with the same key collide: Kafka's metric names turn '.' into '_'."""
    return name.replace(".", "_")
