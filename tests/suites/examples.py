"""The examples in other languages: tests of consumers that start their own test broker."""

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
_GO, _JAVA, _NODE = "go-franz-go", "java-junit", "node"
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
        program = self._program(folder)
        program.write_text(_PROGRAM.format(_ROOT, sys.executable), encoding="utf-8")
        program.chmod(0o755)
        call(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], folder / _NODE)
        call(["go", "test", "-run", "^$", "./..."], folder / _GO)
        call(["mvn", "--batch-mode", "--quiet", "test-compile"], folder / _JAVA)

    def run(self, target: Target, folder: Path) -> Results:
        command = ["go", "test", "-count=1", "-json", "./..."]
        with self._lines(folder, _GO, command) as lines:
            yield from _named(_GO, events.results(lines))
        for old in (folder / _JAVA).glob(_REPORTS):
            old.unlink()
        with self._lines(folder, _JAVA, ["mvn", "--batch-mode", "--quiet", "test"]) as lines:
            said = list(lines)
        reports = [path.read_text(encoding="utf-8") for path in (folder / _JAVA).glob(_REPORTS)]
        yield from _named(_JAVA, _cases(reports), said)
        report = folder / "node.xml"
        report.unlink(missing_ok=True)
        options = ["--test-reporter=junit", f"--test-reporter-destination={report}"]
        with self._lines(folder, _NODE, ["node", "--test", *options]) as lines:
            said = list(lines)
        reports = [report.read_text(encoding="utf-8")] if report.exists() else []
        yield from _named(_NODE, _cases(reports), said)

    def _program(self, folder: Path) -> Path:
        return folder / "groupkeeper"

    def _lines(self, folder: Path, name: str, command: Sequence[str]) -> Lines:
        env = {"GROUPKEEPER": str(self._program(folder))}
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
