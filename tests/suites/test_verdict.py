import json
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from tests.suites.catalogue import SUITES
from tests.suites.suite import Outcome, Result, Results, Suite, Target
from tests.suites.verdict import OURS, RECORD, Verdict, record


class Numbers(Suite):
    name = "numbers"
    about = "Tests with numbers."
    versions: ClassVar[Mapping[str, str]] = {"numbers": "1"}
    known: ClassVar[Mapping[str, str]] = {"test_acl*": "no access rules"}

    def prepare(self, folder: Path) -> None: ...

    def run(self, target: Target, folder: Path) -> Results:
        yield from ()


class Newer(Numbers):
    versions: ClassVar[Mapping[str, str]] = {"numbers": "2"}


def verdict(*, ours: bool = True, suite: Suite | None = None) -> Verdict:
    made = Verdict(suite or Numbers(), ours)
    made.add(Result("test_b", Outcome.PASSED))
    made.add(Result("test_a", Outcome.PASSED))
    made.add(Result("test_acl[1]", Outcome.FAILED, detail="unsupported\nat line 1"))
    made.add(Result("test_848", Outcome.SKIPPED, detail="not offered"))
    return made


def test_a_known_failure_is_counted_and_may_be() -> None:
    made = verdict()
    assert (len(made.passed), made.total, made.failed) == (2, 3, [])


def test_another_failure_may_not_be() -> None:
    made = verdict()
    assert not made.add(Result("test_c", Outcome.FAILED))
    assert [each.name for each in made.failed] == ["test_c"]


def test_the_known_failures_are_about_our_server_alone() -> None:
    assert [each.name for each in verdict(ours=False).failed] == ["test_acl[1]"]


def test_a_known_failure_that_passes_is_named() -> None:
    made = verdict()
    made.add(Result("test_acl[2]", Outcome.PASSED))
    assert made.mended == ["test_acl[2]"]


def test_a_record_says_why_and_names_all_that_pass() -> None:
    assert verdict().as_json() == {
        "passed": 2,
        "total": 3,
        "failed": {"test_acl[1]": "no access rules"},
        "skipped": {"test_848": "not offered"},
        "passing": ["test_a", "test_b"],
    }


def test_a_failure_nobody_expected_is_recorded_with_what_was_said() -> None:
    assert verdict(ours=False).as_json()["failed"] == {"test_acl[1]": "unsupported"}


def test_writing_keeps_what_other_brokers_and_suites_did(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    record("Apache Kafka", [verdict(ours=False)], path)
    record(OURS, [verdict()], path)
    suite = json.loads(path.read_text())["suites"]["numbers"]
    assert list(suite["results"]) == ["Apache Kafka", OURS]
    assert suite["versions"] == {"numbers": "1"}


def test_results_of_other_versions_are_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    record("Apache Kafka", [verdict(ours=False)], path)
    record(OURS, [verdict(suite=Newer())], path)
    assert list(json.loads(path.read_text())["suites"]["numbers"]["results"]) == [OURS]


def test_the_committed_record_is_of_the_pinned_versions_and_of_nothing_unexpected() -> None:
    suites = json.loads(RECORD.read_text(encoding="utf-8"))["suites"]
    for name, suite in suites.items():
        assert suite["versions"] == SUITES[name].versions
        failed = suite["results"][OURS]["failed"]
        assert failed == {test: SUITES[name].reason(test) for test in failed}
