"""Tables on a file system of pyarrow that is none of this machine's: no lock, no rename."""

from pathlib import Path

import pytest
from pyarrow import fs

from groupkeeper.analytics.command import report
from groupkeeper.analytics.command.request import Request
from groupkeeper.analytics.reading import files
from groupkeeper.analytics.store import durable
from groupkeeper.analytics.store.durable import LOCK
from tests.analytics.logs import batch, commit, group, write_segment
from tests.analytics.logs import log as log_of
from tests.analytics.stored import analyzed, ask_little, ended, read_tables, rows, same

OUT = "s3://bucket/out?region=nowhere"
FIRST = batch([commit("g", "t", 0, 1)])
BOTH = log_of(FIRST, batch([group("g", 1, "m")]))


@pytest.fixture(autouse=True)
def there(tmp_path, monkeypatch):
    """The folder in which the bucket is."""
    ask_little(monkeypatch)
    system = fs.LocalFileSystem(), str(tmp_path / "there")
    monkeypatch.setattr(files, "_system", lambda url: system)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "there" / "out"


@pytest.fixture
def log(tmp_path):
    write_segment(tmp_path / "log" / "__consumer_offsets-0", 0, FIRST)
    return tmp_path / "log"


def grow(log):
    write_segment(log / "__consumer_offsets-0", 0, BOTH)


def test_a_second_run_goes_on_there(log, there, tmp_path, capsys):
    assert analyzed(log, OUT) == 0
    assert f"Written to {OUT}" in capsys.readouterr().out
    grow(log)
    assert analyzed(log, OUT) == 0
    assert analyzed(log, tmp_path / "here") == 0
    same(rows(there), rows(tmp_path / "here"))
    assert len(read_tables(files.place(OUT))["rounds"]) == 1
    assert ended(there)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["here", "log", "there"]


def test_another_run_at_the_same_time_is_refused(log, there, capsys):
    assert analyzed(log, OUT) == 0
    (there / LOCK).write_text("process 7 on elsewhere")
    before = rows(there)
    capsys.readouterr()
    grow(log)
    assert analyzed(log, OUT) == 2
    assert capsys.readouterr().err == (
        f"groupkeeper: another analysis writes to {OUT}, process 7 on elsewhere: wait until it "
        f"ends; if it was killed, remove {LOCK} there\n"
    )
    same(rows(there), before)
    (there / LOCK).unlink()
    assert analyzed(log, OUT) == 0
    assert ended(there)


def test_the_later_of_two_that_begin_at_once_has_the_lock(log, there, monkeypatch, capsys):
    assert analyzed(log, OUT) == 0
    before = rows(there)
    grow(log)
    put = durable._put_lock

    def outrun(of):
        ours = put(of)
        (there / LOCK).write_text("process 8")
        return ours

    monkeypatch.setattr(durable, "_put_lock", outrun)
    capsys.readouterr()
    assert analyzed(log, OUT) == 2
    assert "another analysis has begun to write to s3://bucket/out" in capsys.readouterr().err
    same(rows(there), before)
    assert (there / LOCK).read_text() == "process 8"


@pytest.mark.parametrize(
    "request_",
    [
        Request(report=Path("s3://bucket/report.html")),
        Request(csv=Path("hdfs://name/csv")),
        Request(Path("ftp://host/out")),
        Request("ftp://host/out"),
    ],
)
def test_other_urls_are_no_folders_of_this_machine(request_, log, tmp_path, capsys):
    assert report.analyze([log], request_) == 2
    printed, said = capsys.readouterr()
    assert (printed, said.count("\n")) == ("", 1)
    assert "is not a local path: only --out writes to other file systems" in said
    assert [each.name for each in tmp_path.iterdir()] == ["log"]
