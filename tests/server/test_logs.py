"""Log lines: form, level, and never in the way."""

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest

from groupkeeper.server import logs
from groupkeeper.server.logs import Log


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    logs.configure(stream)
    yield stream
    logs.configure()


def last(stream: io.StringIO) -> dict[str, object]:
    found: dict[str, object] = json.loads(stream.getvalue().splitlines()[-1])
    return found


def test_a_line_is_json_where_no_terminal_is(lines: io.StringIO) -> None:
    Log("connection", port=1).info("closed", client_id="billing")
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
    stream = Terminal()
    logs.configure(stream)
    Log("connection").warning("closed", client_id="billing")
    logs.configure()
    assert "closed" in stream.getvalue()
    assert "warning" in stream.getvalue()
    assert not stream.getvalue().startswith("{")


def test_json_can_be_asked_for_on_a_terminal() -> None:
    stream = Terminal()
    logs.configure(stream, json=True)
    Log("x").info("event")
    logs.configure()
    assert last(stream)["event"] == "event"


def test_levels_below_the_threshold_are_dropped(lines: io.StringIO) -> None:
    Log("x").debug("detail")
    assert lines.getvalue() == ""
    logs.configure(lines, "debug")
    Log("x").debug("detail")
    assert last(lines)["level"] == "debug"


def test_bound_fields_are_on_every_line_and_leave_the_parent_alone(lines: io.StringIO) -> None:
    parent = Log("x")
    parent.bind(partition=3).error("closed")
    assert last(lines)["partition"] == 3
    parent.error("closed")
    assert "partition" not in last(lines)


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_an_exception_carries_its_traceback(stream: io.StringIO) -> None:
    logs.configure(stream)
    try:
        raise RuntimeError("boom")
    except RuntimeError:
        Log("x").exception("step failed")
    logs.configure()
    assert "step failed" in stream.getvalue()
    assert "RuntimeError: boom" in stream.getvalue()


def test_values_that_json_does_not_know_are_shown_somehow(lines: io.StringIO) -> None:
    Log("x").info("frame", data=b"\x00\xff", kind=ValueError)
    assert last(lines)["data"] == "b'\\x00\\xff'"


def test_what_asyncio_logs_takes_the_same_way(lines: io.StringIO) -> None:
    logging.getLogger("asyncio").error("task %s died", "t1")
    assert last(lines) | {"event": "task t1 died", "logger": "asyncio"} == last(lines)


def test_configuring_twice_does_not_double_lines(lines: io.StringIO) -> None:
    logs.configure(lines)
    logging.getLogger("asyncio").error("once")
    assert lines.getvalue().count("once") == 1


def test_a_closed_stream_does_not_end_the_server() -> None:
    stream = io.StringIO()
    logs.configure(stream)
    Log("x").info("before")
    stream.close()
    Log("x").info("after")
    logs.configure()


def test_neither_structlog_nor_rich_is_imported_before_it_is_needed() -> None:
    code = (
        "import sys; from groupkeeper.server import logs; logs.configure(); log = logs.Log('x');"
        "print('structlog' in sys.modules); log.info('line');"
        "print('structlog' in sys.modules, 'rich' in sys.modules); import rich.console"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["False", "True", "False"]
