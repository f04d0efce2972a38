"""Tables, for people and as JSON."""

import json

import pytest

from groupkeeper.cli.tables import show, text


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
    show(rows, as_json=False)
    assert capsys.readouterr().out.splitlines() == [
        "",
        "GROUP                     LAG",
        "a-group-with-a-long-name  1",
        "g                         -",
    ]


def test_a_table_without_rows_has_no_headings(capsys: pytest.CaptureFixture[str]) -> None:
    show([], as_json=False)
    show([], as_json=True)
    assert capsys.readouterr().out == ""


def test_headings_are_those_of_kafka(capsys: pytest.CaptureFixture[str]) -> None:
    show([{"log_end_offset": 1, "members": 2, "coordinator": "a:1 (0)"}], as_json=False)
    heading = capsys.readouterr().out.splitlines()[1]
    assert heading.split() == ["LOG-END-OFFSET", "#MEMBERS", "COORDINATOR", "(ID)"]


def test_rows_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    show([{"group": "größe", "lag": None}], as_json=True)
    assert capsys.readouterr().out == '{"group": "größe", "lag": null}\n'


def test_names_of_clients_do_not_move_the_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"group": "a\n\x1b[31mb", "lag": 1}]
    show(rows, as_json=False)
    assert capsys.readouterr().out.splitlines()[2] == "a??[31mb  1"
    show(rows, as_json=True)
    assert json.loads(capsys.readouterr().out)["group"] == "a\n\x1b[31mb"


@pytest.mark.parametrize("hidden", ["\u202e", "\u200b", "\x1b", "\x9b", "\u2028", "\U000e0001"])
def test_json_hides_nothing_from_who_reads_it_on_a_terminal(
    hidden: str, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"group": f"größe{hidden}x"}
    show([row], as_json=True)
    line = capsys.readouterr().out.removesuffix("\n")
    assert line.isprintable()
    assert "größe" in line
    assert json.loads(line) == row
