"""Runs questions: in DuckDB on this machine (`Local`) or in Spark SQL (`OnSpark`).

ask("storms", {"rounds": table}) # a pyarrow.Table -> a pyarrow.Table, by DuckDB ask("storms",
{"rounds": frame}, least=10) # a DataFrame of Spark -> a DataFrame, by Spark SQL
"""

import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow as pa
from pyarrow.dataset import Dataset

from groupkeeper.analytics.errors import AnalyticsError
from groupkeeper.analytics.libraries import QUERIES, check_libraries
from groupkeeper.analytics.questions.question import (
    REACH,
    VIEWS,
    Frame,
    Parameters,
    Question,
    QuestionTables,
    placed,
    question,
    view,
)
from groupkeeper.analytics.schemas import INT, LONG, REAL, TEXT, TIME, YES, Column

if TYPE_CHECKING:
    import duckdb

_NAMES: Final = (
    *("rebalance_rate", "timeline", "not_stable"),
    *("causes", "causes_by_software", "causes_by_host"),
    *("storms", "barrier", "cooperative_or_eager", "flapping", "zombies", "duels"),
    *("refused_commits", "idle_members", "skew", "returns", "restart_gaps"),
    *("outages", "commit_silence", "rhythm_steps", "commit_rhythm", "lag_seconds", "split_brain"),
)
QUESTIONS: Final[Mapping[str, Question]] = {name: question(name) for name in _NAMES}


def ask(name: str, tables: QuestionTables, **parameters: float) -> Frame:
    """Answer one question: with a DataFrame if any table is one, else with a pyarrow.Table. Absent
    tables count as empty. Raises AnalyticsError for a missing column or an unknown parameter.
    """
    asked = QUESTIONS[name]
    unknown = sorted(parameters.keys() - asked.parameters.keys())
    if unknown:
        known = ", ".join(asked.parameters) or "none"
        raise AnalyticsError(f"{name} has no parameter {unknown[0]} (it has: {known})")
    others = [QUESTIONS[each] for each in asked.sources & QUESTIONS.keys()]
    reads = {name: None for each in (asked, *others) for name in each.reads}
    given = {each: tables[each] for each in (*reads, "coverage") if each in tables}
    for each in reads:
        has = _columns(given[each]) if each in given else VIEWS[each].schema.names
        missing = [column for column in VIEWS[each].schema.names if column not in has]
        if missing:
            raise AnalyticsError(
                f"{name} needs the column {missing[0]} of the table {each}"
                " (docs/analytics-tables.md)"
            )
    with engine_of(given) as engine:
        for other in others:
            engine.ask(other, parameters)
        return engine.ask(asked, parameters)


def _columns(frame: Frame) -> list[str]:
    return list(frame.column_names if isinstance(frame, pa.Table) else frame.columns)


@contextmanager
def engine_of(tables: QuestionTables) -> "Iterator[Local | OnSpark]":
    """Yield the engine for these tables: `OnSpark` if any is a DataFrame, else `Local`."""
    frames = [each for each in tables.values() if not isinstance(each, pa.Table)]
    if frames:
        yield OnSpark(frames[0].sparkSession, tables)
        return
    check_libraries(QUERIES)
    with Local(tables) as local:
        yield local


class OnSpark:
    """Questions on Spark; absent tables count as empty. Evaluation is lazy."""

    # Any: a SparkSession, which is untyped for mypy.
    def __init__(self, spark: Any, tables: Mapping[str, Frame]) -> None:
        self._spark = spark
        given = {name: tables.get(name, VIEWS[name].schema.empty_table()) for name in VIEWS}
        given = {
            name: spark.createDataFrame(frame) if isinstance(frame, pa.Table) else frame
            for name, frame in given.items()
        }
        reach = self.select(REACH, {"given_coverage": given["coverage"]})
        is_covered = "coverage" in tables
        self._read = {
            name: self.select(view(name, is_covered=is_covered), {"given": frame, "reach": reach})
            for name, frame in given.items()
        } | {"reach": reach}

    def select(self, text: str, frames: Mapping[str, Frame]) -> Frame:
        """Return the rows of an SQL text that refers to `frames` by name."""
        names = {name: f"{{{name}}}" for name in frames}
        asked = placed(text, names)
        read = {name: frame for name, frame in frames.items() if f"{{{name}}}" in asked}
        return self._spark.sql(asked.replace('"', "`"), **read)

    def ask_all(self, asked: Sequence[Question], told: Callable[[int], None]) -> dict[str, Frame]:
        """Return the answers by name, in the order of the questions."""
        return {each.name: self.ask(each) for each in asked}

    def ask(self, asked: Question, parameters: Parameters | None = None) -> Frame:
        """Return the answer, which later questions can read."""
        found = self.select(asked.text(parameters or {}), self._read)
        answer = found.selectExpr(*map(_cast, asked.columns))
        self._read[asked.name] = answer
        return answer

    def frame(self, rows: pa.Table) -> Frame:
        return self._spark.createDataFrame(rows)

    def few(self, asked: Question, condition: str) -> pa.Table:
        """Return rows of an earlier answer on the driver; the answer is cached."""
        self._read[asked.name].cache()
        text = f"select * from {asked.name} where {condition}"
        return self.select(text, self._read).toArrow().cast(asked.schema)


_TYPES: Final = {INT: "int", LONG: "bigint", REAL: "double", TEXT: "string", YES: "boolean"}


def _cast(column: Column) -> str:
    """Return SQL for a column with the type of the schema. Times in SQL texts are Unix
    milliseconds; null lists become empty.
    """
    name = f"`{column.name}`"
    if column.type == TIME:
        return f"timestamp_millis(cast({name} as bigint)) as {name}"
    if column.type in _TYPES:
        return f"cast({name} as {_TYPES[column.type]}) as {name}"
    return f"coalesce(cast({name} as array<{_TYPES[column.type.value_type]}>), array()) as {name}"


# Any: the values of a row have the types of its table.
_Row = dict[str, Any]

MACROS: Final = (
    "unix_millis(t) as epoch_ms(t)",
    "slice(items, first, length) as list_slice(items, first, first + length - 1)",
    """sequence(first, last) as generate_series(first, last),
        (first, last, step) as generate_series(first, last, step)""",
)
"""Functions of Spark that have other names in DuckDB."""
_ORDER: Final = {
    "rounds": 'ended nulls last, started, "offset"',
    "sessions": '"from", member, until nulls last',
    "members": 'partition, "offset", member',
    "configs": 'partition, "offset"',
    "not_stable": '"group"',
}
MEMORY: Final = "600MB"
"""DuckDB's memory limit; the rest is spilled to files, except by operators that cannot."""
IN_PIECES: Final = ("commit_minutes", "lag")
"""Views queried for some groups at a time. Each of their rows concerns one group, and window
functions over all groups would not fit into memory."""
PIECE_ROWS: Final = 3_000_000
"""Maximum rows of `IN_PIECES` that a question reads at once, unless one group has more."""


def prepare(connection: "duckdb.DuckDBPyConnection", tables: Mapping[str, pa.Table | str]) -> None:
    """Create the functions and views that questions read. Each of `tables` is an Arrow table or a
    query for its rows; absent ones count as empty.
    """
    connection.execute("set default_null_order = 'nulls_first_on_asc_last_on_desc'")  # as Spark's
    for macro in MACROS:
        connection.execute(f"create macro {macro}")
    for name in VIEWS:
        given = tables.get(name, VIEWS[name].schema.empty_table())
        if isinstance(given, str):
            connection.execute(f"create view given_{name} as {given}")
        else:
            connection.register(f"given_{name}", given)
    coverage = tables.get("coverage", "")
    is_covered = len(coverage) > 0
    connection.execute(f"create view reach as {REACH}")
    for name in VIEWS:
        query = placed(view(name, is_covered=is_covered), {"given": f"given_{name}"})
        connection.execute(f"create view {name} as {query}")


class Local:
    """DuckDB with the tables of an analysis: see `prepare`. A context manager."""

    def __init__(
        self,
        tables: Mapping[str, pa.Table | str],
        threads: int | None = None,
        files: Mapping[str, Dataset] | None = None,
        piece_rows: int = PIECE_ROWS,
    ) -> None:
        """Queries in `tables` can read `files` as `files_<name>`."""
        import duckdb  # not needed on Spark clusters

        self._piece_rows = piece_rows
        self._stack = ExitStack()
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="groupkeeper-sql-"))
        settings: dict[str, Any] = {"temp_directory": folder, "memory_limit": MEMORY}
        settings |= {"threads": threads} if threads else {}
        self._duckdb = self._stack.enter_context(duckdb.connect(":memory:", config=settings))
        for name, rows in (files or {}).items():
            self._duckdb.register(f"files_{name}", rows)
        prepare(self._duckdb, tables)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def ask_all(
        self, asked: Sequence[Question], told: Callable[[int], None]
    ) -> dict[str, pa.Table]:
        """Return the answers by name, in the order of the questions; each can read the answers
        before it. `told` is called with the number of answers computed so far.
        """
        found = {}
        whole = [each for each in asked if each.sources.isdisjoint(IN_PIECES)]
        for done, each in enumerate(whole, 1):
            found[each.name] = self.ask(each)
            told(done)
        found |= self._ask_in_pieces([each for each in asked if each not in whole], {})
        told(len(asked))
        return {each.name: found[each.name] for each in asked}

    def ask(self, asked: Question, parameters: Parameters | None = None) -> pa.Table:
        """Return the answer, which later questions can read."""
        if not asked.sources.isdisjoint(IN_PIECES):
            return self._ask_in_pieces([asked], parameters or {})[asked.name]
        return self._answered(asked, self.select(asked.text(parameters or {})))

    def _answered(self, asked: Question, found: pa.Table) -> pa.Table:
        answer = asked.table(found)
        self._duckdb.register(asked.name, answer)
        return answer

    def _ask_in_pieces(
        self, asked: Sequence[Question], parameters: Parameters
    ) -> dict[str, pa.Table]:
        """Return the answers by name, from all questions about some groups, then about the next
        ones, so that the rows of each group are read once.
        """
        read = {name for each in asked for name in each.sources} & {*IN_PIECES}
        parts = defaultdict(list)
        for first, last in self._pieces:
            for name in read:
                self._duckdb.execute(
                    f"create or replace temp table {name} as select * from memory.main.{name} "
                    f'where "group" between {text(first)} and {text(last)}'
                )
            for each in asked:
                found = self.select(each.text(parameters))
                parts[each.name].append(self._answered(each, found))
        for name in read:
            self._duckdb.execute(f"drop table temp.{name}")
        return {
            each.name: self._answered(each, pa.concat_tables(parts[each.name])) for each in asked
        }

    @cached_property
    def _pieces(self) -> list[tuple[str, str]]:
        """First and last group of each piece."""
        counts = " union all ".join(f'select "group" from given_{name}' for name in IN_PIECES)
        rows = 0
        found = [("", "")]
        for group, count in self._duckdb.sql(
            f'select "group", count(*) from ({counts}) group by "group" order by "group"'
        ).fetchall():
            rows += count
            if rows > self._piece_rows:
                found.append((group, group))
                rows = count
            found[-1] = (found[-1][0], group)
        return found

    def frame(self, rows: pa.Table) -> pa.Table:
        return rows

    def few(self, asked: Question, condition: str) -> pa.Table:
        """Return rows of an earlier answer."""
        return self.select(f"select * from {asked.name} where {condition}").cast(asked.schema)

    def select(self, query: str) -> pa.Table:
        return self._duckdb.sql(query).to_arrow_table()

    def rows(self, name: str, query: str) -> pa.Table:
        """Return the rows of a query, with the types of table `name`."""
        return self.select(query).cast(VIEWS[name].schema)

    def rows_of(
        self, names: Iterable[str], groups: Iterable[str]
    ) -> dict[str, dict[str, list[_Row]]]:
        """Return group -> view or earlier answer -> its rows in a fixed order; answers have times
        as such, and views as Unix milliseconds.
        """
        self._duckdb.register("wanted", pa.table({"group": pa.array([*groups], pa.string())}))
        found: dict[str, dict[str, list[_Row]]] = defaultdict(lambda: defaultdict(list))
        for name in names:
            wanted = 'where "group" in (select "group" from wanted)'
            query = f"select * from {name} {wanted} order by {_ORDER[name]}"
            for row in self.select(query).to_pylist():
                found[row["group"]][name].append(row)
        return found


def text(value: str) -> str:
    """Quote a string for SQL."""
    return "'" + value.replace("'", "''") + "'"
