"""The benchmark of the analysis: its logs, its cases on a small log, and its tables."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("numba")

from benchmarks import analysis, analysis_cases, processes
from benchmarks.analysis_logs import PARTITIONS, Log, log_of
from benchmarks.analysis_report import Figure, Measured, Results, expected, markdown
from benchmarks.analysis_rows import tuples
from benchmarks.processes import Process, Watch
from groupkeeper.analytics.reading import parse_split
from groupkeeper.analytics.reading.plan import plan

GROUPS = 6


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Log:
    """A log of a few groups."""
    return log_of(tmp_path_factory.mktemp("logs"), 1, "mixed", GROUPS)


@pytest.fixture
def alone(made: Log, monkeypatch: pytest.MonkeyPatch) -> Log:
    """With the group of the benchmark in it."""
    monkeypatch.setattr(analysis, "log_of", lambda *_: made)
    return made


def rows_of(log: Log, names: list[str]) -> list[dict[str, Any]]:
    splits = (split for chunk in plan([log.data]).chunks for split in chunk)
    batches = (batch for split in splits for batch in parse_split(split, names))
    return [row for batch in batches for row in batch.to_pylist()]


def test_a_log_is_about_as_large_as_asked_for_and_kept(made: Log) -> None:
    assert 0.7e6 < made.size < 1.5e6
    assert made.events
    names = ["partition", "key_type", "group", "attributes", "problem"]
    rows = rows_of(made, names)
    assert len(rows) == made.records
    assert {row["problem"] for row in rows} == {None}
    assert {row["key_type"] for row in rows} == {None, 1, 2}
    assert analysis_cases.GROUP in {row["group"] for row in rows}
    assert max(row["partition"] for row in rows) < PARTITIONS
    written = {file: file.stat().st_mtime_ns for file in made.data.glob("*/*.log")}
    again = log_of(made.data.parent.parent, 1, "mixed", GROUPS)
    assert again == made
    assert written == {file: file.stat().st_mtime_ns for file in made.data.glob("*/*.log")}


def test_tuples_are_the_records_of_the_parser(made: Log) -> None:
    """So what is compared does the same work."""
    names = ["batch_position", "offset", "timestamp_ms", "leader_epoch", "producer_id"]
    names += ["attributes", "group", "topic", "topic_partition", "committed_offset"]
    names += ["commit_leader_epoch", "commit_timestamp_ms", "metadata", "tombstone", "value"]
    files = sorted(made.data.glob("__consumer_offsets-*/*.log"), key=lambda each: int(
        each.parent.name.rpartition("-")[2]
    ))  # fmt: skip
    found = [row for file in files for row in tuples(file)]
    wanted = [tuple(row[name] for name in names) for row in rows_of(made, names)]
    is_control = [row["attributes"] & 0x20 for row in rows_of(made, ["attributes"])]
    assert len(found) == len(wanted)
    for one, other, control in zip(found, wanted, is_control, strict=True):
        # The value of a marker is kept raw by both.
        assert one == other or control


@pytest.mark.parametrize(
    ("case", "figures"),
    [
        ("alone", {"all", "five", "one"}),
        ("alone-2", {"all"}),
        ("analyze-group", {"all"}),
        ("stages", {"interpreter", "imports", "planning", "reading", "groups", "questions"}),
    ],
)
def test_a_case_prints_what_it_measured(made: Log, case: str, figures: set[str]) -> None:
    results = Results({made.name: made})
    analysis.run(case, made, 1, results)
    measured = results.of(made.name, case)
    assert figures <= measured.figures.keys()
    assert all(min(each.seconds) >= 0 for each in measured.figures.values())
    assert measured.python_mib > 10
    assert measured.java_mib == 0


@pytest.mark.spark
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("case", "figures"),
    [
        ("spark", {"start", "first", "all", "five", "one", "group"}),
        ("rows", {"start", "all"}),
        ("commits", {"start", "warm table", "warm scan"}),
    ],
)
def test_a_case_with_spark_prints_what_it_measured(made: Log, case: str, figures: set[str]) -> None:
    results = Results({made.name: made})
    analysis.run(case, made, 1, results)
    measured = results.of(made.name, case)
    assert figures <= measured.figures.keys()
    assert measured.java_mib > 100


def test_a_case_that_fails_ends_the_run_with_one_line(
    made: Log, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = Log(made.data / "gone", "mixed", 1, 0, 1)
    monkeypatch.setattr(analysis, "log_of", lambda *_: gone)
    assert analysis.main(["--quick", "--cases", "alone"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("benchmarks.analysis: alone with 0 MB mixed: ")
    assert len(said.splitlines()) == 1


def test_a_quick_run_prints_tables_and_writes_nothing(
    alone: Log, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(analysis, "RESULT", tmp_path / "ANALYSIS.md")
    assert analysis.main(["--quick", "--cases", "alone"]) == 0
    printed = capsys.readouterr().out
    assert "| parser alone, one process, all columns |" in printed
    assert "- Command: `python -m benchmarks.analysis --quick --cases alone`" in printed
    assert not (tmp_path / "ANALYSIS.md").exists()


@pytest.mark.parametrize("given", [["--cases", "alone,spork"], ["--rounds", "0"], ["--sizes", "x"]])
def test_wrong_options_are_refused(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        analysis.main(given)
    assert ended.value.code == 2
    assert "error: " in capsys.readouterr().err


def log(size: int, kind: str = "mixed") -> Log:
    return Log(Path("data"), kind, size * 10**6, 0, size)


def test_comparisons_and_once_only_cases_run_where_they_belong() -> None:
    logs = [log(50), log(500), log(100, "plain")]
    work = analysis.work_of(logs, ["alone", "rows", "stages"])
    assert [(case, each.name) for case, each in work] == [
        ("alone", "50 MB mixed"),
        ("rows", "50 MB mixed"),
        ("stages", "50 MB mixed"),
        ("alone", "500 MB mixed"),
        ("stages", "500 MB mixed"),
        ("alone", "100 MB plain"),
    ]


def measured(mib: float = 0.0, **seconds: float) -> Measured:
    return Measured({name: Figure([s], [2 * s]) for name, s in seconds.items()}, mib)


def test_tables_have_ratios_to_the_parser_alone_and_what_is_expected() -> None:
    logs = [log(500), log(2000), log(100, "plain"), log(100, "transactional")]
    results = Results({each.name: each for each in logs})
    results.measured = {
        ("500 MB mixed", "spark"): measured(300, all=5.0),
        ("2,000 MB mixed", "alone"): measured(200, all=8.0),
        ("2,000 MB mixed", "spark"): measured(630, all=16.0, five=12.0, group=4.0),
        ("100 MB plain", "spark"): measured(all=1.0),
        ("100 MB transactional", "spark"): measured(all=1.05),
    }
    text = markdown(results, "command")
    assert "| Spark, all columns, warm | 16.00 | 125 | 0.50 | 32.0 | 630 | - |" in text
    assert expected(results).splitlines()[2:] == [
        "| warm scan, all columns, to the parser alone | at least 0.48 | 0.5 | yes |",
        "| five columns | at least 0.63 | 0.667 | yes |",
        "| scan of transactions over plain commits, time per byte | at most 1.1 | 1.05 | yes |",
        "| scan of a group over all | at most 0.2 | 0.25 | no |",
        "| largest Python process, MiB | at most 600 | 630 | no |",
        "| cost per byte of a scan, to the log before | at most 1.2 | 0.8 | yes |",
        "| memory of a scan, to the log before | at most 1.2 | 2.1 | no |",
    ]


def test_a_watch_knows_processes_that_have_ended() -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'sum(range(20000000))'])"
    process = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    watch = Watch(process.pid)
    while process.poll() is None:
        watch.look()
    assert len(watch.processes) == 2
    assert watch.cpu_s > 0.1
    assert watch.peak_mib(is_java=False) > 5
    assert watch.peak_mib(is_java=True) == 0
    assert os.getpid() not in watch.processes


def test_memory_of_a_parent_does_not_count_for_the_program_that_replaced_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A child of Java has all of Java's memory until it becomes another program."""
    seen = [
        {7: Process("java -jar", 0.1, 600.0)},
        {7: Process("python worker", 0.2, 30.0)},
        {7: Process("python worker", 0.3, 20.0)},
        {7: Process("", 0.4, 0.0)},  # it has ended and was not waited for yet
    ]
    monkeypatch.setattr(processes, "session_of", lambda _: seen.pop(0))
    watch = Watch(7)
    for _ in range(4):
        watch.look()
    assert (watch.peak_mib(is_java=False), watch.peak_mib(is_java=True)) == (30.0, 0.0)
    assert watch.cpu_s == 0.4


def test_a_case_can_be_run_by_hand(made: Log, capsys: pytest.CaptureFixture[str]) -> None:
    assert analysis_cases.main(["alone", str(made.data), "--repeats", "2"]) == 0
    assert len(json.loads(capsys.readouterr().out)["one"]) == 2
