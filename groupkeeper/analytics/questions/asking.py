"""A question: what it reads, what it answers, and how it is asked of Arrow tables or of Spark.

    @question("Storms", "...", key=("group",), reads={"rounds": ("started", ...)}, columns=(...))
    def storms(one: One, *, least: int = 5) -> Iterable[Row]:
        for row in one["rounds"].dicts("started"): ...

    storms({"rounds": table})             # a pyarrow.Table -> a pyarrow.Table
    storms({"rounds": frame}, least=10)   # Spark's DataFrame -> Spark's DataFrame

The function gets the rows of one key at a time, of all tables that it reads. All rows of a key have
to fit into the memory of one process.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Final

import pyarrow as pa

from groupkeeper.analytics.errors import AnalyticsError
from groupkeeper.analytics.history.schemas import EVENTS, LOG, REAL, TEXT, TIME, Column
from groupkeeper.analytics.questions.rows import (
    NOTHING,
    Key,
    Place,
    Reach,
    Row,
    Rows,
    Sorted,
    columns_of,
    reaches,
)

# Any: a pyarrow.Table or a DataFrame of Spark; mypy follows neither.
Frame = Any
Tables = Mapping[str, Frame]

SURE: Final = (
    Column("source", TEXT, "`events`; `log` if any of it was inferred from the offsets log."),
    Column("confidence", REAL, "The lowest of the rows that it is made of, 0 to 1."),
    Column("known_from", TIME, "It says nothing about the time before; null: no limit is known."),
)
"""Every answer ends with these columns."""


@dataclass(frozen=True, slots=True)
class One:
    """One key, with its rows of each table."""

    key: Key
    rows: Mapping[str, Rows]
    reach: Reach
    """`until` is the end of what was read, or else the latest time in the rows."""

    def __getitem__(self, table: str) -> Rows:
        return self.rows.get(table, NOTHING)


# Any: parameters are numbers, with their names.
Body = Callable[..., Iterable[Row]]


@dataclass(frozen=True)
class Question:
    """One question. `meaning` is one sentence: what to look for; `definition` says exactly what a
    row is. `parameters` are names with defaults. Without events it has no answer if `needs_events`.
    """

    name: str
    title: str
    meaning: str
    definition: str
    key: tuple[str, ...]
    reads: Mapping[str, tuple[str, ...]]
    """Table -> columns, beside the key and what tables are sorted and cut by."""
    columns: tuple[Column, ...]
    needs_events: bool
    body: Body = field(repr=False)

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(each.name, each.type) for each in self.columns])

    @property
    def parameters(self) -> Mapping[str, int | float]:
        found = inspect.signature(self.body).parameters.values()
        return {each.name: each.default for each in found if each.kind is each.KEYWORD_ONLY}

    def __call__(self, tables: Tables, **parameters: float) -> Frame:
        """The answer: a DataFrame if a table is one, else a pyarrow.Table. Tables that are left out
        are empty. AnalyticsError if a table lacks a column, or a parameter is unknown.
        """
        unknown = sorted(parameters.keys() - self.parameters.keys())
        if unknown:
            known = ", ".join(self.parameters) or "none"
            raise AnalyticsError(f"{self.name} has no parameter {unknown[0]} (it has: {known})")
        given = {name: tables[name] for name in self.reads if name in tables}
        self._check(given)
        if any(not isinstance(each, pa.Table) for each in given.values()):
            return _on_spark(self, given, tables.get("coverage"), parameters)
        return self.of_cuts(Cuts(tables), **parameters)

    def of_cuts(self, cuts: "Cuts", **parameters: float) -> pa.Table:
        """The answer from tables that are sorted once for several questions."""
        rows = [row for one in cuts.ones(self) for row in self.ask(one, **parameters)]
        return self.table(rows)

    def ask(self, one: One, **parameters: float) -> Iterator[Row]:
        """Of one key, with the columns SURE where the function gave none."""
        sure = surest(*(each.sure() for each in one.rows.values()))
        sure["known_from"] = one.reach.known_from
        for row in self.body(one, **parameters):
            yield sure | row

    def table(self, rows: Sequence[Row], times: pa.DataType = TIME) -> pa.Table:
        """Rows as a table of the schema."""
        columns = {}
        for each in self.columns:
            kind = times if each.type == TIME else each.type
            values = [row[each.name] for row in rows]
            made = pa.array(values, pa.int64() if each.type == TIME else kind)
            columns[each.name] = made.cast(TIME).cast(kind) if each.type == TIME else made
        return pa.table(columns)

    def columns_of(self, table: str) -> tuple[str, ...]:
        """What it needs of a table, the key first."""
        return columns_of(table, (*self.key, *self.reads[table]))

    def _check(self, given: Tables) -> None:
        for name, frame in given.items():
            has = frame.column_names if isinstance(frame, pa.Table) else frame.columns
            missing = [each for each in self.columns_of(name) if each not in has]
            if missing:
                raise AnalyticsError(
                    f"{self.name} needs the column {missing[0]} of the table {name}"
                    " (docs/analytics-tables.md)"
                )


def question(
    title: str,
    meaning: str,
    *,
    reads: Mapping[str, tuple[str, ...]],
    columns: tuple[Column, ...],
    key: tuple[str, ...] = ("group",),
    needs_events: bool = False,
) -> Callable[[Body], Question]:
    """Makes a Question of a function; its docstring is the definition, its name the name."""

    def made(body: Body) -> Question:
        definition = inspect.cleandoc(body.__doc__ or "")
        every = (*columns, *SURE)
        return Question(
            body.__name__, title, meaning, definition, key, reads, every, needs_events, body
        )

    return made


def surest(*parts: Row) -> Row:
    """`source` and `confidence` of what is made of several parts; a part without is left out."""
    sources = [part["source"] for part in parts if "source" in part]
    known = [part.get("confidence") for part in parts if "source" in part]
    least = min((each for each in known if isinstance(each, float)), default=1.0)
    return {"source": LOG if LOG in sources else EVENTS, "confidence": least}


class Cuts:
    """Arrow tables, each sorted once for all questions with the same key."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._reach = reaches(tables.get("coverage"))
        self._kept: dict[tuple[str, tuple[str, ...]], dict[Key, Rows]] = {}

    def ones(self, asked: Question) -> Iterator[One]:
        """One after the other, in the order of keys; null is first."""
        rows = {name: self._of(name, asked.key) for name in asked.reads}
        keys = dict.fromkeys(key for each in rows.values() for key in each)
        for key in sorted(keys, key=lambda key: [(part is not None, part) for part in key]):
            found = {name: each[key] for name, each in rows.items() if key in each}
            yield _one(key, found)

    def _of(self, name: str, key: tuple[str, ...]) -> dict[Key, Rows]:
        found = self._kept.get((name, key))
        if found is None:
            table = self._tables.get(name)
            found = {}
            if table is not None:
                found = dict(Sorted(name, table, key, self._reach).by_key())
            self._kept[name, key] = found
        return found


def _one(key: Key, rows: Mapping[str, Rows]) -> One:
    parts = [each.reach() for each in rows.values()]
    known, since, until = (
        max(
            (getattr(part, name) for part in parts if getattr(part, name) is not None), default=None
        )
        for name in ("known_from", "since", "until")
    )
    if until is None:
        newest = (each.newest() for each in rows.values())
        until = max((each for each in newest if each is not None), default=None)
    return One(key, rows, Reach(known, since, until))


def _on_spark(
    asked: Question, frames: Tables, coverage: Frame, parameters: Mapping[str, float]
) -> Frame:
    """Each table becomes one column of structs, and all of them one frame: rows of one key meet in
    one call, of however many tables.
    """
    from pyspark.sql import functions as F  # noqa: N812  # as in Spark's documentation
    from pyspark.sql.pandas.types import from_arrow_schema

    if coverage is not None and not isinstance(coverage, pa.Table):
        coverage = coverage.toArrow()
    parts = []
    for name, frame in frames.items():
        wanted = [F.col(f"`{each}`") for each in asked.columns_of(name)]
        key = wanted[: len(asked.key)]
        parts.append(frame.select(*key, F.struct(*wanted).alias(name)))
    merged = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)
    answer = _worker(asked, tuple(frames), reaches(coverage), parameters)
    keys = [f"`{each}`" for each in asked.key]
    return merged.groupBy(*keys).applyInArrow(answer, from_arrow_schema(asked.schema))


def _worker(
    asked: Question,
    tables: tuple[str, ...],
    reach: Mapping[Place, Reach],
    parameters: Mapping[str, float],
) -> Callable[[pa.Table], pa.Table]:
    """What Spark's workers are sent: the answer of one key, from a column of structs a table."""
    micro = pa.timestamp("us", tz="UTC")

    def answer(table: pa.Table) -> pa.Table:
        rows: dict[str, Rows] = {}
        for name in tables:
            structs = table[name].drop_null().combine_chunks()
            part = Sorted(name, pa.Table.from_struct_array(structs), asked.key, reach)
            if len(part):
                rows[name] = Rows(part, 0, len(part))
        if not rows:
            return asked.table([], micro)
        key = tuple(table[each][0].as_py() for each in asked.key)
        return asked.table([*asked.ask(_one(key, rows), **parameters)], micro)

    return answer
