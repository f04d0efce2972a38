"""A finding, and what it is made of."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

# Any: the values of a row have the types of its answer.
Row = dict[str, Any]

CRITICAL, HIGH, MEDIUM, LOW, INFO = "critical", "high", "medium", "low", "info"
SEVERITIES: Final = (CRITICAL, HIGH, MEDIUM, LOW, INFO)
"""The worst first."""


@dataclass(frozen=True, slots=True)
class Finding:
    """`row` is the row of the answer that it is about, or the first of them."""

    severity: str
    sentence: str
    row: Row
    cost_s: float | None = None
    setting: Row = field(default_factory=dict)
    """`config_key`, `now` and `proposed`."""
    kind: str | None = None
    """What findings about one group and setting differ in that are not to be told as one."""
    session_ms: int = 0
    """The `session.timeout.ms` that its advice asks for; 0: none."""
    times: int = 1
    """How many findings it was before."""


Answers = Mapping[str, Sequence[Row]]
"""Question -> rows of its answer; times are Unix milliseconds."""
Finder = Callable[[Answers], Iterator[Finding]]
"""What is worth a finding in one answer; it may look at others."""


def grouped(rows: Iterable[Row], *columns: str) -> list[list[Row]]:
    """Rows with equal values of these columns."""
    found: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        found[tuple(row[each] for each in columns)].append(row)
    return [*found.values()]


def name_of(row: Row) -> str | None:
    """A client in one word, that stays the same over its restarts if it can."""
    return row.get("instance") or row.get("client_id")
