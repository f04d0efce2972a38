"""`groupkeeper analyze --report` and the answers beside the tables, on a real broker's log."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from groupkeeper.analytics import answering
from groupkeeper.analytics.answering import AskedTables, Chosen, answers, ask
from groupkeeper.analytics.command.report import analyze
from groupkeeper.analytics.command.request import Choice, Request
from groupkeeper.analytics.pipeline.engine import Engine
from groupkeeper.analytics.pipeline.output import Output, table_of
from groupkeeper.analytics.questions.registry import QUESTIONS
from groupkeeper.analytics.schemas import TABLES
from tests.analytics.questions.week import week
from tests.analytics.stored import read_tables

HOUR = 3_600_000
MORE = "10 of them shown; more with --report, all with --csv or --json"
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
    told = asked(written(tmp_path / "tables", week()))
    found = told[1]["findings"]
    monkeypatch.setattr(answering, "ask", lambda *choice: told)
    assert analyze([broker_copy], Request(out=tmp_path / "out")) == 0
    [_, after] = capsys.readouterr().out.split(f"Findings: {len(found)}\n")
    lines = after.splitlines()
    assert lines[0].split("  ", 1)[1].strip() == found["sentence"][0].as_py()
    assert (len(found) > 10, lines[10]) == (True, MORE)
    assert lines[12].startswith("Read ")
    assert analyze([broker_copy]) == 0
    assert "Findings" not in capsys.readouterr().out


def test_a_report_alone_leaves_nothing_else(
    broker_copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert analyze([broker_copy], Request(report=tmp_path / "report.html")) == 0
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]
    assert "report.html: " in capsys.readouterr().out


@pytest.mark.parametrize("keeps", [{}, {"out": "out"}, {"csv": "csv"}, {"as_json": True}])
def test_more_groups_are_replayed_where_answers_are_kept(
    broker_copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keeps: dict[str, Any]
) -> None:
    monkeypatch.setattr(answering, "WHAT_IF_DRAWN", 0)
    page = tmp_path / "report.html"
    kept = {name: tmp_path / to if isinstance(to, str) else to for name, to in keeps.items()}
    assert analyze([broker_copy], Request(report=page, **kept)) == 0
    assert ("Nothing was replayed" in page.read_text(encoding="utf-8")) is not bool(keeps)


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


def asked(folder: Path, chosen: Chosen = ALL) -> tuple[AskedTables, Any]:
    with Engine(1) as engine:
        return ask(folder, chosen, engine, 1, lambda stage, done, of: None)


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
    for since_ms, left in ((HOUR + 1, (1, 1, 0)), (None, (2, 2, 1))):
        history, found = asked(folder, Chosen(since_ms=since_ms))
        shown = history.shown(found)
        assert tuple(len(shown[name]) for name in ("rounds", "sessions", "ownership")) == left


def test_a_report_is_given_the_large_tables_of_few_groups(tmp_path: Path) -> None:
    groups = [f"g{number}" for number in range(100)]
    tables = made(
        rounds=[row("rounds", group=each, started=0, ended=HOUR) for each in groups],
        ownership=[row("ownership", group=each, **{"from": 0, "topic": "t"}) for each in groups],
    )
    history, _ = asked(written(tmp_path / "tables", tables))
    empty = {"findings": table_of("coverage", []).append_column("group", [[]])}
    few = history.shown(empty)
    assert len(few["ownership"]) == 60
    assert len(few["rounds"]) == 100


def test_a_folder_without_rows_has_empty_tables(tmp_path: Path) -> None:
    found = read_tables(tmp_path)
    assert {len(table) for table in found.values()} == {0}
    history, answers = asked(tmp_path)
    assert {len(table) for table in answers.values()} == {0}
    assert not history.not_known()


@pytest.mark.parametrize("threads", [1, 2])
def test_files_are_answered_as_tables_are(tmp_path: Path, threads: int) -> None:
    tables = week()
    folder = written(tmp_path / "tables", tables)
    with Engine(1) as engine:
        history, found = ask(
            folder, Chosen(ends=tables["log_ends"]), engine, threads, lambda *stage: None
        )
    assert {name: found[name] for name in (*QUESTIONS, "findings")} == answers(tables)
    shown = history.shown(found)["ownership"]
    order = [(name, "ascending") for name in ("group", "topic_partition", "from")]
    assert shown.sort_by(order) == tables["ownership"].sort_by(order)


def test_a_choice_of_groups_quotes_their_names(tmp_path: Path) -> None:
    names = ["o'hara", "x'; drop table reach; --", "mail \u00fc"]
    tables = made(rounds=[row("rounds", group=each, started=0, ended=HOUR) for each in names])
    folder = written(tmp_path / "tables", tables)
    for name in names:
        _, found = asked(folder, Chosen([name]))
        assert found["rebalance_rate"]["group"].to_pylist() == [name]
    assert not len(asked(folder, Chosen([]))[1]["rebalance_rate"])


def test_rates_are_those_of_the_time_that_was_chosen(tmp_path: Path) -> None:
    day = 24 * HOUR
    whole = {"known_from_offset": 0, "from": 0, "known_from": 0, "until": 14 * day}
    times = [*range(0, 13 * day, HOUR), *range(13 * day, 14 * day, HOUR // 4)]
    lasting = {"duration_ms": 60_000, "generation": 2}
    back = {"member": "a", "client_id": "a", "away_ms": 30_000, "until": None}
    tables = made(
        coverage=[row("coverage", log="__group_events", **whole)],
        rounds=[row("rounds", started=at, ended=at + 60_000, **lasting) for at in times],
        sessions=[row("sessions", **back, **{"from": at}) for at in (HOUR, 13 * day + HOUR)],
    )
    folder = written(tmp_path / "tables", tables)
    history, found = asked(folder, Chosen(since_ms=13 * day))
    [rate] = found["rebalance_rate"].to_pylist()
    assert (rate["rounds"], rate["per_day"]) == (96, 96.0)
    [stable] = found["not_stable"].to_pylist()
    assert stable["share"] == pytest.approx(96 / 1440)
    assert [each["restarts"] for each in found["restart_gaps"].to_pylist()] == [1]
    [known] = history.small["coverage"].column("from").cast("int64").to_pylist()
    assert known == 13 * day
    _, late = asked(folder, Chosen(since_ms=20 * day))
    assert not len(late["rebalance_rate"])
    assert not len(late["restart_gaps"])
    assert not history.small["sessions"]["away_ms"][0].is_valid
    whole_of_it, _ = asked(folder, Chosen(since_ms=0))
    assert whole_of_it.small["coverage"] == asked(folder)[0].small["coverage"]


@pytest.mark.parametrize(
    ("workers", "below", "used"), [(None, 2**40, 1), (None, 1, None), (2, 2**40, 2)]
)
def test_a_run_that_reads_little_asks_of_all_that_is_there(
    broker_copy: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    workers: int | None,
    below: int,
    used: int | None,
) -> None:
    assert analyze([broker_copy], Request(out=tmp_path)) == 0
    made: list[int | None] = []

    class Watched(Engine):
        def __init__(self, workers: int | None = None) -> None:
            made.append(workers)
            super().__init__(1)

    monkeypatch.setattr("groupkeeper.analytics.pipeline.engine.Engine", Watched)
    monkeypatch.setattr("groupkeeper.analytics.pipeline.engine.ONE_PROCESS_BELOW", below)
    assert analyze([broker_copy], Request(out=tmp_path, workers=workers)) == 0
    assert made == [used]
