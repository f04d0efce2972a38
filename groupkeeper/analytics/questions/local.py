"""Asks questions of tables on this machine, with DuckDB."""

import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from functools import cached_property
from typing import Any, Final, Self

import duckdb
import pyarrow as pa
from pyarrow.dataset import Dataset

from groupkeeper.analytics.questions.question import (
    REACH,
    VIEWS,
    Parameters,
    Question,
    placed,
    view,
)
from groupkeeper.analytics.schemas import TABLES

# Any: the values of a row have the types of its table.
Row = dict[str, Any]

MACROS: Final = (
    "unix_millis(t) as epoch_ms(t)",
    "slice(items, first, length) as list_slice(items, first, first + length - 1)",
    """sequence(first, last) as generate_series(first, last),
        (first, last, step) as generate_series(first, last, step)""",
)
"""Functions of Spark that DuckDB has under another name."""
_ORDER: Final = {
    "rounds": 'ended nulls last, started, "offset"',
    "sessions": '"from", member, until nulls last',
    "members": 'partition, "offset", member',
}
MEMORY: Final = "600MB"
"""Limit of what DuckDB holds in memory; the rest goes into files, if it is not a single operator
that needs more."""
LARGE: Final = ("commit_minutes", "lag")
"""Views of which questions are asked for some groups at a time: all say something about one group
in each row, and their windows do not fit into memory with the rows of all groups."""
PIECE_ROWS: Final = 3_000_000
"""Rows of `LARGE` that a question reads at once, unless one group has more."""


def prepare(connection: duckdb.DuckDBPyConnection, tables: Mapping[str, pa.Table | str]) -> None:
    """Make the functions and views that texts of questions read. Each of `tables` is an Arrow table
    or a query that gives its rows; tables that are left out are empty.
    """
    connection.execute("set default_null_order = 'nulls_first_on_asc_last_on_desc'")  # as Spark's
    for macro in MACROS:
        connection.execute(f"create macro {macro}")
    for name in VIEWS:
        given = tables.get(name, TABLES[name].schema.empty_table())
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
        """Queries of tables read `files_<name>` of `files`."""
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

    def ask(self, asked: Question, parameters: Parameters | None = None) -> pa.Table:
        """The answer, which other questions can read then."""
        text = asked.text(parameters or {})
        if asked.sources.isdisjoint(LARGE):
            found = self.select(text)
        else:
            found = pa.concat_tables([self._select_of(text, *each) for each in self._pieces])
        answer = asked.table(found)
        self._duckdb.register(asked.name, answer)
        return answer

    def _select_of(self, query: str, first: str, last: str) -> pa.Table:
        """The rows that a query gives for groups between two names."""
        for name in LARGE:
            self._duckdb.execute(
                f"create or replace temp view {name} as select * from memory.main.{name} "
                f'where "group" between {text(first)} and {text(last)}'
            )
        return self.select(query)

    @cached_property
    def _pieces(self) -> list[tuple[str, str]]:
        """The first and the last group of each piece."""
        counts = " union all ".join(f'select "group" from given_{name}' for name in LARGE)
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
        """Rows of an answer that was asked before."""
        return self.select(f"select * from {asked.name} where {condition}").cast(asked.schema)

    def select(self, query: str) -> pa.Table:
        return self._duckdb.sql(query).to_arrow_table()

    def rows(self, name: str, query: str) -> pa.Table:
        """Rows of a table that a query gives, with the types of its schema."""
        return self.select(query).cast(TABLES[name].schema)

    def rows_of(
        self, names: Iterable[str], groups: Iterable[str]
    ) -> dict[str, dict[str, list[Row]]]:
        """Group -> view -> its rows in a fixed order."""
        self._duckdb.register("wanted", pa.table({"group": pa.array([*groups], pa.string())}))
        found: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
        for name in names:
            wanted = 'where "group" in (select "group" from wanted)'
            query = f"select * from {name} {wanted} order by {_ORDER[name]}"
            for row in self.select(query).to_pylist():
                found[row["group"]][name].append(row)
        return found


def text(value: str) -> str:
    """A text as it stands in a query."""
    return "'" + value.replace("'", "''") + "'"
