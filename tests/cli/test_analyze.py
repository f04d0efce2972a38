"""The way into the Spark job; the job itself is replaced."""

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from groupkeeper.analytics import libraries
from groupkeeper.analytics.request import Choice, Request
from groupkeeper.cli import main

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRA = {re.split("[<>=]", each)[0] for each in PROJECT["optional-dependencies"]["analytics"]}

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], Request]]:
    called: list[tuple[list[str], Request]] = []
    report = ModuleType("groupkeeper.analytics.report")

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
    assert main(["analyze", "a", "b", "--partition", "3", "--master", "spark://host:7077"]) == 5
    assert calls == [
        (["file:/data"], Request(out=out)),
        (["a", "b"], Request(partition=3, master="spark://host:7077")),
    ]


def test_a_choice_is_handed_on(calls: list[tuple[list[str], Request]], tmp_path: Path) -> None:
    words = ["--group", "a", "--group", "b", "--since", "1970-01-01T00:00:07", "--top", "3"]
    assert main(["analyze", "data", *words, "--json", "--csv", str(tmp_path)]) == 5
    choice = Choice(frozenset("ab"), 7_000, 3)
    assert calls == [(["data"], Request(csv=tmp_path, as_json=True, choice=choice))]


def test_a_time_that_is_none_is_refused(capsys: Capture) -> None:
    assert main(["analyze", "data", "--since", "yesterday"]) == 2
    assert "'yesterday' is no time" in capsys.readouterr().err


def test_without_its_libraries_it_says_how_to_get_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture
) -> None:
    monkeypatch.setattr(libraries, "find_spec", lambda name: None if name == "numba" else name)
    begin = f"groupkeeper: analyze needs numba: {sys.executable} -m pip install "
    for engine, wanted in ("local", {"pyarrow", "numba"}), ("spark", EXTRA):
        assert main(["analyze", str(tmp_path), "--engine", engine]) == 2
        err = capsys.readouterr().err
        assert err.startswith(begin)
        assert err.count("\n") == 1
        named = shlex.split(err.removeprefix(begin))
        assert {re.split("[<>=]", each)[0] for each in named} == wanted


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
