"""Structured log lines on standard error: readable on a terminal, JSON otherwise.

Use `_log = Logger("connection")` at the top of a module, and `_log.info("closed", client_id=...)`.
An event is a few fixed words; everything that varies is a field. The pure packages write no lines:
they return facts.

Logging never blocks the caller: a line goes into a bounded queue, and a thread writes it
(`log_writer`). The rate of lines with the same event is limited, so that one client can neither
fill the disk nor hide the lines about others. The thread starts with the first line.
"""

import atexit
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from queue import SimpleQueue
from traceback import TracebackException
from typing import Any, Final, TextIO

from groupkeeper.observe.log_writer import (
    QUEUE_LINES,
    TRACE_LINES,
    Line,
    LineKind,
    LogOutput,
    LogThread,
    counts,
    cut,
)

LEVELS: Final = ("info", "warning", "error")

LINES_PER_S: Final = 10
"""Lines of one cause that are written per second, once its burst is used up."""

BURST_LINES: Final = 200
"""Lines of one cause that are written at once: enough for a restart of the consumers of two hundred
groups."""

CAUSES: Final = 1_000
"""Causes that are tracked at a time."""

OTHERS: Final[LineKind] = "warning", "logs", "others"
"""Stands for the suppressed lines of causes beyond `CAUSES`."""

FLUSH_S: Final = 2.0
"""How long the end of the process waits for its last lines to be written."""

NUMBER: Final = 1e300
"""Larger numbers, infinities and NaN have no portable form in JSON."""


_Fields = dict[str, object]


class Limiter:
    """A token bucket for each cause: `BURST_LINES`, refilled at `LINES_PER_S`."""

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._buckets: dict[LineKind, tuple[float, float]] = {}
        """Lines allowed and since when, by cause, quietest first."""
        self._left_out: dict[LineKind, int] = {}

    def admits(self, cause: LineKind) -> bool:
        """Return whether one more line may be written. If not, it is counted."""
        now, buckets = self._seconds(), self._buckets
        allowed, since = buckets.pop(cause, (BURST_LINES, now))
        allowed = min(BURST_LINES, allowed + (now - since) * LINES_PER_S)
        if len(buckets) >= CAUSES:
            del buckets[next(iter(buckets))]
        if allowed >= 1:
            buckets[cause] = allowed - 1, now
            return True
        buckets[cause] = allowed, now
        left_out = self._left_out
        if cause not in left_out and len(left_out) >= CAUSES:
            cause = OTHERS
        left_out[cause] = left_out.get(cause, 0) + 1
        return False

    def take_left_out(self) -> dict[LineKind, int]:
        """Return the suppressed lines by cause since the last call."""
        taken, self._left_out = self._left_out, {}
        return taken


class _Lines(logging.Handler):
    """The destination of lines: one per process, replaced by `configure`.

    It is also a handler of the standard library's logging, for the records of libraries such as
    asyncio. The queue is a SimpleQueue because a finalizer may log in the middle of `put`.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__(logging.WARNING)
        self._output = LogOutput(stream)
        self.begin()

    def begin(self) -> None:
        """Start with an empty queue and no thread."""
        self._lines = SimpleQueue[object]()
        self._limiter = Limiter()
        self._adding = threading.RLock()
        self._listener = LogThread(self._lines, self._output, self._take_left_out)
        self._listening = False

    def add(self, level: str, event: str, logger: str, make: Callable[[], _Fields]) -> None:
        """Queue a line unless its cause is limited or the queue is full; only then make fields."""
        with self._adding:
            if self._has_room(level, event, logger):
                line = _line(level, event, logger, make())
                kept = {key: _kept(value) for key, value in line.fields.items()}
                self.add_item(line._replace(event=cut(event), fields=kept))

    def add_line(self, line: Line) -> None:
        """Queue a finished line unless its cause is limited or the queue is full."""
        with self._adding:
            if self._has_room(line.level, line.event, str(line.fields["logger"])):
                self.add_item(line)

    def _has_room(self, level: str, event: str, logger: str) -> bool:
        """Return whether a line may be queued. If not, it is counted."""
        # In messages of libraries, the first line is fixed; objects and addresses follow.
        if not self._limiter.admits((level, logger, cut(event.partition("\n")[0]))):
            counts.suppressed += 1
            return False
        if self._lines.qsize() >= QUEUE_LINES:
            counts.crowded_out += 1
            return False
        return True

    def add_item(self, item: Line | str) -> None:
        """Queue a line, or a text that is written unchanged."""
        with self._adding:
            self._lines.put(item)
            if not self._listening:
                self._listening = True
                try:
                    self._listener.start()
                except RuntimeError:  # no more threads can be started: try again with the next line
                    self._listening = False

    def _take_left_out(self) -> dict[LineKind, int]:
        with self._adding:
            return self._limiter.take_left_out()

    def flush_within(self, seconds: float) -> bool:
        if not self._listening:
            return True
        written = threading.Event()
        self._lines.put(written)
        return written.wait(seconds)

    def stop(self, seconds: float) -> None:
        """Write the queued lines, within `seconds`, and end the thread."""
        self.flush_within(seconds)
        if self._listening:
            self._listener.stop()

    # -- records of the standard library's logging -----------------------------------------------

    def emit(self, record: logging.LogRecord) -> None:
        level = record.levelname.lower()
        fields: _Fields = {"exc_info": record.exc_info}
        try:
            event = record.getMessage()
            self.add(level if level in LEVELS else "error", event, record.name, lambda: fields)
        except Exception:  # noqa: BLE001  # from an argument, or its text
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # logging's name
        """Count a record that could not be formatted. The base class would block and print it."""
        counts.failed += 1


def _line(level: str, event: str, logger: str, fields: _Fields) -> Line:
    fields = {"logger": logger, **fields}
    trace = _trace(fields.pop("exc_info", None))
    return Line(time.time(), level, event, fields, trace)


def _kept(value: object) -> object:
    """Return a short, immutable copy of a field's value."""
    if isinstance(value, str):
        return cut(value)
    if value is None or (isinstance(value, int | float) and abs(value) < NUMBER):
        return value
    try:
        return cut(repr(value))
    except Exception:  # noqa: BLE001  # a broken repr must not fail the caller
        return f"a {type(value).__name__} that cannot be shown"


def _trace(exc_info: Any) -> TracebackException | None:
    """Return the traceback of `exc_info`, which has any of logging's forms.

    Source lines are read by the thread that writes it.
    """
    if exc_info is True:
        error = sys.exc_info()[1]
    else:
        error = exc_info[1] if isinstance(exc_info, tuple) else exc_info
    if not isinstance(error, BaseException):
        return None
    return TracebackException(
        type(error),
        error,
        error.__traceback__,
        limit=-TRACE_LINES,
        lookup_lines=False,
        compact=True,
    )


_lines = _Lines()


def configure(stream: TextIO | None = None) -> None:
    """Set the stream of all lines (default: standard error); they are JSON unless it is a terminal.

    Records of the standard library's logging go to the same stream from now on. Lines logged before
    this call are written to the previous stream.
    """
    global _lines
    old, _lines = _lines, _Lines(stream)
    old.stop(FLUSH_S)
    root = logging.getLogger()
    root.handlers = [each for each in root.handlers if not isinstance(each, _Lines)]
    root.addHandler(_lines)


def flush(seconds: float = FLUSH_S) -> bool:
    """Wait until all lines are written; False after a timeout. Also called at process exit."""
    return _lines.flush_within(seconds)


def write_text(text: str) -> None:
    """Write a text, such as why the process ends, in order with the lines."""
    _lines.add_item(text)


Keep = Callable[[Line], None]
"""Receives a line instead of the process's stream."""

_keep: ContextVar[Keep | None] = ContextVar("groupkeeper.logs", default=None)


def keep_lines(keep: Keep | None) -> None:
    """Pass the lines of this context, a thread and its calls, to `keep`, unlimited. For a server
    that is only a part of its process. None: use the process's stream again.
    """
    _keep.set(keep)


def pass_on(line: Line) -> None:
    """Write a line that was kept, as if this process had logged it."""
    _lines.add_line(line)


def _after_fork() -> None:
    """Reset the child: the thread and its queued lines belong to the parent."""
    _lines.begin()


atexit.register(flush)
# Before a fork, too: a module that the thread is importing would stay half imported in the child.
if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(before=flush, after_in_child=_after_fork)


class Logger:
    """A named source of lines."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def info(self, event: str, **fields: object) -> None:
        self.write("info", event, lambda: fields)

    def warning(self, event: str, **fields: object) -> None:
        self.write("warning", event, lambda: fields)

    def error(self, event: str, **fields: object) -> None:
        self.write("error", event, lambda: fields)

    def exception(self, event: str, **fields: object) -> None:
        """Log an error with the traceback of the exception being handled."""
        self.write("error", event, lambda: {"exc_info": True, **fields})

    def write(self, level: str, event: str, fields: Callable[[], _Fields]) -> None:
        """Log a line whose fields are made only if it is written. For events that may be far more
        frequent than written lines.
        """
        keep = _keep.get()
        if keep is None:
            _lines.add(level, event, self._name, fields)
        else:
            keep(_line(level, event, self._name, fields()))
