"""What is put beside kafka-python's tests, on a pytest run of its own."""

import os
import sys
from pathlib import Path

import pytest

from tests.suites import events
from tests.suites.process import Lines
from tests.suites.suite import Outcome, Result

SUPPLIED = Path(__file__).parent / "supplied"
TESTS = """
import pytest

def test_passes(): print("noise", end="")

@pytest.mark.parametrize("word", ["a/b"])
def test_with_words(word): pass

def test_fails(): assert 1 == 2

@pytest.mark.skip(reason="not today")
def test_skips(): pass

@pytest.fixture
def broken():
    yield
    raise RuntimeError("teardown")

def test_with_a_broken_end(broken): pass
"""


@pytest.fixture
def told(tmp_path: Path) -> dict[str, Result]:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_sample.py").write_text(TESTS)
    (tmp_path / "test_unreadable.py").write_text("import nothing_of_that_name")
    path = os.pathsep.join([str(SUPPLIED), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "pytest", "-p", "telling", "-p", "no:cacheprovider"]
    command += ["-p", "no:xdist", "--continue-on-collection-errors"]
    with Lines(command, tmp_path, limit_s=60, env={"PYTHONPATH": path}) as lines:
        return {result.name: result for result in events.results(lines)}


def test_every_test_is_told(told: dict[str, Result]) -> None:
    assert {name: result.outcome for name, result in told.items()} == {
        "test_passes": Outcome.PASSED,
        "test_with_words[a/b]": Outcome.PASSED,
        "test_fails": Outcome.FAILED,
        "test_skips": Outcome.SKIPPED,
        "test_with_a_broken_end": Outcome.FAILED,
        "test_unreadable.py (collecting)": Outcome.FAILED,
    }
    assert told["test_fails"].detail.startswith("assert 1 == 2")
    assert told["test_skips"].detail == "not today"
    assert told["test_with_a_broken_end"].detail.startswith("RuntimeError: teardown")
    assert "nothing_of_that_name" in told["test_unreadable.py (collecting)"].detail
