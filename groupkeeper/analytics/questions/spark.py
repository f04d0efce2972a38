"""Asks questions of Spark's DataFrames, with Spark SQL."""

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from groupkeeper.analytics.questions.question import (
    REACH,
    VIEWS,
    Frame,
    Parameters,
    Question,
    placed,
    view,
)
from groupkeeper.analytics.schemas import INT, LONG, REAL, TABLES, TEXT, TIME, YES, Column


class OnSpark:
    """The tables as Spark reads them; tables that are left out are empty. Nothing is read before a
    DataFrame that it gives is.
    """

    # Any: a SparkSession; mypy does not follow it.
    def __init__(self, spark: Any, tables: Mapping[str, Frame]) -> None:
        self._spark = spark
        given = {name: tables.get(name, TABLES[name].schema.empty_table()) for name in VIEWS}
        given = {
            name: spark.createDataFrame(frame) if isinstance(frame, pa.Table) else frame
            for name, frame in given.items()
        }
        reach = self.select(REACH, {"given_coverage": given["coverage"]})
        is_covered = "coverage" in tables
        self._read = {
            name: self.select(view(name, is_covered=is_covered), {"given": frame, "reach": reach})
            for name, frame in given.items()
        }

    def select(self, text: str, frames: Mapping[str, Frame]) -> Frame:
        """The rows that a text of SQL gives, which reads frames by their names."""
        names = {name: f"{{{name}}}" for name in frames}
        asked = placed(text, names)
        read = {name: frame for name, frame in frames.items() if f"{{{name}}}" in asked}
        return self._spark.sql(asked.replace('"', "`"), **read)

    def ask(self, asked: Question, parameters: Parameters | None = None) -> Frame:
        """The answer, which other questions can read then."""
        found = self.select(asked.text(parameters or {}), self._read)
        answer = found.selectExpr(*map(_cast, asked.columns))
        self._read[asked.name] = answer
        return answer

    def frame(self, rows: pa.Table) -> Frame:
        return self._spark.createDataFrame(rows)

    def few(self, asked: Question, condition: str) -> pa.Table:
        """Rows of an answer that was asked before, on the driver; the answer is cached."""
        self._read[asked.name].cache()
        text = f"select * from {asked.name} where {condition}"
        return self.select(text, self._read).toArrow().cast(asked.schema)


_TYPES: Final = {INT: "int", LONG: "bigint", REAL: "double", TEXT: "string", YES: "boolean"}


def _cast(column: Column) -> str:
    """With the type of the schema; times of texts are Unix milliseconds, and no list is null."""
    name = f"`{column.name}`"
    if column.type == TIME:
        return f"timestamp_millis(cast({name} as bigint)) as {name}"
    if column.type in _TYPES:
        return f"cast({name} as {_TYPES[column.type]}) as {name}"
    return f"coalesce(cast({name} as array<{_TYPES[column.type.value_type]}>), array()) as {name}"
