"""`groupkeeper analyze --report` and the answers beside the tables, on a real broker's log."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from groupkeeper.analytics.answering import ask, of_groups, shown, since
from groupkeeper.analytics.history.rows import table_of
from groupkeeper.analytics.history.schemas import TABLES
from groupkeeper.analytics.pipeline.engine import LocalEngine
from groupkeeper.analytics.questions.registry import QUESTIONS
from groupkeeper.analytics.report import analyze
from groupkeeper.analytics.request import Choice, Request
from groupkeeper.analytics.store.tables import read_days

HOUR = 3_600_000


def row(name: str, **values: object) -> dict[str, object]:
    always = {"group": "g", "source": "events", "confidence": 1.0, "partition": 0, "offset": 1}
    return {each.name: always.get(each.name) for each in TABLES[name].columns} | values


def made(**rows: list[dict[str, object]]) -> dict[str, object]:
    return {name: table_of(name, rows.get(name, [])) for name in TABLES}


def test_a_report_is_written_with_findings_and_answers(
    broker_copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, out, csv = tmp_path / "report.html", tmp_path / "out", tmp_path / "csv"
    request = Request(out=out, csv=csv, report=page, as_json=True)
    assert analyze([broker_copy], request) == 0
    text = page.read_text(encoding="utf-8")
    assert "billing" in text
    assert "src=" not in text
    told = {json.loads(line)["table"] for line in capsys.readouterr().out.splitlines()}
    assert told >= {"groups", "rebalance_rate", "what_if"}
    assert {each.stem for each in csv.iterdir()} >= {"findings", "what_if", *QUESTIONS, "groups"}
    rate = pq.read_table(out / "answers" / "rebalance_rate.parquet")
    assert "billing" in rate.column("group").to_pylist()


def test_a_report_alone_leaves_nothing_else(
    broker_copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert analyze([broker_copy], Request(report=tmp_path / "report.html")) == 0
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]
    assert "report.html: " in capsys.readouterr().out


def test_a_report_that_cannot_be_written_is_refused_before_the_work(
    broker_copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert analyze([broker_copy], Request(out=out, report=tmp_path)) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n"), out.exists()) == ("", 1, False)


def test_a_choice_holds_for_answers(broker_copy: Path, tmp_path: Path) -> None:
    page, out = tmp_path / "report.html", tmp_path / "out"
    choice = Choice(groups=frozenset({"billing"}))
    assert analyze([broker_copy], Request(out=out, report=page, choice=choice)) == 0
    rate = pq.read_table(out / "answers" / "rebalance_rate.parquet")
    assert set(rate.column("group").to_pylist()) == {"billing"}
    assert "--group billing" in page.read_text(encoding="utf-8")


def test_rows_that_were_over_before_are_left_out() -> None:
    tables = made(
        rounds=[row("rounds", started=0, ended=HOUR), row("rounds", started=0, ended=2 * HOUR)],
        sessions=[
            row("sessions", **{"from": 0, "until": HOUR}),
            row("sessions", **{"from": 0, "until": None}),
        ],
    )
    found = since(tables, HOUR + 1)
    assert (len(found["rounds"]), len(found["sessions"])) == (1, 1)
    assert since(tables, None) is tables


def test_a_report_is_given_the_large_tables_of_few_groups(tmp_path: Path) -> None:
    groups = [f"g{number}" for number in range(100)]
    tables = made(
        rounds=[row("rounds", group=each, started=0, ended=HOUR) for each in groups],
        ownership=[row("ownership", group=each, **{"from": 0, "topic": "t"}) for each in groups],
    )
    empty = {"findings": table_of("coverage", []).append_column("group", [[]])}
    few = shown(tables, empty)
    assert len(few["ownership"]) == 60
    assert len(few["rounds"]) == 100


def test_a_folder_without_rows_has_empty_tables(tmp_path: Path) -> None:
    found = read_days(tmp_path)
    assert {len(table) for table in found.values()} == {0}
    assert of_groups(found, None) is found
    with LocalEngine(1) as engine:
        _, answers = ask(tmp_path, Choice(), None, engine, lambda stage, done, of: None)
    assert {len(table) for table in answers.values()} == {0}
