"""Log lines: form, level, and never in the way."""

import io
import json
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from groupkeeper.observe import logs
from groupkeeper.observe.log_writer import FIELD_CHARS, QUEUE_LINES, LineKind, counts
from groupkeeper.observe.logs import BURST_LINES, CAUSES, LINES_PER_S, Limiter, Logger
from groupkeeper.protocol.messages.api_versions import ApiVersionsRequest
from groupkeeper.protocol.messages.leave_group import LeaveGroupRequest
from tests.support.process import Process
from tests.support.requests import join_request
from tests.support.wire import connect

ROOT = Path(__file__).parents[2]


class Stream(io.StringIO):
    """Whoever looks at it sees all that was logged until then."""

    def getvalue(self) -> str:
        assert logs.flush(20)
        return super().getvalue()


class Terminal(Stream):
    def isatty(self) -> bool:
        return True


class Stuck(Stream):
    """Takes nothing until somebody reads."""

    def __init__(self) -> None:
        super().__init__()
        self.written_to = threading.Event()
        self.read = threading.Event()

    def write(self, text: str) -> int:
        self.written_to.set()
        self.read.wait()
        return super().write(text)


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    stream = Stream()
    logs.configure(stream)
    yield stream
    logs.configure()


@pytest.fixture
def stuck() -> Iterator[Stuck]:
    """A first line is on its way to the stream, and stays there."""
    stream = Stuck()
    logs.configure(stream)
    Logger("x").info("first")
    assert stream.written_to.wait(20)
    yield stream
    stream.read.set()
    logs.configure()


def told(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def last(stream: io.StringIO) -> dict[str, object]:
    found: dict[str, object] = json.loads(stream.getvalue().splitlines()[-1])
    return found


def test_a_line_is_json_where_no_terminal_is(lines: io.StringIO) -> None:
    Logger("connection").info("closed", port=1, client_id="billing")
    line = last(lines)
    assert line.pop("timestamp").endswith("Z")  # type: ignore[attr-defined]  # a string
    assert line == {
        "level": "info",
        "logger": "connection",
        "event": "closed",
        "port": 1,
        "client_id": "billing",
    }


def test_a_terminal_gets_readable_lines() -> None:
    for stream, is_json in ((Stream(), True), (Terminal(), False)):
        logs.configure(stream)
        Logger("connection").warning("closed", client_id="a b")
        logs.configure()
        text = stream.getvalue()
        assert "closed" in text and "warning" in text
        assert text.startswith("{") is is_json
        assert ("client_id='a b'" in text) is not is_json


@pytest.mark.parametrize("stream", [Stream(), Terminal()])
def test_an_exception_carries_its_traceback(stream: io.StringIO) -> None:
    logs.configure(stream)
    try:
        raise RuntimeError("boom")
    except RuntimeError:
        Logger("x").exception("step failed")
    logs.configure()
    assert "step failed" in stream.getvalue()
    assert "RuntimeError: boom" in stream.getvalue()


def test_values_that_json_does_not_know_are_shown_somehow(lines: io.StringIO) -> None:
    Logger("x").info("frame", data=b"\x00\xff", kind=ValueError)
    assert last(lines)["data"] == "b'\\x00\\xff'"


def test_what_asyncio_logs_takes_the_same_way(lines: io.StringIO) -> None:
    logging.getLogger("asyncio").error("task %s died", "t1")
    assert last(lines) | {"event": "task t1 died", "logger": "asyncio"} == last(lines)


def test_configuring_twice_does_not_double_lines(lines: io.StringIO) -> None:
    logs.configure(lines)
    logging.getLogger("asyncio").error("once")
    assert lines.getvalue().count("once") == 1


def test_a_closed_stream_does_not_end_the_server() -> None:
    stream = Stream()
    logs.configure(stream)
    Logger("x").info("before")
    stream.close()
    Logger("x").info("after")
    logs.configure()


# -- fields ----------------------------------------------------------------------------------------


def test_long_events_and_fields_are_cut_and_say_so(lines: io.StringIO) -> None:
    Logger("x").info("e" * 300, group="g" * FIELD_CHARS, member="m" * 1_000_000, data=b"x" * 1000)
    line = last(lines)
    assert line["event"] == "e" * 256 + "... (44 more)"
    assert line["group"] == "g" * 256
    assert line["member"] == "m" * 256 + "... (999744 more)"
    assert len(str(line["data"])) < 300


def test_json_stays_sound_whatever_a_client_sends(lines: io.StringIO) -> None:
    text = '\x1b[2J\0\r\n\x9b\u202e\u2028\ud800"\\{'
    Logger("x").info("refused", client_id=text, took=float("nan"), size=10**400)
    line = last(lines)
    assert line["client_id"] == text
    assert lines.getvalue().count("\n") == 1
    assert "NaN" not in lines.getvalue()


def test_a_field_is_shown_as_it_was_when_the_line_was_logged(stuck: Stuck) -> None:
    names = ["orders"]
    Logger("x").info("forgotten", topics=names)
    names.append("payments")
    stuck.read.set()
    assert last(stuck)["topics"] == "['orders']"


def test_a_field_that_cannot_be_shown_costs_nobody_anything(lines: io.StringIO) -> None:
    class Shy:
        def __repr__(self) -> str:
            raise RuntimeError

    Logger("x").info("event", shy=Shy())
    assert last(lines)["shy"] == "a Shy that cannot be shown"


def test_logging_while_a_line_is_made_is_possible(lines: io.StringIO) -> None:
    """As a finalizer does that the garbage collector calls in between."""

    class Chatty:
        def __repr__(self) -> str:
            Logger("x").info("inner")
            return "chatty"

    Logger("x").info("outer", field=Chatty())
    assert [line["event"] for line in told(lines)] == ["inner", "outer"]


def test_an_exception_is_captured_when_the_line_is_logged(stuck: Stuck) -> None:
    error = ValueError("as it was")
    try:
        raise error
    except ValueError:
        Logger("x").exception("step failed")
    error.args = ("as it is later",)
    stuck.read.set()
    trace = last(stuck)["exception"]
    assert isinstance(trace, str)
    assert trace.endswith("ValueError: as it was")
    assert "raise error" in trace


# -- many lines ------------------------------------------------------------------------------------

ONE, OTHER = ("warning", "connection", "refused"), ("info", "groups", "group empty")


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def limiter(clock: Clock) -> Limiter:
    return Limiter(clock)


def admitted(limiter: Limiter, cause: LineKind, tries: int) -> int:
    return sum(limiter.admits(cause) for _ in range(tries))


def test_lines_of_one_cause_are_limited_and_counted(limiter: Limiter, clock: Clock) -> None:
    assert admitted(limiter, ONE, 8000) == BURST_LINES
    for _ in range(3):
        clock.now += 1
        assert admitted(limiter, ONE, 8000) == LINES_PER_S
    assert limiter.take_left_out() == {ONE: 32_000 - BURST_LINES - 3 * LINES_PER_S}
    assert limiter.take_left_out() == {}


def test_a_cause_does_not_count_against_another(limiter: Limiter) -> None:
    admitted(limiter, ONE, 8000)
    assert admitted(limiter, OTHER, BURST_LINES) == BURST_LINES
    assert limiter.take_left_out().keys() == {ONE}


def test_after_a_while_everything_is_allowed_again(limiter: Limiter, clock: Clock) -> None:
    admitted(limiter, ONE, 8000)
    clock.now += 10_000
    assert admitted(limiter, ONE, 8000) == BURST_LINES


def test_what_occurs_once_is_never_left_out(limiter: Limiter, clock: Clock) -> None:
    for number in range(10 * CAUSES):
        assert limiter.admits(("error", "asyncio", f"{number} failed"))
    assert limiter.take_left_out() == {}
    assert len(limiter._buckets) == CAUSES


def test_what_is_left_out_of_too_many_causes_is_counted_together(limiter: Limiter) -> None:
    for number in range(CAUSES + 10):
        admitted(limiter, ("error", "asyncio", f"{number} failed"), BURST_LINES + 1)
    left_out = limiter.take_left_out()
    assert len(left_out) == CAUSES + 1
    assert left_out[logs.OTHERS] == 10


def test_fields_are_only_made_for_lines_that_are_written(lines: io.StringIO) -> None:
    made: list[int] = []

    def fields() -> dict[str, object]:
        made.append(len(made))
        return {"number": made[-1]}

    log = Logger("test")
    for _ in range(BURST_LINES + 300):
        log.write("info", "much", fields)
    written = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert [line["number"] for line in written if line["event"] == "much"] == made
    assert BURST_LINES <= len(made) < BURST_LINES + 300
    assert {line["logger"] for line in written if line["event"] == "much"} == {"test"}


def test_a_flood_is_told_in_one_line_and_hides_nothing(lines: io.StringIO) -> None:
    before = counts.suppressed
    for number in range(BURST_LINES + 300):
        Logger("connection").warning("connection refused", client=f"/10.0.0.{number}")
        if number % 100 == 0:
            Logger("connection").error("answer cannot be written", number=number)
    found = told(lines)
    left_out = counts.suppressed - before
    assert 290 <= left_out <= 300  # some more were allowed while it took its time
    assert [line["event"] for line in found].count("answer cannot be written") == 5
    [note] = [line for line in found if line["event"] == "more lines like this were not written"]
    assert note.pop("timestamp")
    assert note == {
        "level": "warning",
        "logger": "connection",
        "event": "more lines like this were not written",
        "like": "connection refused",
        "lines": left_out,
    }


def test_lines_of_libraries_are_alike_when_they_begin_alike(lines: io.StringIO) -> None:
    for number in range(BURST_LINES + 300):
        logging.getLogger("asyncio").error("accept failed\nsocket: <socket at %x>", number)
    note = last(lines)
    assert (note["level"], note["like"]) == ("error", "accept failed")
    assert isinstance(note["lines"], int)
    assert note["lines"] > 290


def test_lines_are_dropped_and_counted_while_nobody_reads(stuck: Stuck) -> None:
    before = counts.crowded_out
    for number in range(QUEUE_LINES + 7):
        Logger(f"log {number}").info("event")
    assert counts.crowded_out - before == 7
    assert not logs.flush(0.01)
    stuck.read.set()
    found = told(stuck)
    assert sum(line["event"] == "event" for line in found) == QUEUE_LINES
    [note] = [line for line in found if line["event"] == "log lines were dropped"]
    assert (note["lines"], note["queue_lines"]) == (7, QUEUE_LINES)


def test_a_record_that_cannot_be_made_a_line_is_counted(lines: io.StringIO) -> None:
    before = counts.failed
    # Not through its logger, which has pytest's own handlers as well.
    logs._lines.handle(logging.makeLogRecord({"msg": "%d", "args": ("no number",), "levelno": 40}))
    Logger("x").info("event")
    assert [line["event"] for line in told(lines)] == ["event", "log lines were dropped"]
    assert counts.failed - before == 1


def test_without_lines_there_is_no_thread() -> None:
    code = (
        "import threading; from groupkeeper.observe import logs; log = logs.Logger('x');"
        "logs.configure(); print(threading.active_count());"
        "log.info('line'); print(threading.active_count())"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["1", "2"]
    assert "line" in ran.stderr


def test_a_forked_process_writes_its_own_lines_only() -> None:
    code = (
        "import os; from groupkeeper.observe import logs; log = logs.Logger('x');"
        "log.info('early'); child = os.fork(); log.info('late', child=not child);"
        "child and os.waitpid(child, 0)"
    )
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code]  # of 3.12
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    found = [json.loads(line) for line in ran.stderr.splitlines()]
    events = sorted((line["event"], line.get("child", False)) for line in found)
    assert events == [("early", False), ("late", False), ("late", True)]


# -- the end ---------------------------------------------------------------------------------------


def test_what_is_queued_is_written_when_the_process_ends() -> None:
    code = (
        "from groupkeeper.observe import logs; log = logs.Logger('x'); logs.configure();"
        "[log.info('event', number=n) for n in range(100)]; logs.write_text('the reason')"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *found, reason = ran.stderr.splitlines()
    assert [json.loads(line)["number"] for line in found] == list(range(100))
    assert reason == "the reason"


def test_a_process_ends_although_nobody_reads_its_lines() -> None:
    code = (
        "from groupkeeper.observe import logs; logs.configure();"
        "[logs.Logger(f'{n}').info('event', text='x' * 200) for n in range(1000)];"
        "logs.write_text('the reason')"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE)
    try:
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()


def test_a_standard_error_that_nobody_reads_stops_nobody(tmp_path: Path) -> None:
    with Process("--dev", "--http", "off", cwd=tmp_path) as process:
        address = process.ready().kafka
        client = connect(address)
        for number in range(1000):
            group = f"g{number}"
            member = client.call(3, join_request(group)).member_id
            left = client.call(2, LeaveGroupRequest(group_id=group, member_id=member))
            assert left.error_code == 0
        assert connect(address).call(0, ApiVersionsRequest()).error_code == 0
        assert process.stop(30) == 0
