import io
import time

import pyarrow as pa
import pytest
from rich.console import Console

from groupkeeper.analytics.command import printing
from groupkeeper.analytics.command.printing import print_first, print_table
from groupkeeper.why.texts import printable, size

SCHEMA = pa.schema({"group": pa.string(), "committed_offset": pa.int64()})


def printed(rows, schema=SCHEMA, **options):
    to = Console(file=io.StringIO(), **{"width": 200} | options)
    table = pa.Table.from_pylist(
        [dict(zip(schema.names, row, strict=True)) for row in rows], schema
    )
    print_table(to, "Offsets", table, schema.names)
    return to.file.getvalue()


def test_a_pipe_gets_plain_columns():
    assert printed([("billing", 7), ("b", 12)]).splitlines() == [
        "Offsets: 2",
        "GROUP    OFFSET",
        "billing       7",
        "b            12",
        "",
    ]


def test_a_pipe_gets_many_rows_quickly():
    """With rich, these took 20 s."""
    rows = [("group", number) for number in range(40_000)]
    started = time.process_time()
    assert len(printed(rows).splitlines()) == 40_003
    assert time.process_time() - started < 6


def test_a_long_name_pads_no_other_row():
    shown = printed([("g" * 3_000, 7), ("b", 12)]).splitlines()
    assert shown[2:4] == ["g" * 3_000 + "       7", "b" + " " * 69 + "12"]


def test_wide_characters_take_two_places_in_a_pipe():
    assert printed([("日本", 7), ("abcde", 12)]).splitlines()[2:4] == [
        "日本        7",
        "abcde      12",
    ]


def test_an_empty_table_is_one_line():
    assert printed([]).strip() == "Offsets: none"


def test_long_tables_say_that_there_is_more(monkeypatch):
    monkeypatch.setattr(printing, "PIPE_ROWS", 1)
    told = printed([("a", 1), ("b", 2)])
    assert "Offsets: 2" in told
    assert "1 of them shown" in told


def test_markup_and_control_codes_of_clients_do_nothing():
    assert "[red]x" in printed([("[red]x", 1)])
    assert printable("a\x1b[2J\nb\0") == "a?[2J?b?"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "1970-01-01 00:00:00.000Z"),
        (1_700_000_000_007, "2023-11-14 22:13:20.007Z"),
        (None, "-"),
        (-1, "-"),
        (2**62, f"at {2**62} ms"),
    ],
)
def test_times_are_shown_to_the_millisecond(value, shown):
    time_ms = pa.schema({"time": pa.timestamp("ms", tz="UTC")})
    assert printed([(value,)], time_ms).splitlines()[2] == shown


@pytest.mark.parametrize(
    ("count", "shown"),
    [(-1, "?"), (0, "0 bytes"), (999, "999 bytes"), (1500, "1.5 kB"), (10**13, "10000.0 GB")],
)
def test_sizes_have_a_fitting_unit(count, shown):
    assert size(count) == shown


def test_sentences_are_wrapped_beside_their_word_on_a_terminal_only():
    for is_terminal, lines in (
        (True, ["Findings: 1", "high  Set it", "      higher"]),
        (False, ["Findings: 1", "high  Set it higher"]),
    ):
        to = Console(file=io.StringIO(), force_terminal=is_terminal, width=14, color_system=None)
        print_first(to, pa.table({"severity": ["high"], "sentence": ["Set it higher"]}))
        assert [line.rstrip() for line in to.file.getvalue().splitlines()] == [*lines, ""]
