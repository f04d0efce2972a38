"""What a report says of itself: what was read, when, with what choice."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from groupkeeper.analytics.questions.question import Question


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
    questions: Mapping[str, Question] = field(default_factory=dict)
