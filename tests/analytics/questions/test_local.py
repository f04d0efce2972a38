"""What a reader can do with the texts of questions."""

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from groupkeeper.analytics.answering import answers, answers_of
from groupkeeper.analytics.questions.registry import QUESTIONS, Local, ask, prepare
from tests.analytics.questions.made import rounds, table
from tests.analytics.questions.week import week


def test_a_text_that_is_copied_gives_the_answer_over_files(tmp_path):
    tables = week()
    for name, rows in tables.items():
        pq.write_table(rows, tmp_path / f"{name}.parquet")
    connection = duckdb.connect()
    prepare(connection, {name: f"from '{tmp_path}/{name}.parquet'" for name in tables})
    expected = answers(tables)
    for name, asked in QUESTIONS.items():
        if not asked.sources & QUESTIONS.keys():
            found = asked.table(connection.sql(asked.text({})).to_arrow_table())
            assert found == expected[name], name


def test_every_question_finds_something_in_the_week():
    found = answers(week())
    empty = [name for name in QUESTIONS if not found[name].num_rows]
    assert not empty, f"let week.py have rows that answer {', '.join(empty)}"


@pytest.mark.parametrize("rows", [1, 100])
def test_answers_do_not_depend_on_how_many_groups_are_read_at_once(rows):
    tables = week()
    expected = answers(tables)
    with Local(tables, piece_rows=rows) as local:
        assert answers_of(local) == expected


def test_columns_of_another_width_are_read(tmp_path):
    """Spark writes times in microseconds, and other tables have more columns."""
    made = rounds({"started": 0}, {"started": 1})
    wide = made.set_column(
        made.column_names.index("started"),
        "started",
        made["started"].cast(pa.timestamp("us", "UTC")),
    ).append_column("day", [["2025-11-22"] * 2])
    covered = table("coverage", {"from": 0, "until": 3_600_000})
    for name in ("rebalance_rate", "storms", "timeline"):
        tables = ({"rounds": each, "coverage": covered} for each in (made, wide))
        one, other = (ask(name, each) for each in tables)
        assert one == other
