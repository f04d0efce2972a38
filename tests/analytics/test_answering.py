"""`groupkeeper analyze --report` and the answers beside the tables, on a real broker's log."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from groupkeeper.analytics import answering
from groupkeeper.analytics.answering import LARGE, Chosen, History, ask
from groupkeeper.analytics.history.rows import table_of
from groupkeeper.analytics.history.schemas import TABLES
from groupkeeper.analytics.pipeline.engine import LocalEngine
from groupkeeper.analytics.pipeline.output import Output
from groupkeeper.analytics.questions.registry import OF_GROUPS, QUESTIONS, answers
from groupkeeper.analytics.report import analyze
from groupkeeper.analytics.request import Choice, Request
from groupkeeper.analytics.store.slices import cut
from groupkeeper.analytics.store.tables import read_days
from tests.analytics.questions.week import week

HOUR = 3_600_000
ALL = Chosen()


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


def test_the_first_findings_are_said_before_what_was_read(
    broker_copy: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = asked(written(tmp_path / "tables", week()), tmp_path / "slices")
    found = told[1]["findings"]
    monkeypatch.setattr(answering, "ask", lambda *choice: told)
    assert analyze([broker_copy], Request(out=tmp_path / "out")) == 0
    [_, after] = capsys.readouterr().out.split(f"Findings: {len(found)}\n")
    lines = after.splitlines()
    assert lines[0].split("  ", 1)[1].strip() == found["sentence"][0].as_py()
    assert (len(found) > 10, lines[10]) == (True, "10 of them shown; --report has all")
    assert lines[12].startswith("Read ")
    assert analyze([broker_copy]) == 0
    assert "Findings" not in capsys.readouterr().out


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


def written(folder: Path, tables: dict[str, Any]) -> Path:
    """A folder of tables, as a run of the pipeline leaves it."""
    with Output(folder).part("some") as part:
        for name, rows in tables.items():
            part.write(name, rows)
    return folder


def asked(folder: Path, scratch: Path, chosen: Chosen = ALL) -> tuple[History, Any]:
    with LocalEngine(1) as engine:
        return ask(folder, chosen, engine, scratch, lambda stage, done, of: None)


def test_rows_that_were_over_before_are_left_out(tmp_path: Path) -> None:
    tables = made(
        rounds=[row("rounds", started=0, ended=HOUR), row("rounds", started=0, ended=2 * HOUR)],
        sessions=[
            row("sessions", **{"from": 0, "until": HOUR}),
            row("sessions", **{"from": 0, "until": None}),
        ],
        ownership=[row("ownership", **{"from": 0, "until": HOUR, "topic": "t"})],
    )
    folder = written(tmp_path / "tables", tables)
    history, _ = asked(folder, tmp_path / "slices", Chosen(since_ms=HOUR + 1))
    assert (len(history.small["rounds"]), len(history.small["sessions"])) == (1, 1)
    assert history.slices.rows["ownership"] == 0
    whole, _ = asked(folder, tmp_path / "others")
    assert (len(whole.small["rounds"]), whole.slices.rows["ownership"]) == (2, 1)


def test_a_report_is_given_the_large_tables_of_few_groups(tmp_path: Path) -> None:
    groups = [f"g{number}" for number in range(100)]
    tables = made(
        rounds=[row("rounds", group=each, started=0, ended=HOUR) for each in groups],
        ownership=[row("ownership", group=each, **{"from": 0, "topic": "t"}) for each in groups],
    )
    history, _ = asked(written(tmp_path / "tables", tables), tmp_path / "slices")
    empty = {"findings": table_of("coverage", []).append_column("group", [[]])}
    few = history.shown(empty)
    assert len(few["ownership"]) == 60
    assert len(few["rounds"]) == 100


def test_a_folder_without_rows_has_empty_tables(tmp_path: Path) -> None:
    found = read_days(tmp_path)
    assert {len(table) for table in found.values()} == {0}
    history, answers = asked(tmp_path, tmp_path / "slices")
    assert {len(table) for table in answers.values()} == {0}
    assert not history.not_known()


@pytest.mark.parametrize("workers", [1, 2])
def test_slices_of_groups_are_answered_as_all_groups_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    monkeypatch.setattr(answering, "cut", partial(cut, most_rows=50))
    tables = week()
    with LocalEngine(workers) as engine:
        folder = written(tmp_path / "tables", tables)
        history, found = ask(folder, Chosen(), engine, tmp_path / "slices", lambda *stage: None)
    in_use = {path.parent for path in tmp_path.glob("slices/*/commit_minutes.arrow")}
    assert len(in_use) == 3
    assert {name: found[name] for name in (*QUESTIONS, "findings")} == answers(tables)
    shown = history.shown(found)["ownership"]
    order = [(name, "ascending") for name in ("group", "topic_partition", "from")]
    assert shown.sort_by(order) == tables["ownership"].sort_by(order)


def test_questions_that_need_all_groups_read_no_table_that_is_cut() -> None:
    read = {
        name for each in QUESTIONS.values() if each.name not in OF_GROUPS for name in each.reads
    }
    assert read
    assert not read & {*LARGE}
