"""Tables, for people and as JSON."""

import json

import pytest

from groupkeeper.cli.tables import Table, text

COLUMNS = {"group": "GROUP", "lag": "LAG"}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"),
        ("", "-"),
        ({}, "-"),
        (0, "0"),
        (1.26, "1.3"),
        ({"b": [0], "a": [1, 2]}, "a:1,2;b:0"),
    ],
)
def test_cells(value: object, shown: str) -> None:
    assert text(value) == shown


def test_columns_are_as_wide_as_what_is_in_them(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"group": "a-group-with-a-long-name", "lag": 1}, {"group": "g", "lag": None}]
    Table(COLUMNS, as_json=False).show(rows)
    assert capsys.readouterr().out.splitlines() == [
        "",
        "GROUP                     LAG",
        "a-group-with-a-long-name  1",
        "g                         -",
    ]


def test_a_table_without_rows_has_no_headings(capsys: pytest.CaptureFixture[str]) -> None:
    Table(COLUMNS, as_json=False).show([])
    Table(COLUMNS, as_json=True).show([])
    assert capsys.readouterr().out == ""


def test_json_has_the_columns_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    Table(COLUMNS, as_json=True).show([{"group": "größe", "lag": None, "more": 1}])
    assert capsys.readouterr().out == '{"group": "größe", "lag": null}\n'


def test_names_of_clients_do_not_move_the_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"group": "a\n\x1b[31mb", "lag": 1}]
    Table(COLUMNS, as_json=False).show(rows)
    assert capsys.readouterr().out.splitlines()[2] == "a??[31mb  1"
    Table(COLUMNS, as_json=True).show(rows)
    assert json.loads(capsys.readouterr().out)["group"] == "a\n\x1b[31mb"
