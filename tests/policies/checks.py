"""The checks of policies with real clients: a table."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.policies.clients import Client
from tests.policies.party import Party


@dataclass(frozen=True, slots=True)
class Check:
    """`number`: in the order of the table; `begin` plays it, and raises if something is not so."""

    number: str
    name: str
    client: Client
    begin: Callable[[Party], None]
    configs: Mapping[str, str] = field(default_factory=dict)
    """Of the group."""
    group: str | None = None
    """Its name, where clients choose it."""
    cable: bool = False
    """Whether clients come from several hosts."""

    @property
    def key(self) -> str:
        return f"{self.number} {self.name}, {self.client.name}"

    def party(self, folder: Path) -> Party:
        """What it is played with."""
        return Party(self.client, folder, self.configs, group=self.group, cable=self.cable)


CHECKS: Final[list[Check]] = []


def check(
    number: str,
    name: str,
    *clients: Client,
    configs: Mapping[str, str] | None = None,
    group: str | None = None,
    cable: bool = False,
) -> Callable[[Callable[[Party], None]], Callable[[Party], None]]:
    """Add a check for each of these clients."""

    def add(begin: Callable[[Party], None]) -> Callable[[Party], None]:
        CHECKS.extend(
            Check(number, name, each, begin, configs or {}, group, cable) for each in clients
        )
        return begin

    return add
