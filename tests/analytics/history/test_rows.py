"""Rows become Arrow tables."""

from typing import Any

import pyarrow as pa
import pytest

from groupkeeper.analytics.pipeline.output import table_of
from groupkeeper.analytics.schemas import TABLES
from groupkeeper.history.fields import LAST_MS
from tests.support.told_events import NOON


def row(**values: Any) -> dict[str, Any]:
    empty = dict.fromkeys(TABLES["rounds"].schema.names)
    return empty | values


@pytest.mark.parametrize("name", TABLES)
def test_no_rows_are_a_table_with_its_schema(name: str) -> None:
    assert table_of(name, []).schema == TABLES[name].schema


def test_times_are_milliseconds() -> None:
    table = table_of("rounds", [row(started=NOON, more_causes=["a"], confidence=1.0)])
    [found] = table.to_pylist()
    assert found["started"].isoformat() == "2025-11-22T12:00:00+00:00"
    assert (found["more_causes"], found["confidence"], found["ended"]) == (["a"], 1.0, None)


def test_a_column_that_is_left_out_is_null_and_another_one_is_refused() -> None:
    first, second = table_of("rounds", [row(), {"group": "g"}]).to_pylist()
    assert second == first | {"group": "g"}
    with pytest.raises(ValueError, match="a row of rounds: unknown columns weather"):
        table_of("rounds", [row(), row(weather="fine")])


@pytest.mark.parametrize("value", [7, ["a"]])
def test_a_value_of_another_kind_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="column cause of rounds"):
        table_of("rounds", [row(cause=value)])


@pytest.mark.parametrize(
    ("column", "value", "found"),
    [
        ("cause", "\ud800!", "\\ud800!"),
        ("missing", ["a", "\ud800"], ["a", "\\ud800"]),
        ("generation", 1 << 31, None),
        ("generation", -(1 << 31), -(1 << 31)),
        ("moved", 1 << 63, None),
        ("started", 1 << 70, None),
    ],
)
def test_what_does_not_fit_is_null_or_escaped(column: str, value: Any, found: Any) -> None:
    [only] = table_of("rounds", [row(**{column: value})]).to_pylist()
    assert only[column] == found


def test_the_last_time_is_in_the_year_9999() -> None:
    table = table_of("rounds", [row(started=LAST_MS), row(started=1 << 70)])
    assert table["started"].cast(pa.int64()).to_pylist() == [LAST_MS, None]
