"""The thread that writes log lines, and the form of a line.

The event loop only puts a `Line` into a queue (`logs`). Everything slow happens here: lines are
formatted, and a stream that is not read blocks this thread only. JSON is the standard library's;
structlog is imported with the first line for a terminal, because that takes longer than everything
else before the port is open. While it cannot be imported, for lack of a file descriptor, lines are
JSON as well.
"""

import os
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.machinery import ModuleSpec
from json import dumps
from queue import Empty, SimpleQueue
from traceback import TracebackException
from typing import Any, Final, NamedTuple, TextIO

QUEUE_LINES: Final = 2_000
"""Lines that wait to be written, of about 1 KiB each. Further lines are dropped and counted."""

FIELD_CHARS: Final = 256
"""The longest event or field, and the longest line of a traceback, in characters."""

TRACE_LINES: Final = 100
"""Lines kept of a traceback, half of them from each end, and frames of each of its exceptions."""

TELL_S: Final = 1.0
"""Interval of the lines that tell how many others were not written, in seconds."""

Cause = tuple[str, str, str]
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
"""Of this process, because it has one standard error."""


def cut(text: str) -> str:
    """At most `FIELD_CHARS` characters of a text, and how many more there were."""
    if len(text) <= FIELD_CHARS:
        return text
    return f"{text[:FIELD_CHARS]}... ({len(text) - FIELD_CHARS} more)"


class Listener:
    """A thread that takes items from the queue: writes lines and texts, and sets events.

    No error of a line or of the stream ends the thread. Not logging.handlers' QueueListener: that
    module imports pickle, 0.3 MiB.
    """

    def __init__(
        self, lines: "SimpleQueue[Any]", output: "Output", left_out: Callable[[], dict[Cause, int]]
    ) -> None:
        """`left_out` returns the suppressed lines by cause since its last call."""
        self._lines = lines
        self._output = output
        self._left_out = left_out
        self._told_at = time.monotonic()
        self._told = counts.dropped

    def start(self) -> None:
        """Raises RuntimeError if no more threads can be started."""
        threading.Thread(target=self._run, name="log", daemon=True).start()

    def stop(self) -> None:
        """End the thread when all is written. Does not join it: a write may block for ever."""
        self._lines.put(None)

    def _run(self) -> None:
        while (item := self._next()) is not None:
            self._handle(item)

    # Any: an item of the queue, which is a line, a text, an event, or None at the end.
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


class Output:
    """A stream and the form of its lines. Neither is looked at before the first line."""

    def __init__(self, stream: TextIO | None = None, json: bool | None = None) -> None:
        """`stream` None: standard error. `json` None: JSON unless the stream is a terminal."""
        self._stream = stream
        self._json = json
        self._render: Callable[[Line], str] | None = None

    def write(self, item: Line | str) -> None:
        """Raises what the stream raises."""
        stream = self._stream = self._stream or sys.stderr
        if isinstance(item, Line):
            item = self._text(item, stream)
        _put(stream, item + "\n")

    def _text(self, line: Line, stream: TextIO) -> str:
        if self._render is None:
            try:
                self._render = self._renderer(terminal=stream.isatty())
            except (ImportError, OSError):
                return _json(line)
        return self._render(line)

    def _renderer(self, *, terminal: bool) -> Callable[[Line], str]:
        as_json = not terminal if self._json is None else self._json
        return _json if as_json else _readable(colors=terminal)


def _put(stream: TextIO, text: str) -> None:
    """Write to the stream's file descriptor, if it has one, and not through its buffer: the
    interpreter takes the buffer's lock when it ends, and aborts if a blocked thread holds it.
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


@cache
def readable() -> Callable[[Line], str]:
    """What makes text of a line, as it is on a terminal, but without colors."""
    return _readable(colors=False)


def _readable(*, colors: bool) -> Callable[[Line], str]:
    """Text from clients is escaped with `repr`: control sequences, which a terminal would obey, and
    characters that change how other text looks.
    """
    with _without_rich():
        import structlog
    render = structlog.dev.ConsoleRenderer(
        colors=colors,
        exception_formatter=structlog.dev.plain_traceback,
        pad_event_to=24,
        repr_native_str=True,
    )

    def text(line: Line) -> str:
        words = _words(line)
        words["event"] = _escaped(line.event)
        if "exception" in words:
            words["exception"] = "\n".join(map(_escaped, str(words["exception"]).split("\n")))
        return str(render(None, line.level, words))

    return text


def _json(line: Line) -> str:
    return dumps(_words(line))


def _words(line: Line) -> dict[str, object]:
    """The fields of a line, under structlog's keys."""
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
    """Python escapes for control characters, surrogates and formatting characters."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


class _NoRich:
    """An import hook that hides rich from the thread that made it."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()

    def find_spec(self, name: str, _path: object, _target: object = None) -> ModuleSpec | None:
        if name == "rich" and threading.get_ident() == self._thread:
            raise ModuleNotFoundError(name)
        return None


@contextmanager
def _without_rich() -> Iterator[None]:
    """Hide rich while structlog is imported.

    structlog would import it, for a form of tracebacks that is not used here: 25 ms and 3 MiB.
    """
    hook = _NoRich()
    sys.meta_path.insert(0, hook)
    try:
        yield
    finally:
        sys.meta_path.remove(hook)
