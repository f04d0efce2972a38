"""The way into the Spark job; the job itself is replaced."""

import re
import shlex
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from groupkeeper.analytics import session
from groupkeeper.cli import main

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRA = {re.split("[<>=]", each)[0] for each in PROJECT["optional-dependencies"]["analytics"]}

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    called: list[tuple[object, ...]] = []
    report = ModuleType("groupkeeper.analytics.report")

    def run(
        paths: list[str], out: Path | None, *, partition: int | None, master: str | None
    ) -> int:
        called.append((paths, out, partition, master))
        return 5

    report.analyze = run  # type: ignore[attr-defined]  # a module made here
    monkeypatch.setitem(sys.modules, report.__name__, report)
    return called


def test_paths_and_options_are_handed_on(calls: list[tuple[object, ...]], tmp_path: Path) -> None:
    out = tmp_path / "report"
    assert main(["analyze", "file:/data", "--out", str(out)]) == 5
    assert main(["analyze", "a", "b", "--partition", "3", "--master", "spark://host:7077"]) == 5
    assert calls == [
        (["file:/data"], out, None, None),
        (["a", "b"], None, 3, "spark://host:7077"),
    ]


def test_without_its_libraries_it_says_how_to_get_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture
) -> None:
    monkeypatch.setattr(session, "LIBRARIES", ("no_such_library",))
    assert main(["analyze", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    begin = f"groupkeeper: analyze needs no_such_library: {sys.executable} -m pip install "
    assert err.startswith(begin)
    assert err.count("\n") == 1
    libraries = shlex.split(err.removeprefix(begin))
    assert {re.split("[<>=]", each)[0] for each in libraries} == EXTRA
