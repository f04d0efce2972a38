"""A question: one text of SQL, and what its answer means. `registry.ask` asks it.

Texts are in what both engines read: names in double quotes, and the functions of Spark that
`local.MACROS` defines for DuckDB. They read the views of `views`, not the tables themselves.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import takewhile
from typing import Any, Final

import pyarrow as pa

from groupkeeper.analytics.history.schemas import (
    INT,
    LONG,
    REAL,
    TABLES,
    TEXT,
    TEXTS,
    TIME,
    Column,
)

# Any: a pyarrow.Table or a DataFrame of Spark; mypy follows neither.
Frame = Any
Tables = Mapping[str, Frame]
Parameters = Mapping[str, float]

EVIDENCE: Final = 20
"""Maximum number of log offsets that a row names; the first ones."""
SURE: Final = (
    Column("source", TEXT, "`events`; `log` if any of it was inferred from the offsets log."),
    Column("confidence", REAL, "The lowest of the rows that it is made of, 0 to 1."),
    Column("known_from", TIME, "It says nothing about the time before; null: no limit is known."),
)
"""The last columns of every answer."""
GROUP: Final = Column("group", TEXT, "Group id.")
MEMBER: Final = (
    Column("member", TEXT, "Member id."),
    Column("instance", TEXT, "`group.instance.id`; null for a dynamic member."),
    Column("client_id", TEXT, "`client.id`; null if it is not known."),
    Column("host", TEXT, "Address; null if it is not known."),
    Column("software", TEXT, "Name and version of the client library; null if it is not known."),
)
PARTITION: Final = (
    Column("topic", TEXT, "Topic."),
    Column("topic_partition", INT, "Partition of the topic."),
)
PLACE: Final = (
    Column("partition", INT, "Partition of the log in which the evidence is."),
    Column("evidence", pa.list_(LONG), f"Log offsets that say so, the first {EVIDENCE}."),
)
CAUSE: Final = (
    Column("cause", TEXT, "Code of the first cause (docs/events.md); `unknown`: not found."),
    Column("likely", TEXT, "What probably is behind it; null without evidence."),
)
COST: Final = (
    Column("duration_ms", LONG, "Sum of their durations."),
    Column("unowned_ms", LONG, "Sum over partitions of the time without an owner meanwhile."),
)
WHY: Final = (
    Column("silent_ms", LONG, "The longest time since a last request when a session ended."),
    Column("away_ms", LONG, "The longest time until the client came back; null: it did not."),
    Column("session_timeout_ms", LONG, "`session.timeout.ms` of most of these sessions."),
    Column("rebalance_timeout_ms", LONG, "The same for `max.poll.interval.ms`."),
    Column("connection", TEXT, "Of most when they ended: `open` or `closed`; null: unknown."),
)
"""What says which setting to change."""

_READ: Final = re.compile(r"\b(from|join) ([a-z_]+)\b(?!\()")
_PARAMETER: Final = re.compile(r":([a-z_]+)")
_LISTS: Final = (TEXTS, pa.list_(LONG))


@dataclass(frozen=True)
class Question:
    """One question. `meaning` is one sentence: what to look for; `definition` says exactly what a
    row is. Without events it has no answer if `needs_events`. `sql` is empty if a function of
    Python answers it.
    """

    name: str
    title: str
    meaning: str
    definition: str
    columns: tuple[Column, ...]
    """`SURE` included."""
    sources: frozenset[str]
    """Tables, and other questions, that it reads."""
    parameters: Parameters = field(default_factory=dict)
    """Names with defaults."""
    needs_events: bool = False
    sql: str = field(default="", repr=False)

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(each.name, each.type) for each in self.columns])

    @property
    def reads(self) -> tuple[str, ...]:
        return tuple(name for name in TABLES if name in self.sources)

    def text(self, parameters: Parameters) -> str:
        """The text with the values of parameters, which may be of other questions, too."""
        values = {**self.parameters, **parameters}
        return _PARAMETER.sub(lambda found: repr(values[found[1]]), self.sql)

    def table(self, found: pa.Table) -> pa.Table:
        """What the text gave, with the types of the schema; its times are Unix milliseconds."""
        return pa.table({each.name: _cast(found[each.name], each) for each in self.columns})


def _cast(found: pa.ChunkedArray, column: Column) -> pa.ChunkedArray:
    if column.type == TIME:
        return found.cast(pa.int64()).cast(TIME)
    made = found.cast(column.type)
    return made.fill_null(pa.scalar([], column.type)) if column.type in _LISTS else made


def placed(text: str, names: Mapping[str, str]) -> str:
    """A text that reads other relations instead of those of these names."""
    return _READ.sub(lambda found: f"{found[1]} {names.get(found[2], found[2])}", text)


def question(
    name: str,
    title: str,
    meaning: str,
    columns: tuple[Column, ...],
    *,
    key: tuple[Column, ...] = (GROUP,),
    needs_events: bool = False,
    **parameters: float,
) -> Question:
    """The question whose text is `<name>.sql` in this folder; the comment at its head is the
    definition. Its answer begins with the columns `key`.
    """
    sql = files(__package__).joinpath(f"{name}.sql").read_text(encoding="utf-8")
    head = takewhile(lambda line: line.startswith("--"), sql.splitlines())
    about = title, meaning, " ".join(line[3:] for line in head)
    read = frozenset(found[2] for found in _READ.finditer(sql)) - {name}
    return Question(name, *about, (*key, *columns, *SURE), read, parameters, needs_events, sql)
