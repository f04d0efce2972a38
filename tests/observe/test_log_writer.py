"""How lines reach their stream, and what they look like."""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from groupkeeper.observe import logs
from groupkeeper.observe.log_writer import (
    FIELD_CHARS,
    TRACE_LINES,
    Line,
    LogOutput,
    counts,
    readable,
)
from groupkeeper.observe.logs import Logger
from tests.observe.test_logs import Stream, Terminal

HOSTILE = "\x1b[2J\0\x9b31m\u202egnp\u200b\ud800\nlevel=error"


class Broken(Stream):
    """Takes nothing for as long as it is broken."""

    broken = True

    def write(self, text: str) -> int:
        if self.broken:
            raise BrokenPipeError
        return super().write(text)


@pytest.fixture
def terminal() -> Iterator[Stream]:
    stream = Terminal()
    logs.configure(stream)
    yield stream
    logs.configure()


def raised(error: Exception) -> Exception:
    try:
        raise error
    except Exception as caught:  # noqa: BLE001  # it has its traceback now
        return caught


def harmless(text: str) -> bool:
    """Whether all but line ends is printable."""
    return text.replace("\n", "").isprintable()


def test_a_terminal_is_shown_what_clients_send_and_does_not_obey(terminal: Stream) -> None:
    Logger("connection").warning("connection refused", client_id=HOSTILE)
    text = terminal.getvalue()
    assert text.count("\n") == 1
    assert repr(HOSTILE) in text
    assert harmless(text)
    assert "\x1b[2J" not in text


def test_events_of_libraries_are_escaped_on_a_terminal(terminal: Stream) -> None:
    # Without the lone surrogate: pytest keeps what is logged, and its workers cannot exchange that.
    logging.getLogger("asyncio").error(HOSTILE.replace("\ud800", ""))
    text = terminal.getvalue()
    assert text.count("\n") == 1
    assert "\\x1b[2J\\x00\\x9b31m\\u202egnp" in text
    assert harmless(text)


def test_a_traceback_is_escaped_on_a_terminal_line_by_line(terminal: Stream) -> None:
    Logger("x").error("failed", exc_info=raised(ValueError(HOSTILE)))
    text = terminal.getvalue()
    assert text.count("\n") > 4
    assert "ValueError: \\x1b[2J" in text
    assert harmless(text)


def test_a_traceback_is_bounded_in_width_and_length() -> None:
    stream = Stream()
    logs.configure(stream)
    Logger("x").error("failed", exc_info=raised(ValueError("\n".join(["x" * 1000] * 1000))))
    trace = json.loads(stream.getvalue())["exception"].split("\n")
    assert len(trace) == TRACE_LINES + 1
    assert max(map(len, trace)) < FIELD_CHARS + 30
    assert trace[0] == "Traceback (most recent call last):"
    assert trace[-1].endswith("... (744 more)")
    assert sum("more lines)" in line for line in trace) == 1
    logs.configure()


def test_a_stream_that_raises_costs_its_lines_and_they_are_told() -> None:
    stream, before = Broken(), counts.failed
    logs.configure(stream)
    for _ in range(3):
        Logger("x").info("lost")
    assert logs.flush(20)
    assert counts.failed - before == 3
    stream.broken = False
    Logger("x").info("written")
    found = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["event"] for line in found] == ["written", "log lines were dropped"]
    assert found[1]["lines"] == 3
    logs.configure()


def test_no_standard_error_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    logs.configure()
    before = counts.failed
    Logger("x").info("event")
    assert logs.flush(20)
    assert counts.failed - before == 1
    monkeypatch.undo()
    logs.configure()


def test_a_pipe_that_does_not_block_gets_everything() -> None:
    """Whoever shares standard error with us may have made it so."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with open(reading, encoding="utf-8") as reader, open(writing, "w", encoding="utf-8") as stream:
        logs.configure(stream)
        for number in range(2000):
            Logger(f"log {number}").info("event", text="x" * 200)
        found = [json.loads(reader.readline()) for _ in range(2000)]
        logs.configure()
    assert [line["logger"] for line in found] == [f"log {number}" for number in range(2000)]


def test_a_text_is_encoded_as_its_stream_is(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("w", encoding="ascii") as stream:
        LogOutput(stream).write("k\xe4se")
    assert path.read_bytes() == b"k\\xe4se\n"


def test_a_line_on_a_terminal_has_its_fields_in_the_order_of_their_names() -> None:
    line = Line(0.5, "warning", "closed", {"logger": "connection", "idle_s": 3, "host": "/h"})
    assert readable(line) == (
        "1970-01-01T00:00:00.500000Z [warning  ] closed                   [connection] "
        "host='/h' idle_s=3"
    )


OUT_OF_DESCRIPTORS = """
import json, os, resource
from groupkeeper.observe import logs

logs.configure()
resource.setrlimit(resource.RLIMIT_NOFILE, (50, 50))
held = []
try:
    while True:
        held.append(os.open("/dev/null", os.O_RDONLY))
except OSError as error:
    logs.Logger("server").error("first", error=str(error))
logs.flush(20)
for descriptor in held:
    os.close(descriptor)
logs.Logger("server").error("second")
"""


def test_without_a_file_descriptor_left_the_first_line_is_written_all_the_same() -> None:
    run = subprocess.run(
        [sys.executable, "-c", OUT_OF_DESCRIPTORS], capture_output=True, text=True, check=True
    )
    first, second = map(json.loads, run.stderr.splitlines())
    assert (first["event"], second["event"]) == ("first", "second")
    assert first["error"] == "[Errno 24] Too many open files: '/dev/null'"
    assert first.keys() == second.keys() | {"error"}
