"""Topic names: which are legal, which collide, and which are reserved.

Independent of the catalog, that is, of existing topics.
Source: Kafka's `org.apache.kafka.common.internals.Topic`.
"""

import re
from typing import Final

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.group_events import TOPIC as EVENTS
from groupkeeper.topics.refusals import Refusal

GROUP_TOPIC: Final = "__consumer_offsets"
"""The group coordinator's log, visible to clients as an internal topic."""

EVENT_TOPIC: Final = EVENTS
"""The log of group events. A group has the same partition number in both topics."""

RESERVED: Final = frozenset({GROUP_TOPIC, EVENT_TOPIC})
"""Names that clients may neither create, delete nor produce to."""

MAX_LENGTH: Final = 249
"""A folder is called `<topic>-<partition>`, and file systems permit names of 255 bytes."""

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def check_name(name: str) -> Refusal | None:
    """Return why a name is illegal, or None. Call this before a name reaches the file system."""
    if not name:
        return _illegal("the empty string is not allowed")
    if name in (".", ".."):
        return _illegal(f"'{name}' is not allowed")
    if len(name) > MAX_LENGTH:
        return _illegal(
            f"the length of '{name}' is longer than the max allowed length {MAX_LENGTH}"
        )
    if _LEGAL.fullmatch(name) is None:
        return _illegal(
            f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' "
            "and '-'"
        )
    return None


def _illegal(reason: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")


def collision_key(name: str) -> str:
    """Return a key that is equal for colliding names: Kafka's metric names turn '.' into '_'."""
    return name.replace(".", "_")
