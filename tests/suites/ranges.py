"""Groupkeeper beside the oldest and the newest libraries that pyproject.toml allows, in virtual
environments of each Python of this machine.

The library under test is the user's own: installing Groupkeeper beside it changes nothing that is
in the range, and all that needs it works.
"""

import os
import re
import shutil
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar, Final

from tests.packaging.interpreters import SUPPORTED, starting
from tests.suites import versions
from tests.suites.checks import verdict_of
from tests.suites.process import call
from tests.suites.suite import Result, Results, Suite, SuiteError, Target
from tests.support.process import ROOT

_BESIDE = Path(__file__).parent / "supplied" / "beside.py"
_FOUND: Final = re.compile(r"^(\S+)==(\S+)$", re.MULTILINE)
_STEP_S: Final = 240.0


class Ranges(Suite):
    """Each environment has its own broker: the one that the suite is given is not used."""

    name = "ranges"
    about = "the oldest and the newest libraries that pyproject.toml allows, on each Python"
    versions: ClassVar = {"aiokafka": versions.AIOKAFKA, "h11": versions.H11}
    limit_s = 1_800.0

    def prepare(self, folder: Path) -> None:
        shutil.rmtree(folder / "wheel", ignore_errors=True)
        build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
        call([*build, "--no-build-isolation", "--wheel-dir", "wheel", str(ROOT)], folder)

    def run(self, target: Target, folder: Path) -> Results:
        [wheel] = (folder / "wheel").glob("*.whl")
        for minor in SUPPORTED:
            python = starting(minor)
            if python is None:
                continue
            for end, wanted in ("oldest", oldest(minor)), ("newest", {}):
                yield from self._beside(folder / f"{end}-3.{minor}", python, wheel, wanted)

    def _beside(
        self, place: Path, python: str, wheel: Path, wanted: Mapping[str, str]
    ) -> Iterator[Result]:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        try:
            call([python, "-m", "venv", "venv"], place)
            before = _install(place, *(f"{name}=={wanted[name]}" for name in wanted))
            after = _install(place, str(wheel))
            changed = [name for name in before if after.get(name) != before[name]]
            yield verdict_of(f"{place.name}: nothing is replaced", not changed, ", ".join(changed))
            told = call([_python(place), str(_BESIDE)], place, {"PATH": os.defpath}, _STEP_S)
        except SuiteError as error:
            yield verdict_of(f"{place.name}: works", passed=False, detail=str(error))
        else:
            yield verdict_of(f"{place.name}: works", passed=True, detail=told)


def oldest(minor: int) -> dict[str, str]:
    """The lower bound of each dependency; where Python 3.`minor` has no wheel of that, the oldest
    one that it has.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = dict(each.split(">=") for each in project["dependencies"])
    return found | versions.OLDEST_WHEELS.get(minor, {})


def _install(place: Path, *what: str) -> dict[str, str]:
    """The versions of all that is there afterwards, by name."""
    pip = [_python(place), "-m", "pip", "--disable-pip-version-check"]
    if what:
        call([*pip, "install", "--quiet", "--only-binary", ":all:", *what], place, None, _STEP_S)
    return dict(_FOUND.findall(call([*pip, "freeze"], place)))


def _python(place: Path) -> str:
    return str(place / "venv" / "bin" / "python")
