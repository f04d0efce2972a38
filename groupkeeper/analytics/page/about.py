"""What a report says of itself: what was read, when, with what choice."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from groupkeeper.analytics.history.schemas import Column


class Described(Protocol):
    """What a table of answers means: the questions of an analysis have this form."""

    @property
    def title(self) -> str: ...

    @property
    def meaning(self) -> str:
        """One sentence: what to look for."""

    @property
    def columns(self) -> tuple[Column, ...]: ...


@dataclass(frozen=True, slots=True)
class About:
    """`questions` describes tables that are not among those of `history.schemas`."""

    paths: Sequence[str]
    made: datetime
    """With a time zone."""
    version: str
    """Of Groupkeeper."""
    records: int | None = None
    read_bytes: int | None = None
    choice: str = ""
    """Options that leave something out: `--since 2d --group billing`."""
    damage: Sequence[str] = ()
    """One sentence each; nothing if the log is sound."""
    not_known: Sequence[str] = ()
    """What the tables say nothing about, and why, one sentence each."""
    questions: Mapping[str, Described] = field(default_factory=dict)
