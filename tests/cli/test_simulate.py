"""`groupkeeper simulate`: tables and rows, and one line for what is wrong."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from groupkeeper.analytics.what_if.described import BUILT_IN, KEYS, text_of
from groupkeeper.analytics.what_if.designs import DESIGNS
from groupkeeper.analytics.what_if.events import VERBS
from groupkeeper.cli import main

Capture = pytest.CaptureFixture[str]

OURS = """\
title = "ours"
members = 3
partitions = 6
events = ["restart member=0-2 at=60s every=61s down=20s"]
"""


def rows_of(words: list[str], capsys: Capture) -> list[dict[str, object]]:
    assert main(["simulate", *words, "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_table_has_a_row_for_each_design(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "ours.toml"
    file.write_text(OURS)
    assert main(["simulate", str(file)]) == 0
    _, title, _, headings, *rows = capsys.readouterr().out.splitlines()
    assert title == "ours: 3 members, 6 partitions"
    assert headings.split() == [
        *("DESIGN", "REBALANCES", "MOVED", "MOVED-MOST", "UNAVAILABLE-S", "RESERVED-S"),
        *("IMBALANCE-S", "REJOINS", "ASKS"),
    ]
    assert [row.split()[0] for row in rows] == [*DESIGNS]
    assert next(row.split() for row in rows if row.startswith("eager+II")) == [
        *("eager+II", "0", "0", "0", "120", "120", "0", "0", "0")
    ]


def test_rows_as_json(capsys: Capture) -> None:
    eager, kept = rows_of(["killed-back", "--design", "eager", "--design", "eager+II"], capsys)
    assert (eager["history"], eager["design"], eager["rebalances"]) == ("killed-back", "eager", 1)
    assert (kept["rebalances"], kept["unavailable_s"]) == (0, 180.0)


def test_other_values_than_those_of_the_file(capsys: Capture) -> None:
    words = ["node-lost", "--design", "eager+II"]
    [long] = rows_of(words, capsys)
    [short] = rows_of([*words, "--set", "grace=10s", "--set", "session=6s"], capsys)
    assert (long["reserved_s"], short["reserved_s"]) == (360.0, 60.0)


def test_all_histories_are_simulated_if_none_is_given(capsys: Capture) -> None:
    found = rows_of(["--design", "I"], capsys)
    assert [row["history"] for row in found] == [*BUILT_IN]


def test_no_library_of_an_analysis_is_needed() -> None:
    script = (
        "import sys; from groupkeeper.cli import main; main(['simulate', 'scale-up']);"
        "assert not sys.modules.keys() & {'pyarrow', 'duckdb', 'numba', 'pandas'}"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


def test_a_file_to_copy(tmp_path: Path, capsys: Capture) -> None:
    assert main(["simulate", "scale-up", "--show"]) == 0
    text = capsys.readouterr().out
    assert text == text_of("scale-up")
    file = tmp_path / "copied.toml"
    file.write_text(text)
    [copied] = rows_of([str(file), "--design", "I"], capsys)
    [given] = rows_of(["scale-up", "--design", "I"], capsys)
    assert copied | {"history": ""} == given | {"history": ""}


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["nowhere.toml"], "'nowhere.toml' is no file, and none of rolling-leave, "),
        (["."], "'.': Is a directory"),
        (["scale-up", "--design", "IV"], "no design 'IV': it is one of eager, eager+II, I, "),
        (["scale-up", "--set", "grace"], "--set 'grace' is no KEY=VALUE"),
        (["scale-up", "--set", "events=kill"], "--set 'events=kill' is no KEY=VALUE"),
        (["scale-up", "--set", "grade=3s"], "scale-up: unknown key 'grade'"),
        (["scale-up", "--set", "grace=soon"], "scale-up: grace: 'soon' is no duration"),
        (["scale-up", "--set", "lasts=1min"], "scale-up: event 'scale-up by=4 at=60s every=4s'"),
    ],
)
def test_bad_input_is_one_line(words: list[str], problem: str, capsys: Capture) -> None:
    assert main(["simulate", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("groupkeeper: ")
    assert problem in err
    assert err.count("\n") == 1


def test_a_file_that_is_no_text_is_one_line(tmp_path: Path, capsys: Capture) -> None:
    for data, problem in ((b"\xff\xfe", "is no text in UTF-8"), (b"members = [", "no TOML")):
        file = tmp_path / "bad.toml"
        file.write_bytes(data)
        assert main(["simulate", str(file)]) == 2
        err = capsys.readouterr().err
        assert problem in err
        assert err.count("\n") == 1


def test_a_replay_without_end_is_refused(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("groupkeeper.analytics.what_if.replay.MOST_STEPS", 10)
    assert main(["simulate", "scale-up"]) == 1
    assert "scale-up under eager: no end after 10 steps" in capsys.readouterr().err


def test_the_help_names_all_that_a_file_may_have(capsys: Capture) -> None:
    assert main(["simulate", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split()).replace("- ", "-")
    for name in (*KEYS, *BUILT_IN, *DESIGNS):
        assert name in text, name
    for name, verb in VERBS.items():
        needs = " ".join(f"{each}=" for each in verb.needs)
        may = f" [{' '.join(f'{each}=' for each in verb.may)}]" if verb.may else ""
        assert f"{name} {needs}{may}" in text, name
