"""What the results of a suite mean: sorted, counted, and as they are recorded in RESULTS.json."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.suites.suite import Outcome, Result, Suite

RECORD = Path(__file__).with_name("RESULTS.json")
OURS = "Groupkeeper"
_ABOUT = (
    "Other projects' tests against Groupkeeper, and against another broker for comparison. "
    "Written by: make suites ARGS=--write"
)


@dataclass(slots=True)
class Verdict:
    """The results of one run of one suite, sorted by what they mean."""

    suite: Suite
    ours: bool
    """Whether it is our server: the list of known failures is about no other."""
    passed: list[Result] = field(default_factory=list)
    skipped: list[Result] = field(default_factory=list)
    known: list[Result] = field(default_factory=list)
    failed: list[Result] = field(default_factory=list)
    """Failures that nobody expected."""

    def add(self, result: Result) -> bool:
        """Take one result; whether it may be as it is."""
        if result.outcome is Outcome.PASSED:
            self.passed.append(result)
        elif result.outcome is Outcome.SKIPPED:
            self.skipped.append(result)
        elif self.reason(result.name) is not None:
            self.known.append(result)
        else:
            self.failed.append(result)
            return False
        return True

    def reason(self, name: str) -> str | None:
        """Why a test of this name is known to fail, if it is."""
        return self.suite.reason(name) if self.ours else None

    @property
    def total(self) -> int:
        """Tests that passed or failed; those that skipped themselves are not counted."""
        return len(self.passed) + len(self.known) + len(self.failed)

    @property
    def mended(self) -> list[str]:
        """Names of tests that passed and are on the list of known failures."""
        return [each.name for each in self.passed if self.reason(each.name) is not None]

    def as_json(self) -> dict[str, Any]:  # Any: what JSON can hold
        """Counts, why tests failed and were skipped, and the names of those that passed."""
        return {
            "passed": len(self.passed),
            "total": self.total,
            "failed": {
                each.name: self.reason(each.name) or first_line(each.detail)
                for each in _sorted(self.failed + self.known)
            },
            "skipped": {each.name: first_line(each.detail) for each in _sorted(self.skipped)},
            "passing": [each.name for each in _sorted(self.passed)],
        }


def first_line(detail: str) -> str:
    return detail.partition("\n")[0]


def _sorted(results: list[Result]) -> list[Result]:
    return sorted(results, key=lambda result: result.name)


def record(broker: str, verdicts: Iterable[Verdict], path: Path = RECORD) -> None:
    """Put these results of a broker into the record; those of other brokers and suites stay.

    A suite whose versions have changed loses what was recorded of it.
    """
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    suites = before.get("suites", {})
    for verdict in verdicts:
        suite = verdict.suite
        old = suites.get(suite.name, {})
        versions = dict(suite.versions)
        results = old.get("results", {}) if old.get("versions") == versions else {}
        results[broker] = verdict.as_json()
        suites[suite.name] = {"about": suite.about, "versions": versions, "results": results}
    content = {"about": _ABOUT, "suites": dict(sorted(suites.items()))}
    text = json.dumps(content, indent=2, ensure_ascii=False)
    path.write_text(f"{text}\n", encoding="utf-8")
