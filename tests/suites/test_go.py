"""A program that stands in for compiled Go tests, and one for `go`, which passes its words on."""

import os
from pathlib import Path

import pytest

from tests.suites import go
from tests.suites.go import Ours, Package
from tests.suites.suite import Outcome, SuiteError

TESTS = Package("example.org/kgo", "v1.0.0")
# what `go tool test2json -t BINARY WORDS` does, for tests that print JSON by themselves
GO = """#!/bin/sh
shift 3
exec "$@"
"""
BINARY = """#!/bin/sh
case "$1" in
-test.list=^Test) printf 'TestA\\nTestB\\nTestC\\nok\\n' ;;
-test.list=*) echo ok ;;
*) echo '{"Action":"run","Test":"TestA"}'; echo '{"Action":"pass","Test":"TestA"}'
   echo '{"Action":"run","Test":"TestB/part"}'; echo '{"Action":"skip","Test":"TestB/part"}'
   echo 'panic: no more' ;;
esac
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in (("go", GO), ("kgo-v1.0.0.test", BINARY)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def test_tests_that_told_nothing_have_failed(folder: Path) -> None:
    told = {result.name: result for result in TESTS.run(folder, "^Test", {}, limit_s=30)}
    assert {name: result.outcome for name, result in told.items()} == {
        "TestA": Outcome.PASSED,
        "TestB/part": Outcome.SKIPPED,
        "TestC": Outcome.FAILED,
    }
    assert told["TestC"].detail == "did not run"


def test_a_pattern_that_no_test_has_is_an_error(folder: Path) -> None:
    with pytest.raises(SuiteError, match=r"no test of example.org/kgo v1.0.0 matches \^Nothing"):
        list(TESTS.run(folder, "^Nothing", {}, limit_s=30))


def test_what_is_compiled_is_not_compiled_again(folder: Path) -> None:
    (folder / "go").write_text("#!/bin/sh\nexit 1\n")
    TESTS.prepare(folder)


def test_another_version_is_compiled(folder: Path) -> None:
    (folder / "go").write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(SuiteError, match="cannot be set up: go mod init"):
        Package("example.org/kgo", "v1.0.1").prepare(folder)


def test_a_test_of_ours_is_compiled_again_when_it_changes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(go, "_SOURCES", folder)
    ours, source = Ours("a_test.go", TESTS), folder / "a_test.go"
    compiled = []
    for text in ("package ours", "package ours // changed"):
        source.write_text(text)
        (folder / "go").write_text("#!/bin/sh\necho $@ >> asked\ntouch $5\n")
        ours.prepare(folder)
        ours.prepare(folder)
        compiled.append(ours.binary(folder))
        assert (folder / "ours" / "a_test.go").read_text() == text
    asked = (folder / "asked").read_text().splitlines()
    assert asked == [f"test -tags= -c -o {each} ./ours" for each in compiled]
    assert len(set(compiled)) == 2
