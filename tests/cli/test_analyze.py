"""The way into the Spark job; the job itself is replaced."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from groupkeeper.analytics import libraries
from groupkeeper.analytics.command.request import Choice, Request
from groupkeeper.cli import main

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], Request]]:
    called: list[tuple[list[str], Request]] = []
    report = ModuleType("groupkeeper.analytics.command.report")

    def run(paths: list[str], request: Request) -> int:
        called.append((paths, request))
        return 5

    report.analyze = run  # type: ignore[attr-defined]  # a module made here
    monkeypatch.setitem(sys.modules, report.__name__, report)
    return called


def test_paths_and_options_are_handed_on(
    calls: list[tuple[list[str], Request]], tmp_path: Path
) -> None:
    out = tmp_path / "report"
    assert main(["analyze", "file:/data", "--out", str(out)]) == 5
    assert main(["analyze", "a", "b", "--workers", "2"]) == 5
    assert calls == [(["file:/data"], Request(out=out)), (["a", "b"], Request(workers=2))]


def test_a_choice_is_handed_on(calls: list[tuple[list[str], Request]], tmp_path: Path) -> None:
    words = ["--group", "a", "--group", "b", "--since", "1970-01-01T00:00:07", "--top", "3"]
    assert main(["analyze", "data", *words, "--json", "--csv", str(tmp_path)]) == 5
    choice = Choice(frozenset("ab"), 7_000, 3)
    assert calls == [(["data"], Request(csv=tmp_path, as_json=True, choice=choice))]


def test_a_time_that_is_none_is_refused(capsys: Capture) -> None:
    assert main(["analyze", "data", "--since", "yesterday"]) == 2
    assert "'yesterday' is not a time" in capsys.readouterr().err


def test_without_its_libraries_it_says_how_to_get_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture
) -> None:
    monkeypatch.setattr(libraries, "find_spec", lambda name: None if name == "numba" else name)
    begin = f"groupkeeper: analyze needs numba: {sys.executable} -m pip install "
    assert main(["analyze", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert err.startswith(begin)
    assert err.count("\n") == 1
    named = shlex.split(err.removeprefix(begin))
    assert {re.split("[<>=]", each)[0] for each in named} == {"pyarrow", "numba", "duckdb"}


def test_pandas_is_not_imported() -> None:
    """pyarrow would, and double the time that the report of a small log takes."""
    log = ROOT / "tests/fixtures/kafka-consumer-offsets"
    code = (
        "import sys; from groupkeeper.cli import main; "
        f"main(['analyze', {str(log)!r}, '--group', 'billing']); "
        "print('pandas' in sys.modules); "
        "import pyarrow; print(pyarrow.array([1]).to_pandas()[0])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-2:] == ["False", "1"], done.stderr


WITHOUT = """
import sys

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in NAMES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

NAMES = sys.argv[1].split(",")
sys.meta_path.insert(0, Block())
"""
ANALYZE = """
from groupkeeper.cli import main
for options in ([], ["--report", "r.html"], ["--out", "o"], ["--csv", "c"], ["--json"]):
    print(main(["analyze", sys.argv[2], *options]), flush=True)
"""
IMPORTS = """
from importlib import import_module
for name in ("questions", "command.report", "sources.formats"):
    try:
        import_module(f"groupkeeper.analytics.{name}")
    except ImportError as error:
        print(error)
"""
ALL = ("numpy", "pyarrow", "numba", "llvmlite", "numpy,pyarrow,numba,llvmlite,pandas,pyspark,py4j")


def without(names: str, program: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """The program in a process that cannot import these; its second argument is a log."""
    log = str(ROOT / "tests/fixtures/kafka-consumer-offsets")
    return subprocess.run(
        [sys.executable, "-c", WITHOUT + program, names, log],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if "SPARK" not in name}
        | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


@pytest.mark.parametrize("names", ALL)
def test_each_missing_library_is_one_line_whatever_is_wanted(names: str, tmp_path: Path) -> None:
    done = without(names, ANALYZE, tmp_path)
    assert done.stdout.split() == ["2"] * 5, done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 5, done.stderr
    for line in lines:
        assert re.match(r"groupkeeper: analyze needs .*: \S*python\S* -m pip install .*numba", line)
    assert [*tmp_path.iterdir()] == []


def test_an_import_without_the_extra_tells_the_command(tmp_path: Path) -> None:
    done = without("numpy,pyarrow,numba,llvmlite", IMPORTS, tmp_path)
    lines = done.stdout.splitlines()
    assert len(lines) == 3, done.stdout + done.stderr
    assert all(re.search(" -m pip install .*'numba>=", line) for line in lines), lines


@pytest.mark.parametrize(
    ("uv", "begin"),
    [
        ("/bin/uv", f"uv pip install --python {sys.executable} "),
        (None, f"{sys.executable} -m ensurepip && {sys.executable} -m pip install "),
    ],
)
def test_an_environment_without_pip_gets_another_command(
    uv: str | None, begin: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    has = {"numpy", "pyarrow", "duckdb"}
    monkeypatch.setattr(libraries, "find_spec", lambda name: name if name in has else None)
    monkeypatch.setattr(libraries.shutil, "which", lambda name: uv)
    assert main(["analyze", "data"]) == 2
    assert f"analyze needs numba, llvmlite: {begin}" in capsys.readouterr().err
