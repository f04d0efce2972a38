from pathlib import Path
from typing import ClassVar

import pytest

from tests.suites import __main__, run
from tests.suites.__main__ import main
from tests.suites.catalogue import SUITES
from tests.suites.suite import Outcome, Result, Results, Suite, SuiteError, Target


class Sample(Suite):
    """Ends as it is told to."""

    name = "sample"
    about = "A sample."
    versions: ClassVar = {"sample": "1"}
    known: ClassVar = {"test_known": "for a reason"}

    def __init__(self, *outcomes: tuple[str, Outcome]) -> None:
        self.outcomes = outcomes
        self.targets: list[Target] = []

    def prepare(self, folder: Path) -> None:
        assert folder.is_dir()

    def run(self, target: Target, folder: Path) -> Results:
        self.targets.append(target)
        for name, outcome in self.outcomes:
            yield Result(name, outcome, detail="why")


class Unprepared(Sample):
    name = "unprepared"

    def prepare(self, folder: Path) -> None:
        raise SuiteError("cannot be set up")


class Toolless(Sample):
    name = "toolless"
    needs = ("no-such-program", "sh")


@pytest.fixture
def suites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Puts suites into the place of the real ones."""
    monkeypatch.setattr(run, "PLACE", tmp_path)

    def put(*made: Suite) -> None:
        monkeypatch.setattr(__main__, "SUITES", {suite.name: suite for suite in made})

    return put


@pytest.mark.parametrize(
    ("name", "outcome", "code"),
    [
        ("test_a", Outcome.PASSED, 0),
        ("test_a", Outcome.SKIPPED, 0),
        ("test_a", Outcome.FAILED, 1),
        ("test_known", Outcome.FAILED, 1),  # the list is not about somebody else's broker
    ],
)
def test_a_failure_is_the_exit_code(suites, name: str, outcome: Outcome, code: int) -> None:
    suites(Sample((name, outcome)))
    assert main(["--bootstrap", "127.0.0.1:1"]) == code


def test_a_suite_is_pointed_at_the_given_broker(suites) -> None:
    sample = Sample(("test_a", Outcome.PASSED))
    suites(sample)
    main(["--bootstrap", "127.0.0.1:1"])
    assert sample.targets == [Target("127.0.0.1:1")]


def test_without_one_it_gets_a_server_of_ours(suites) -> None:
    sample = Sample(("test_known", Outcome.FAILED))
    suites(sample)
    assert main([]) == 0
    (target,) = sample.targets
    assert target.data_dir is not None
    assert target.bootstrap.startswith("127.0.0.1:")


def test_a_missing_tool_is_one_line_and_the_others_run(suites, capsys) -> None:
    suites(Toolless(), Sample(("test_a", Outcome.PASSED)))
    assert main(["--bootstrap", "127.0.0.1:1"]) == 2
    told = capsys.readouterr().out
    assert told.splitlines()[0] == "toolless: needs no-such-program, not found on the PATH"
    assert "sample" in told


def test_a_suite_that_cannot_be_set_up_says_why(suites, capsys) -> None:
    suites(Unprepared())
    assert main(["--bootstrap", "127.0.0.1:1"]) == 2
    assert capsys.readouterr().out == "unprepared: cannot be set up\n"


def test_failures_are_told_as_they_come(suites, capsys) -> None:
    suites(Sample(("test_[a]", Outcome.FAILED), ("test_b", Outcome.PASSED)))
    main(["--bootstrap", "127.0.0.1:1"])
    assert capsys.readouterr().out.startswith("failed sample test_[a]\n    why\n")


@pytest.mark.parametrize(
    "arguments",
    [["nosuch"], ["--write", "--bootstrap", "127.0.0.1:1"], ["--write", "--broker", "X"]],
)
def test_wrong_words_are_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)


def test_the_list_names_every_suite(capsys) -> None:
    assert main(["--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(SUITES)
