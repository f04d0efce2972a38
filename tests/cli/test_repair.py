"""`groupkeeper repair` over directories that a server has left: what it says, its exit codes."""

import fcntl
import os
import re
from collections.abc import Callable
from pathlib import Path
from shutil import rmtree

import pytest

from groupkeeper.cli import main
from groupkeeper.cli.repair.text import SHOWN
from groupkeeper.protocol.placement import partition_of
from groupkeeper.protocol.record_batch import iter_batches
from tests.support.damaged import PARTITIONS, SETTINGS, live
from tests.support.directories import save
from tests.support.served import Served

Capture = pytest.CaptureFixture[str]

GROUP = "group-0"
LOG = f"__consumer_offsets-{partition_of(GROUP, PARTITIONS)}"


@pytest.fixture
def directory(serve: Callable[..., Served], tmp_path: Path) -> Path:
    """Of a server that was stopped."""
    served = serve(*SETTINGS)
    live(served)
    served.stop()
    save(served.disk, tmp_path / "data")
    return tmp_path / "data"


def first_segment(directory: Path, name: str = LOG) -> Path:
    return directory / name / f"{0:020}.log"


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def flip_in_batch(path: Path, number: int) -> None:
    """Damage the records of a batch."""
    header = [*iter_batches(path.read_bytes())][number]
    flip(path, header.end - 2)


@pytest.fixture
def damaged(directory: Path) -> Path:
    """With one damaged batch in the log of some groups."""
    flip_in_batch(first_segment(directory), 6)
    return directory


def snapshot(directory: Path) -> dict[str, bytes]:
    paths = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in paths}


def run(capsys: Capture, *arguments: str | Path) -> tuple[int, str]:
    code = main(["repair", *map(str, arguments)])
    out, err = capsys.readouterr()
    assert err == "", err
    return code, out


def test_without_damage_there_is_nothing_to_repair(directory: Path, capsys: Capture) -> None:
    before = snapshot(directory)
    for arguments in ([directory], [directory, "--write"], [first_segment(directory)]):
        code, out = run(capsys, *arguments)
        assert code == 0
        assert out.splitlines()[-1].endswith(": nothing to repair")
    assert snapshot(directory) == before
    code, out = run(capsys, directory)
    assert re.match(r"Sound: 4 logs of groups, with \d+ groups, 1 member, \d+ offsets \(in ", out)
    assert re.search(r"^Sound: 6 other logs, with \d+ records$", out, re.MULTILINE)


def test_it_shows_what_is_readable_and_changes_nothing(damaged: Path, capsys: Capture) -> None:
    before = snapshot(damaged)
    code, out = run(capsys, damaged)
    assert code == 1
    assert snapshot(damaged) == before
    lines = out.splitlines()
    assert lines[0] == f"A server does not open {damaged}/{LOG}:"
    assert re.search(rf"{LOG}/0+\.log: the batch at byte \d+ is damaged", lines[1])
    assert re.match(r"  readable  \d+ groups, 0 members, \d+ offsets \(in \d+ records\)$", lines[2])
    assert lines[3] == "  lost      up to 1 record"
    assert re.search(r"left out bytes \d+ to \d+, offsets (\d+) to \1$", lines[4])
    assert (
        f"Nothing was changed. To keep what is readable: groupkeeper repair --write {damaged}"
        in out
    )


def test_it_repairs_keeps_the_originals_and_is_done(damaged: Path, capsys: Capture) -> None:
    before = snapshot(damaged)
    code, out = run(capsys, damaged, "--write")
    assert code == 0
    [originals] = damaged.glob("repaired-*Z")
    assert re.fullmatch(r"repaired-\d{8}T\d{6}Z", originals.name)
    assert f"Repaired. The originals are in {originals}:" in out
    kept = snapshot(originals)
    report = kept.pop("report.txt").decode()
    assert out.startswith(report)
    assert {name for name in kept if name.startswith(LOG)} == {
        name for name in before if name.startswith(LOG)
    }
    assert all(before[name] == data for name, data in kept.items())
    code, out = run(capsys, damaged, "--write")
    assert (code, out.splitlines()[-1]) == (0, f"{damaged}: nothing to repair")
    assert [*damaged.glob("repaired-*")] == [originals]


def test_long_lists_are_cut_on_a_terminal_only(
    directory: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = first_segment(directory)
    for number in range(0, len([*iter_batches(path.read_bytes())]), 2):
        flip_in_batch(path, number)
    _, whole = run(capsys, directory)
    wanted = whole.count("left out bytes")
    assert wanted > SHOWN
    with monkeypatch.context() as terminal:
        terminal.setattr("sys.stdout.isatty", lambda: True)
        _, out = run(capsys, directory)
    assert out.count("left out bytes") == SHOWN
    assert re.search(r"^ +and \d+ more: `\| less` shows them$", out, re.MULTILINE)
    run(capsys, directory, "--write")
    [report] = directory.glob("repaired-*/report.txt")
    assert report.read_text().count("left out bytes") == wanted


def test_messages_of_topics(directory: Path, capsys: Capture) -> None:
    flip_in_batch(first_segment(directory, "orders-0"), 6)
    _, out = run(capsys, directory / "orders-0")
    assert re.search(r"readable  29 records, offsets 0 to 29$", out, re.MULTILINE)
    assert "lost      up to 1 record\n" in out
    assert "payments" not in out
    code, _ = run(capsys, directory / "orders-0", "--write")
    assert code == 0
    assert run(capsys, directory)[0] == 0


def test_the_end_of_a_log_that_is_left_out_is_told(directory: Path, capsys: Capture) -> None:
    """Damage elsewhere makes a repair necessary; the end may be a torn append or damage."""
    flip_in_batch(first_segment(directory, "orders-0"), 6)
    path = sorted((directory / "orders-0").glob("*.log"))[-1]
    with path.open("ab") as file:
        file.write(b"unfinished")
    _, out = run(capsys, directory / "orders-0")
    assert re.search(rf"^ +.*{path.name}: left out bytes \d+ to \d+$", out, re.MULTILINE)


def test_an_archive_that_may_have_what_is_lost_is_named(damaged: Path, capsys: Capture) -> None:
    assert "  archive  " not in run(capsys, damaged)[1]
    archive = damaged / "archive" / LOG
    archive.mkdir(parents=True)
    (archive / f"{0:020}.log").touch()
    assert run(capsys, damaged)[1].count(f": groupkeeper dump {archive}\n") == 1


def test_damage_to_the_catalog_and_to_the_format(directory: Path, capsys: Capture) -> None:
    for name in ("catalog", "catalog-copy"):
        rmtree(directory / name)
    flip(directory / "format", 3)
    code, out = run(capsys, directory)
    assert code == 1
    assert f"A server does not start: {directory}/format is damaged" in out
    assert "A server does not open the catalog of topics:\n" in out
    assert "  cluster   the id is lost; a repair creates a new one\n" in out
    assert "topic orders with 1 partition or more\n" in out
    code, out = run(capsys, directory, "--write")
    assert code == 0
    code, out = run(capsys, directory)
    assert (code, out.splitlines()[-1]) == (0, f"{directory}: nothing to repair")


# -- refusals --------------------------------------------------------------------------------------


def refused(capsys: Capture, *arguments: str | Path, code: int = 1) -> str:
    assert main(["repair", *map(str, arguments)]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("groupkeeper: ")
    assert err.count("\n") == 1
    return err


@pytest.mark.parametrize("arguments", [[], ["--write"]])
def test_a_running_server_is_in_the_way(
    damaged: Path, arguments: list[str], capsys: Capture
) -> None:
    with (damaged / "nodes" / "0").open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        err = refused(capsys, damaged, *arguments)
        assert re.search(r"node 0 is running on \S+ \(pid \d+\): stop it first", err)
        refused(capsys, damaged / LOG, *arguments)


def test_another_user_would_leave_files_that_the_server_cannot_write(
    damaged: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert main(["repair", str(damaged)]) == 1
    capsys.readouterr()
    before = snapshot(damaged)
    assert "belongs to the user " in refused(capsys, damaged, "--write")
    assert snapshot(damaged) == before


def test_a_path_without_logs(tmp_path: Path, capsys: Capture) -> None:
    assert "there is nothing to repair" in refused(capsys, tmp_path, code=2)
    assert "does not exist" in refused(capsys, tmp_path / "missing", code=2)


def test_a_disk_that_is_full_changes_nothing(
    damaged: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_: object) -> None:
        raise OSError(28, "No space left on device")

    before = snapshot(damaged)
    monkeypatch.setattr(os, "link", no_room)
    monkeypatch.setattr(os, "pwrite", no_room)
    err = refused(capsys, damaged, "--write")
    assert "No space left on device; the repair is incomplete, and the originals are kept" in err
    after = snapshot(damaged)
    assert {name: data for name, data in after.items() if "repaired-" not in name} == before
