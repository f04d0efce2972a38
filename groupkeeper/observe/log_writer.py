"""The thread that writes log lines, and the format of a line.

The event loop only puts a `Line` into a queue (`logs`). Everything slow happens here: lines are
formatted, and a stream that is not read blocks this thread only.
"""

import os
import select
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from json import dumps
from queue import Empty, SimpleQueue
from traceback import TracebackException
from typing import Any, Final, NamedTuple, TextIO

QUEUE_LINES: Final = 2_000
"""Lines that wait to be written, of about 1 KiB each. Further lines are dropped and counted."""

FIELD_CHARS: Final = 256
"""Maximum length of an event, a field, or a line of a traceback, in characters."""

TRACE_LINES: Final = 100
"""Lines kept of a traceback, half of them from each end, and frames of each of its exceptions."""

TELL_S: Final = 1.0
"""Interval in seconds of the lines that report how many others were not written."""

EVENT_WIDTH: Final = 24
"""Width of an event on a terminal, so that the fields of most lines are aligned."""

LineKind = tuple[str, str, str]
"""Level, logger and event."""


class Line(NamedTuple):
    """A line on its way to the stream."""

    at: float
    """Unix time in seconds."""
    level: str
    event: str
    fields: dict[str, object]
    trace: TracebackException | None = None


@dataclass(slots=True)
class LineCounts:
    """Lines that were not written since the process started."""

    suppressed: int = 0
    """Too many had the same cause."""
    crowded_out: int = 0
    """The queue was full."""
    failed: int = 0
    """The stream failed."""

    @property
    def dropped(self) -> int:
        return self.crowded_out + self.failed


counts: Final = LineCounts()
"""Per process, because it has one standard error."""


def cut(text: str) -> str:
    """Shorten a text to `FIELD_CHARS` characters, and append the number of removed ones."""
    if len(text) <= FIELD_CHARS:
        return text
    return f"{text[:FIELD_CHARS]}... ({len(text) - FIELD_CHARS} more)"


class LogThread:
    """A thread that processes the queue: writes lines and texts, and sets events.

    No error of a line or of the stream ends the thread. Not logging.handlers' QueueListener: that
    module imports pickle, 0.3 MiB.
    """

    def __init__(
        self,
        lines: "SimpleQueue[Any]",
        output: "LogOutput",
        left_out: Callable[[], dict[LineKind, int]],
    ) -> None:
        """`left_out` returns the suppressed lines by cause since its last call."""
        self._lines = lines
        self._output = output
        self._left_out = left_out
        self._told_at = time.monotonic()
        self._told = counts.dropped

    def start(self) -> None:
        """Start the thread. Raises RuntimeError if no more threads can be started."""
        threading.Thread(target=self._run, name="log", daemon=True).start()

    def stop(self) -> None:
        """End the thread when everything is written. Not joined: a write may block for ever."""
        self._lines.put(None)

    def _run(self) -> None:
        while (item := self._next()) is not None:
            self._handle(item)

    # Any: a line, a text, an event, or None at the end.
    def _next(self) -> Any:
        while True:
            if time.monotonic() - self._told_at >= TELL_S:
                self._tell()
            with suppress(Empty):
                return self._lines.get(timeout=TELL_S)

    def _handle(self, item: Line | str | threading.Event) -> None:
        if isinstance(item, threading.Event):
            self._tell()
            item.set()
        elif not self._write(item):
            counts.failed += 1

    def _write(self, item: Line | str) -> bool:
        try:
            self._output.write(item)
        except Exception:  # noqa: BLE001  # the stream's, or a field's that has no text
            return False
        return True

    def _tell(self) -> None:
        """Write lines about those that were not written."""
        self._told_at = time.monotonic()
        for (level, logger, event), lines in self._left_out().items():
            fields = {"logger": logger, "like": event, "lines": lines}
            self._handle(Line(time.time(), level, "more lines like this were not written", fields))
        dropped = counts.dropped
        if dropped > self._told:
            fields = {"logger": "logs", "lines": dropped - self._told, "queue_lines": QUEUE_LINES}
            if self._write(Line(time.time(), "warning", "log lines were dropped", fields)):
                self._told = dropped


class LogOutput:
    """A stream and the format of its lines: JSON unless it is a terminal. Neither is looked at
    before the first line.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        """`stream` None: standard error."""
        self._stream = stream
        self._render: Callable[[Line], str] | None = None

    def write(self, item: Line | str) -> None:
        """Write a line or a text. Raises the errors of the stream."""
        stream = self._stream = self._stream or sys.stderr
        if isinstance(item, Line):
            item = self._text(item, stream)
        _put(stream, item + "\n")

    def _text(self, line: Line, stream: TextIO) -> str:
        if self._render is None:
            self._render = readable if stream.isatty() else _json
        return self._render(line)


def _put(stream: TextIO, text: str) -> None:
    """Write to the stream's file descriptor, if it has one, bypassing its buffer. The interpreter
    takes the buffer's lock at exit, and aborts if a blocked thread holds it.
    """
    if stream.closed:  # its descriptor may belong to another file by now
        raise ValueError("the stream is closed")
    try:
        descriptor = stream.fileno()
    except OSError:
        stream.write(text)
        stream.flush()
        return
    data = text.encode(stream.encoding, "backslashreplace")
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:  # another process that shares the file has set O_NONBLOCK
            select.select([], [descriptor], [])


# -- text ------------------------------------------------------------------------------------------


def readable(line: Line) -> str:
    """Format a line for a terminal. Text from clients is escaped: control sequences, which a
    terminal would obey, and characters that change how other text looks.
    """
    words = _words(line)
    trace = str(words.pop("exception", ""))
    time, level, event, logger = (
        str(words.pop(name)) for name in ("timestamp", "level", "event", "logger")
    )
    fields = (f"{key}={words[key]!r}" for key in sorted(words))
    head = f"{time} [{level:<9}] {_escaped(event):<{EVENT_WIDTH}} [{logger}]"
    return "\n".join([" ".join([head, *fields]), *map(_escaped, trace.splitlines())])


def _json(line: Line) -> str:
    return dumps(_words(line))


def _words(line: Line) -> dict[str, object]:
    """Return the fields of a line, including those common to all lines."""
    at = datetime.fromtimestamp(line.at, UTC).isoformat(timespec="microseconds")
    words = {
        "level": line.level,
        **line.fields,
        "event": line.event,
        "timestamp": at.replace("+00:00", "Z"),
    }
    if line.trace is not None:
        words["exception"] = _trace_text(line.trace)
    return words


def _trace_text(trace: TracebackException) -> str:
    lines = [cut(line) for line in "".join(trace.format()).splitlines()]
    more = len(lines) - TRACE_LINES
    if more > 0:
        half = TRACE_LINES // 2
        lines[half:-half] = [f"... ({more} more lines)"]
    return "\n".join(lines)


def _escaped(text: str) -> str:
    """Replace control characters, surrogates and formatting characters by Python escapes."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )
