"""The library that makes a disk slow, under a process of Python."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.preload import NEVER_MS, SYNCS, NoCompilerError, Slow, build, slowed

CALLS = """
import ctypes, os, sys
folder = sys.argv[1]
name = os.path.join(folder, "a")
fd = os.open(name, os.O_RDWR | os.O_CREAT)
os.write(fd, b"1"); os.pwrite(fd, b"2", 0); os.pread(fd, 1, 0); os.fsync(fd); os.fdatasync(fd)
ctypes.CDLL(None).syncfs(fd)
os.ftruncate(fd, 0); os.close(fd)
os.chdir(folder)
os.replace("a", "b"); os.link("b", "c"); os.unlink("c"); os.mkdir("d")
print(os.getpid())
"""

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("library"))


def run(folder: Path, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", "-c", CALLS, str(folder)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def seen(tmp_path: Path, library: Path, rules: list[Slow], flag: Path | None = None) -> list[str]:
    """Function and file of each call that waited; all were calls of the main thread."""
    log = tmp_path / "seen"
    done = run(tmp_path, dict(slowed(rules, library, flag=flag, seen=log)))
    assert done.returncode == 0, done.stderr
    lines = log.read_text().splitlines()
    assert {line.split()[0] for line in lines} <= {done.stdout.strip()}
    return [line.split(" ", 1)[1].replace(f"{tmp_path}/", "") for line in lines]


def test_each_call_about_a_file_below_the_folder_waits(tmp_path: Path, library: Path) -> None:
    assert seen(tmp_path, library, [Slow("*", f"{tmp_path}/", 1)]) == [
        *("open a", "write a", "pwrite a", "pread a", "fsync a", "fdatasync a", "syncfs a"),
        *("ftruncate a", "rename b", "link c", "unlink c", "mkdir d"),
    ]


def test_only_calls_of_the_functions_and_files_that_are_named_wait(
    tmp_path: Path, library: Path
) -> None:
    rules = [Slow("pwrite", f"{tmp_path}/b", NEVER_MS), Slow(SYNCS, f"{tmp_path}/a", 1)]
    assert seen(tmp_path, library, rules) == ["fsync a", "fdatasync a", "syncfs a"]


def test_no_call_waits_without_the_flag(tmp_path: Path, library: Path) -> None:
    rules = [Slow("*", f"{tmp_path}/", NEVER_MS)]
    assert seen(tmp_path, library, rules, flag=tmp_path / "flag") == []


def test_a_rule_without_a_meaning_ends_the_process(tmp_path: Path, library: Path) -> None:
    done = run(tmp_path, {"LD_PRELOAD": str(library), "GK_SLOW": "fsink:/:5"})
    assert (done.returncode, done.stderr) == (127, "preload.c: GK_SLOW has no meaning: fsink:/:5\n")


def test_no_compiler_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoCompilerError, match="install cc"):
        build(tmp_path)
