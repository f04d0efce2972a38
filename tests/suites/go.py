"""Tests that ship inside a published Go module: compiled once, run with results as JSON."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.suites import events
from tests.suites.process import Lines, call
from tests.suites.suite import Outcome, Result, Results, SuiteError


@dataclass(slots=True, frozen=True)
class Package:
    """A Go package with tests, at one version of its module."""

    package: str
    version: str
    tags: str = ""

    def prepare(self, folder: Path) -> None:
        """Compile the package's tests; `-t` brings the modules that only they need."""
        binary = self._binary(folder)
        if binary.exists():
            return
        if not (folder / "go.mod").exists():
            call(["go", "mod", "init", "suites"], folder)
        call(["go", "get", "-t", f"{self.package}@{self.version}"], folder)
        call(["go", "test", f"-tags={self.tags}", "-c", "-o", binary, self.package], folder)

    def run(self, folder: Path, pattern: str, env: Mapping[str, str], limit_s: float) -> Results:
        """Run the tests whose names match a regular expression.

        Those that exist and told nothing have failed, whatever ended the run.
        """
        binary = self._binary(folder)
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
        text = call([self._binary(folder), f"-test.list={pattern}"], folder, env, limit_s=60)
        names = [line for line in text.splitlines() if line.startswith("Test")]
        if not names:
            raise SuiteError(f"no test of {self.package} {self.version} matches {pattern}")
        return names

    def _binary(self, folder: Path) -> Path:
        return folder / f"{self.package.rpartition('/')[2]}-{self.version}.test"
