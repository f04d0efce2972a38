import json

from tests.suites.events import DETAIL_LINES, results
from tests.suites.suite import Outcome, Result


def line(action: str, test: str, **more: object) -> str:
    return json.dumps({"Action": action, "Test": test, **more})


def told(*lines: str) -> list[tuple[str, Outcome]]:
    return [(result.name, result.outcome) for result in results(lines)]


def test_each_test_is_told_once_as_it_ends() -> None:
    lines = [
        "goos: linux",
        json.dumps({"Action": "start"}),
        line("run", "TestA"),
        line("run", "TestB"),
        line("pass", "TestB", Elapsed=1.5),
        line("skip", "TestA"),
        json.dumps({"Action": "pass", "Elapsed": 2}),
        "[1, 2]",
    ]
    assert list(results(lines)) == [
        Result("TestB", Outcome.PASSED, 1.5),
        Result("TestA", Outcome.SKIPPED),
    ]


def test_a_result_comes_before_the_next_line_is_read() -> None:
    def lines():
        yield line("run", "TestA")
        yield line("pass", "TestA")
        raise AssertionError("read on")

    assert next(results(lines())).name == "TestA"


def test_a_failure_tells_the_end_of_what_was_said() -> None:
    said = [line("output", "TestA", Output=f"    a_test.go:{n}: word {n}\n") for n in range(30)]
    frame = line("output", "TestA", Output="--- FAIL: TestA (0.00s)\n")
    (result,) = results([line("run", "TestA"), *said, frame, line("fail", "TestA")])
    assert result.detail.splitlines() == [f"word {n}" for n in range(30 - DETAIL_LINES, 30)]


def test_output_may_come_in_pieces_of_a_line() -> None:
    pieces = [line("output", "TestA", Output=text) for text in ("half ", "a line\n")]
    (result,) = results([line("run", "TestA"), *pieces, line("fail", "TestA")])
    assert result.detail == "half a line"


def test_a_skipped_test_tells_its_reason_alone() -> None:
    said = [line("output", "TestA", Output=f"x_test.go:1: {text}\n") for text in ("old", "done")]
    (result,) = results([line("run", "TestA"), *said, line("skip", "TestA")])
    assert result.detail == "old"


def test_parts_are_told_and_their_whole_is_not() -> None:
    lines = [line("run", "A"), line("run", "A/b"), line("run", "A/b/c")]
    ends = [line("pass", "A/b/c"), line("pass", "A/b"), line("pass", "A")]
    assert told(*lines, *ends) == [("A/b/c", Outcome.PASSED), ("A/b", Outcome.PASSED)]


def test_a_whole_that_fails_because_of_a_part_is_not_told() -> None:
    lines = [line("run", "A"), line("run", "A/b"), line("fail", "A/b"), line("fail", "A")]
    assert told(*lines) == [("A/b", Outcome.FAILED)]


def test_a_whole_that_fails_by_itself_is_told() -> None:
    lines = [line("run", "A"), line("run", "A/b"), line("pass", "A/b"), line("fail", "A")]
    assert told(*lines) == [("A/b", Outcome.PASSED), ("A", Outcome.FAILED)]


def test_what_never_ended_was_cut_off() -> None:
    lines = [line("run", "A"), line("run", "A/b"), line("run", "C"), line("run", "AB")]
    output = line("output", "C", Output="waiting\n")
    cut = list(results([*lines, output]))
    assert {each.name: each.detail for each in cut} == {
        "A/b": "cut off",
        "C": "cut off\nwaiting",
        "AB": "cut off",
    }
    assert {each.outcome for each in cut} == {Outcome.FAILED}
