"""The page in a real browser: what people do with it, on a desktop and on a phone, by Playwright in
Debian's Chromium; axe-core looks for what keeps people out. The journeys are in `browsing/`.
"""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from tests.suites import events, versions
from tests.suites.process import Lines, call, install
from tests.suites.suite import Results, Suite, SuiteError, Target
from tests.support.process import ROOT

PROGRAM = "chromium"
MEASURED = "measured: "
"""Begins a line for the summary."""


class Browser(Suite):
    """Starts a server of its own, which it stops and starts again; the one given is not used."""

    name = "browser"
    about = "the page in Chromium: journeys on desktop and phone, accessibility, screenshots"
    versions: ClassVar = {"playwright": versions.BROWSER_PACKAGES[0].partition("==")[2]}
    limit_s = 420.0
    program: ClassVar = "tests.suites.browsing"
    """Makes the journeys."""

    def __init__(self) -> None:
        self._measured: list[str] = []

    def prepare(self, folder: Path) -> None:
        if shutil.which(PROGRAM) is None:
            if shutil.which("apt-get") is None or os.geteuid() != 0:
                raise SuiteError(f"needs {PROGRAM}, not found on the PATH: install it")
            packages = ["apt-get", "install", "-y", "--no-install-recommends"]
            call([*packages, PROGRAM, "fonts-dejavu-core"], folder)
        install(folder, versions.BROWSER_PACKAGES)

    def run(self, target: Target, folder: Path) -> Results:
        self._measured.clear()
        place = folder / "shown"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        command = [sys.executable, "-m", self.program, str(place)]
        env = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(folder / "python")])}
        with Lines(command, folder, limit_s=self.limit_s, env=env) as lines:
            name = "all journeys were made"
            yield from events.outcomes(lines, name, ends_well=True, hear=self._note)

    def _note(self, line: str) -> None:
        if line.startswith(MEASURED):
            self._measured.append(line.removeprefix(MEASURED))

    def summary(self) -> Sequence[str]:
        return self._measured


class ObservedBrowser(Browser):
    """Starts a server and an observer beside it; what members do, they do on the server."""

    name = "browser-observer"
    about = "the page of an observer in Chromium: journeys on desktop and phone, accessibility"
    program: ClassVar = "tests.suites.browsing.observed"
