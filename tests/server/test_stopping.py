"""The deadline of a stop: what is told until then, and how the process ends."""

import threading

import pytest

from groupkeeper.server import stopping
from groupkeeper.server.stopping import (
    FIRST_LINE_S,
    LINES_EVERY_S,
    OUT_OF_TIME,
    STOP_S,
    StopStage,
    StopWatch,
    keep_deadline,
)
from groupkeeper.server.sync_threads import AT_ONCE, sync_threads
from tests.support.served import Lines

LIMIT_S = 30.0


def test_a_stop_that_goes_on_is_told_with_what_it_waits_for(lines: Lines) -> None:
    stage = StopStage()
    watch = StopWatch(stage, 100.0)
    assert watch.look(100.0) == FIRST_LINE_S
    assert lines() == []
    stage.name = "segments"
    assert watch.look(100.0 + FIRST_LINE_S) == LINES_EVERY_S
    [line] = lines()
    assert line["event"] == "still stopping"
    assert (line["waiting_for"], line["seconds"], line["at_most"]) == ("segments", 2.0, STOP_S)


def test_at_the_deadline_it_is_over_and_the_last_words_say_what_is_lost() -> None:
    stage = StopStage()
    stage.name = "the journal"
    watch = StopWatch(stage, 0.0)
    assert watch.look(STOP_S - 0.5) == 0.5
    assert watch.look(STOP_S) == 0.0
    assert watch.exit_code == OUT_OF_TIME
    words = watch.last_words()
    assert "waited for the journal." in words
    assert "Nothing acknowledged is lost" in words
    assert "\n" not in words


def test_a_stop_that_is_done_has_no_last_words() -> None:
    watch = StopWatch(StopStage(), 0.0)
    watch.exit_code = 0
    assert watch.last_words() == ""


def test_syncs_wait_for_the_disk_at_the_same_time() -> None:
    together = threading.Barrier(AT_ONCE)
    assert sync_threads([lambda: [together.wait(LIMIT_S), None][1]] * AT_ONCE) == [None] * AT_ONCE


def test_each_job_has_its_own_error() -> None:
    full = OSError(28, "No space left on device")

    def fail() -> None:
        raise full

    assert sync_threads([fail, lambda: None, fail]) == [full, None, full]
    assert sync_threads([]) == []


def test_a_system_without_threads_does_it_one_after_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    done: list[int] = []
    assert sync_threads([lambda: done.append(1), lambda: done.append(2)]) == [None, None]
    assert sorted(done) == [1, 2]


@pytest.mark.parametrize("code", [OUT_OF_TIME, 0])
def test_the_process_ends_at_the_deadline_with_its_code(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(stopping, "STOP_S", 0.01)
    ended, exited = threading.Event(), list[int]()
    watch = keep_deadline(StopStage(), lambda code: (exited.append(code), ended.set())[1])
    watch.exit_code = code
    assert ended.wait(LIMIT_S)
    assert exited == [code]


def test_a_stop_that_ends_in_time_lets_the_process_go_on() -> None:
    before = set(threading.enumerate())
    watch = keep_deadline(StopStage(), pytest.fail)
    [thread] = set(threading.enumerate()) - before
    watch.over.set()
    thread.join(LIMIT_S)
    assert not thread.is_alive()
