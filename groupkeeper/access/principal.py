"""Principals, as Kafka writes them: `User:alice`.

Source: Kafka's `KafkaPrincipal`, `SecurityUtils.parseKafkaPrincipal`.
"""

from typing import Final, NamedTuple

USER: Final = "User"
"""The only type of principal that brokers make by themselves."""


class Principal(NamedTuple):
    """A sender of requests, or the subject of an ACL."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


def parse_principal(text: str) -> Principal:
    """Parse `Type:name`; the name may have colons. Raises ValueError with a message."""
    kind, colon, name = text.partition(":")
    if not kind or not colon or not name:
        raise ValueError(f"{text!r} is not Type:name, such as User:alice")
    return Principal(kind, name)
