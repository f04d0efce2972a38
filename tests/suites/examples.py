"""The examples in other languages: tests of consumers that start their own test broker."""

import shlex
import shutil
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar

from tests.suites import events, versions
from tests.suites.process import Lines, call
from tests.suites.suite import Outcome, Result, Results, Suite, Target

_ROOT = Path(__file__).parents[2]
_SOURCES = _ROOT / "examples"
_BUILT = shutil.ignore_patterns("node_modules", "target")
_PROGRAM = '#!/bin/sh\nPYTHONPATH={} exec {} -m groupkeeper "$@"\n'
_MISTAKEN = '#!/bin/sh\nexec {} "$@" --topic "bad topic:x"\n'
_GO, _JAVA, _NODE = "go-franz-go", "java-junit", "node"
_TESTS = {
    _GO: ("go", "test", "-count=1", "./..."),
    _JAVA: ("mvn", "--batch-mode", "--quiet", "test"),
    _NODE: ("node", "--test"),
}
_WHY = "'bad topic"
"""In what the broker says of a wrong option."""
_REPORTS = "target/surefire-reports/*.xml"


class Examples(Suite):
    """What a reader copies from `examples` works, with the test runner of its language. The server
    that the other suites are pointed at has nothing to do.
    """

    name = "examples"
    about = "our examples in Go, Java and Node: time and a fault in the hands of their tests"
    needs = ("go", "mvn", "java", "node", "npm")
    versions: ClassVar = {
        "github.com/twmb/franz-go/pkg/kgo": versions.FRANZ_GO,
        "org.apache.kafka:kafka-clients": versions.KAFKA,
        "kafkajs": versions.KAFKAJS,
        "@platformatic/kafka": versions.PLATFORMATIC,
    }
    limit_s = 240.0

    def prepare(self, folder: Path) -> None:
        for name in (_GO, _JAVA, _NODE):
            shutil.copytree(_SOURCES / name, folder / name, ignore=_BUILT, dirs_exist_ok=True)
        program, mistaken = self._program(folder), self._mistaken(folder)
        program.write_text(_PROGRAM.format(_ROOT, sys.executable), encoding="utf-8")
        mistaken.write_text(_MISTAKEN.format(shlex.quote(str(program))), encoding="utf-8")
        program.chmod(0o755)
        mistaken.chmod(0o755)
        call(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], folder / _NODE)
        call(["go", "test", "-run", "^$", "./..."], folder / _GO)
        call(["mvn", "--batch-mode", "--quiet", "test-compile"], folder / _JAVA)

    def run(self, target: Target, folder: Path) -> Results:
        with self._lines(folder, _GO, [*_TESTS[_GO], "-json"]) as lines:
            yield from _named(_GO, events.results(lines))
        for old in (folder / _JAVA).glob(_REPORTS):
            old.unlink()
        with self._lines(folder, _JAVA, _TESTS[_JAVA]) as lines:
            said = list(lines)
        reports = [path.read_text(encoding="utf-8") for path in (folder / _JAVA).glob(_REPORTS)]
        yield from _named(_JAVA, _cases(reports), said)
        report = folder / "node.xml"
        report.unlink(missing_ok=True)
        options = ["--test-reporter=junit", f"--test-reporter-destination={report}"]
        with self._lines(folder, _NODE, [*_TESTS[_NODE], *options]) as lines:
            said = list(lines)
        reports = [report.read_text(encoding="utf-8")] if report.exists() else []
        yield from _named(_NODE, _cases(reports), said)
        for name, command in _TESTS.items():
            yield self._told(folder, name, command)

    def _told(self, folder: Path, name: str, command: Sequence[str]) -> Result:
        """An option is wrong: the test framework shows what the broker said of it."""
        with self._lines(folder, name, command, self._mistaken(folder)) as lines:
            said = list(lines)
        is_told = any("the broker is not ready: " in line and _WHY in line for line in said)
        outcome = Outcome.PASSED if is_told else Outcome.FAILED
        detail = "" if is_told else "\n".join(said[-events.DETAIL_LINES :])
        return Result(f"{name}/tells why the broker is not ready", outcome, detail=detail)

    def _mistaken(self, folder: Path) -> Path:
        return folder / "mistaken"

    def _program(self, folder: Path) -> Path:
        return folder / "groupkeeper"

    def _lines(
        self, folder: Path, name: str, command: Sequence[str], program: Path | None = None
    ) -> Lines:
        env = {"GROUPKEEPER": str(program or self._program(folder))}
        return Lines(command, folder / name, limit_s=self.limit_s / 3, env=env)


def _named(name: str, results: Iterable[Result], said: Sequence[str] = ()) -> Results:
    """The results under the name of their example; that nothing ran is a failure."""
    told = False
    for each in results:
        told = True
        yield Result(f"{name}/{each.name}", each.outcome, each.seconds, each.detail)
    if not told:
        detail = "\n".join(["ran nothing: see run.log", *said[-events.DETAIL_LINES :]])
        yield Result(f"{name} (all)", Outcome.FAILED, detail=detail)


def _cases(reports: Iterable[str]) -> Results:
    """The test cases of reports in JUnit's form."""
    for report in reports:
        for case in ET.fromstring(report).iter("testcase"):  # made here
            broken = case.find("failure") if case.find("error") is None else case.find("error")
            outcome = Outcome.PASSED if broken is None else Outcome.FAILED
            words = "" if broken is None else broken.text or broken.get("message") or ""
            detail = "\n".join(words.splitlines()[: events.DETAIL_LINES])
            yield Result(str(case.get("name")), outcome, float(case.get("time") or 0), detail)
