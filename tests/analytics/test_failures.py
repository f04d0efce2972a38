"""What fails in the command's own process: one line, and what was found out is not lost."""

from pathlib import Path

import pytest
from pyarrow import parquet

from groupkeeper.analytics import answering
from groupkeeper.analytics.command import report as report_module
from groupkeeper.analytics.command.report import analyze
from groupkeeper.analytics.command.request import Request
from groupkeeper.analytics.store import tables as merging
from tests.analytics.logs import batch, commit, write_segment
from tests.analytics.power import KilledError
from tests.analytics.stored import analyzed, files


@pytest.fixture
def folder(tmp_path, capsys):
    """A log, and what was made of it."""
    log, out = tmp_path / "log", tmp_path / "out"
    grow(log)
    assert analyzed(log, out) == 0
    capsys.readouterr()
    return log, out


def grow(log):
    """By a commit."""
    place = log / "__consumer_offsets-0"
    offset = len([*place.glob("*.log")])
    write_segment(place, offset, batch([commit("g", "t", 0, offset)], offset))


def said(capsys):
    """One line."""
    printed, line = capsys.readouterr()
    assert (printed, line.count("\n")) == ("", 1)
    return line


def cut_off(path):
    path.write_bytes(path.read_bytes()[:100])


@pytest.mark.parametrize("broken", [lambda path: path.write_bytes(b""), cut_off])
def test_a_broken_answer_is_replaced(folder, broken):
    log, out = folder
    path = out / "answers" / "commit_rhythm.parquet"
    before = parquet.read_table(path)
    broken(path)
    assert analyzed(log, out) == 0
    assert parquet.read_table(path) == before


@pytest.mark.parametrize("table", ["coverage", "commit_minutes"])  # small, and cut into slices
@pytest.mark.parametrize("broken", [lambda path: path.write_bytes(b""), cut_off])
def test_a_broken_table_is_named(folder, capsys, broken, table):
    log, out = folder
    [path] = out.glob(f"{table}/*/open.parquet")
    broken(path)
    before = files(out)
    assert analyzed(log, out) == 2
    line = said(capsys)
    assert f"{path} cannot be read" in line
    assert "analyze the log anew with --rebuild, or into another folder" in line
    assert files(out) == before
    assert analyzed(log, out, rebuild=True) == 0


def test_a_broken_table_is_named_before_it_is_joined_with_others(folder, capsys, monkeypatch):
    log, out = folder
    monkeypatch.setattr(merging, "MOST_FILES", 1)
    grow(log)
    assert analyzed(log, out) == 0
    capsys.readouterr()
    path = min(out.glob("records/*/*.parquet"))
    cut_off(path)
    grow(log)
    assert analyzed(log, out) == 2
    assert f"{path} cannot be read" in said(capsys)


@pytest.mark.parametrize("name", ["coverage/*/open.parquet", "_groupkeeper/state.zip"])
def test_bytes_within_a_file_may_be_what_is_broken(folder, capsys, name):
    log, out = folder
    [path] = out.glob(name)
    data = bytearray(path.read_bytes())
    at = 4 if path.suffix == ".parquet" else len(data) // 2
    data[at : at + 36] = bytes(36)
    path.write_bytes(data)
    assert analyzed(log, out) == 2
    assert f"{path} cannot be read" in said(capsys)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            MemoryError(),
            "out of memory: try fewer workers (--workers 1), or fewer groups (--group)",
        ),
        (ValueError("not\nso"), "ValueError: not?so"),
    ],
)
def test_what_fails_in_the_command_itself_is_one_line(
    folder, capsys, monkeypatch, tmp_path, error, words
):
    def fails(*choice):
        raise error

    monkeypatch.setattr(answering, "ask", fails)
    assert analyze([folder[0]], Request(report=tmp_path / "report.html")) == 1
    assert said(capsys) == f"groupkeeper: {words}\n"


# -- files at the end ------------------------------------------------------------------------------


@pytest.mark.parametrize("as_json", [False, True])
def test_a_report_for_which_no_space_is_left_takes_nothing_with_it(
    folder, capsys, monkeypatch, tmp_path, as_json
):
    def full(*text, **how):
        raise OSError(28, "No space left on device")

    log, _ = folder
    report, csv = tmp_path / "report.html", tmp_path / "csv"
    analyze([log], Request(report=tmp_path / "other.html", as_json=as_json))
    lines = capsys.readouterr().out.splitlines()
    monkeypatch.setattr(Path, "write_text", full)
    assert analyze([log], Request(report=report, csv=csv, as_json=as_json)) == 1
    printed, line = capsys.readouterr()
    assert line == f"groupkeeper: the report {report} was not written: No space left on device\n"
    told = [each for each in lines if not each.startswith("Written to")]
    assert printed.splitlines()[: len(told)] == told
    assert "report.html" not in printed
    assert (csv / "findings.csv").is_file()
    assert not report.exists()


def test_csv_files_for_which_no_space_is_left_take_nothing_with_them(
    folder, capsys, monkeypatch, tmp_path
):
    def full(*rows):
        raise OSError(28, "No space left on device", "/t")

    monkeypatch.setattr(report_module, "write_csv", full)
    report, csv = tmp_path / "report.html", tmp_path / "csv"
    assert analyze([folder[0]], Request(report=report, csv=csv)) == 1
    printed, line = capsys.readouterr()
    assert line == "groupkeeper: No space left on device (/t)\n"
    assert "Groups: 1" in printed
    assert report.is_file()


# -- answers ---------------------------------------------------------------------------------------


def test_answers_of_the_run_before_are_not_beside_new_tables(folder, monkeypatch):
    log, out = folder
    ask = answering.ask

    def killed(*choice):
        raise KilledError

    monkeypatch.setattr(answering, "ask", killed)
    before = files(out)
    with pytest.raises(KilledError):
        analyzed(log, out)
    assert files(out) == before  # nothing is new
    grow(log)
    with pytest.raises(KilledError):
        analyzed(log, out)
    assert not [*out.glob("answers/*")]
    monkeypatch.setattr(answering, "ask", ask)
    assert analyzed(log, out) == 0
    assert parquet.read_table(out / "answers" / "findings.parquet").num_columns
