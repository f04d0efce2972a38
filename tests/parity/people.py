"""Who speaks in a transcript, what a client remembers, and the words of a command.

What is made of the words is in commands.py.
"""

from dataclasses import dataclass, field
from typing import Any

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.registry import APIS
from tests.parity.names import RunNames

KEYS = {api.name: key for key, api in APIS.items()}

SHARED_TOPICS = {"orders": 4, "payments": 4, "refunds": 2}
"""Name and number of partitions of the topics that every broker has."""


def names_of(prefix: str, port: int) -> RunNames:
    """Of one run."""
    return RunNames(prefix, port, SHARED_TOPICS)


AGES = {
    ApiKey.JOIN_GROUP: (0, 1, 2, 3, 4, 5, 6, 7, 8, 9),
    ApiKey.SYNC_GROUP: (0, 0, 1, 2, 2, 3, 4, 5, 5, 5),
    ApiKey.HEARTBEAT: (0, 0, 1, 2, 2, 3, 4, 4, 4, 4),
    ApiKey.LEAVE_GROUP: (0, 0, 1, 2, 2, 3, 4, 4, 5, 5),
    ApiKey.OFFSET_COMMIT: (2, 2, 3, 4, 6, 7, 8, 8, 8, 9),
    ApiKey.OFFSET_FETCH: (1, 1, 3, 4, 5, 5, 6, 7, 8, 9),
}
"""The version that a client sends whose newest JoinGroup is the index, by Kafka's releases."""


@dataclass(slots=True)
class Person:
    """Somebody who speaks, and what a client remembers between requests."""

    name: str
    age: int | None = None
    member_id: str = ""
    generation: int = -1
    protocols: str = "range:orders"
    session: str = "30s"
    rebalance: str = "30s"
    followers: list[str] = field(default_factory=list)
    """Member ids that the last JoinGroup response listed: not empty for a leader."""

    @property
    def instance_id(self) -> str | None:
        return self.name if self.name.isupper() else None


@dataclass(slots=True)
class Request:
    """What a command sends: through whose connection, and as what."""

    who: str
    person: Person
    key: int
    version: int
    message: Any = None
    raw: bytes | None = None
    client_id: str | None = ""


class Words:
    """The options of a command, each of which must be known."""

    def __init__(self, words: list[str]) -> None:
        self.plain = [word for word in words if "=" not in word or word.startswith("{")]
        pairs = (word.partition("=") for word in words if word not in self.plain)
        self.options: dict[str, str] = {name: value for name, _, value in pairs}

    def take(self, name: str, default: Any = None) -> Any:
        """A text; `null` is None and `''` is empty."""
        value = self.options.pop(name, default)
        return {"null": None, "''": ""}.get(value, value) if isinstance(value, str) else value

    def number(self, name: str, default: int) -> int:
        return int(self.options.pop(name, default))


def milliseconds(text: str) -> int:
    """`250ms`, `1.5s` or `2min`."""
    for unit, size in (("ms", 1), ("min", 60_000), ("s", 1_000)):
        if text.endswith(unit):
            return int(float(text.removesuffix(unit)) * size)
    raise ValueError(f"not a time: {text}")
