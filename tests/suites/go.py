"""Go tests, compiled once and run with results as JSON.

Those that ship inside a published module, and those of our own, in `go/`, that use one.
"""

import hashlib
import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.suites import events
from tests.suites.process import Lines, call
from tests.suites.suite import Outcome, Result, Results, SuiteError

ALL = "^Test"
OURS_SECONDS = 150.0
_SOURCES = Path(__file__).parent / "go"


class GoTests(ABC):
    """A package of Go tests."""

    __slots__ = ()

    @abstractmethod
    def prepare(self, folder: Path) -> None:
        """Compile the tests, unless they are as they were. Raises SuiteError."""

    @abstractmethod
    def binary(self, folder: Path) -> Path:
        """Where the compiled tests are."""

    def run(self, folder: Path, pattern: str, env: Mapping[str, str], limit_s: float) -> Results:
        """Run the tests whose names match a regular expression.

        Those that exist and told nothing have failed, whatever ended the run.
        """
        binary = self.binary(folder)
        wanted = self._listed(folder, pattern, env)
        command: list[str | Path] = [
            "go",
            "tool",
            "test2json",
            "-t",
            binary,
            f"-test.run={pattern}",
        ]
        command += ["-test.v=test2json", f"-test.timeout={limit_s:.0f}s"]
        told: set[str] = set()
        with Lines(command, folder, limit_s=limit_s + 10, env=env) as lines:
            for result in events.results(lines):
                told.add(result.name.partition("/")[0])
                yield result
        for name in wanted:
            if name not in told:
                yield Result(name, Outcome.FAILED, detail="did not run")

    def _listed(self, folder: Path, pattern: str, env: Mapping[str, str]) -> list[str]:
        text = call([self.binary(folder), f"-test.list={pattern}"], folder, env, limit_s=60)
        names = [line for line in text.splitlines() if line.startswith("Test")]
        if not names:
            raise SuiteError(f"no test of {self} matches {pattern}")
        return names


@dataclass(slots=True, frozen=True)
class Package(GoTests):
    """The tests of a published package, at one version of its module."""

    package: str
    version: str
    tags: str = ""

    def prepare(self, folder: Path) -> None:
        """`-t` brings the modules that only the tests need."""
        if self.binary(folder).exists():
            return
        if not (folder / "go.mod").exists():
            call(["go", "mod", "init", "suites"], folder)
        call(["go", "get", "-t", f"{self.package}@{self.version}"], folder)
        _compile(self.binary(folder), self.package, folder, self.tags)

    def binary(self, folder: Path) -> Path:
        return folder / f"{self.package.rpartition('/')[2]}-{self.version}.test"

    def __str__(self) -> str:
        return f"{self.package} {self.version}"


@dataclass(slots=True, frozen=True)
class Ours(GoTests):
    """A file of tests in `go/` that use a published package."""

    file: str
    """As Go wants it, its name ends in _test.go."""
    using: Package

    def prepare(self, folder: Path) -> None:
        self.using.prepare(folder)
        if self.binary(folder).exists():
            return
        (folder / "ours").mkdir(exist_ok=True)
        shutil.copy(self._source, folder / "ours")
        _compile(self.binary(folder), "./ours", folder)

    def binary(self, folder: Path) -> Path:
        digest = hashlib.sha256(self._source.read_bytes()).hexdigest()[:12]
        return folder / f"ours-{self.using.version}-{digest}.test"

    @property
    def _source(self) -> Path:
        return _SOURCES / self.file

    def __str__(self) -> str:
        return self.file


def _compile(binary: Path, package: str, folder: Path, tags: str = "") -> None:
    call(["go", "test", f"-tags={tags}", "-c", "-o", binary, package], folder)
