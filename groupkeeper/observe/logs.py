"""Structured log lines on standard error: readable on a terminal, JSON otherwise.

``log = Logger("connection")`` at the top of a module, ``log.info("closed", client_id=...)`` where
something happened. An event is a few fixed words, what varies is a field. Not used by the pure
packages: they return facts.

Whoever logs never waits: a line goes into a bounded queue, and a thread writes it (``log_writer``).
Lines that are alike are limited, so that a client can neither fill the disk nor hide what others
do. The thread begins with the first line; without one there is none.
"""

import atexit
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from logging.handlers import QueueHandler
from queue import SimpleQueue
from traceback import TracebackException
from typing import Any, Final, TextIO

from groupkeeper.observe.log_writer import (
    QUEUE_LINES,
    TRACE_LINES,
    Cause,
    Line,
    Listener,
    Output,
    counts,
    cut,
)

LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}

LINES_PER_S: Final = 10
"""So many lines of one cause are written a second, when there are more for long."""

BURST_LINES: Final = 200
"""So many lines of one cause are written at once: a restart of the consumers of two hundred groups
is told in full."""

CAUSES: Final = 1_000
"""Causes whose lines are counted at a time."""

OTHERS: Final[Cause] = "warning", "logs", "others"
"""Stands for what is left out of more causes than :data:`CAUSES`."""

FLUSH_S: Final = 2.0
"""The process ends after so many seconds, whether its last lines are read by anybody or not."""

NUMBER: Final = 1e300
"""Beyond it, and for what is no number, JSON has no form that everybody reads."""


class Limiter:
    """How many lines of a cause are written: a bucket of :data:`BURST_LINES` for each, refilled
    with :data:`LINES_PER_S`.
    """

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._buckets: dict[Cause, tuple[float, float]] = {}
        """Lines allowed and since when, the cause that was quiet for longest first."""
        self._left_out: dict[Cause, int] = {}

    def admits(self, cause: Cause) -> bool:
        """May one more line be written? If not, it is counted."""
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

    def take_left_out(self) -> dict[Cause, int]:
        """How many lines of which cause were not admitted since this was asked last."""
        taken, self._left_out = self._left_out, {}
        return taken


class _Lines(QueueHandler):
    """Where lines go: one per process, replaced by :func:`configure`.

    As a handler of the standard library's logging it takes the records of libraries, asyncio above
    all. The queue is one that may be entered again by a finalizer in the middle of ``put``.
    """

    def __init__(
        self, stream: TextIO | None = None, level: str = "info", json: bool | None = None
    ) -> None:
        super().__init__(SimpleQueue())
        self.threshold = LEVELS[level]
        self.setLevel(max(self.threshold, logging.WARNING))
        self._output = Output(stream, json)
        self.begin()

    def begin(self) -> None:
        """With nothing queued, and no thread."""
        self.queue = self._lines = SimpleQueue[object]()
        self._limiter = Limiter()
        self._adding = threading.RLock()
        self._listener = Listener(self._lines, self._output, self._take_left_out)
        self._listening = False

    def add(self, level: str, event: str, fields: dict[str, Any]) -> None:
        """Queue a line, unless there are too many."""
        exc_info = fields.pop("exc_info", None)
        with self._adding:
            # What libraries log begins with fixed words as well; below come objects and addresses.
            if not self._limiter.admits((level, fields["logger"], cut(event.partition("\n")[0]))):
                counts.suppressed += 1
            elif self._lines.qsize() >= QUEUE_LINES:
                counts.crowded_out += 1
            else:
                kept = {key: _kept(value) for key, value in fields.items()}
                self.add_item(Line(time.time(), level, cut(event), kept, _trace(exc_info)))

    def add_item(self, item: Line | str) -> None:
        """Queue a line, or a text that is written as it is."""
        with self._adding:
            self._lines.put(item)
            if not self._listening:
                self._listening = True
                try:
                    self._listener.start()
                except RuntimeError:  # no threads are left: with the next line, perhaps
                    self._listening = False

    def _take_left_out(self) -> dict[Cause, int]:
        with self._adding:
            return self._limiter.take_left_out()

    def flush_within(self, seconds: float) -> bool:
        if not self._listening:
            return True
        written = threading.Event()
        self._lines.put(written)
        return written.wait(seconds)

    def stop(self, seconds: float) -> None:
        """Write what is queued, if somebody takes it, and end the thread."""
        self.flush_within(seconds)
        if self._listening:
            self._listener.stop()

    # -- records of the standard library's logging -----------------------------------------------

    def prepare(self, record: logging.LogRecord) -> tuple[str, str, dict[str, object]]:
        level = record.levelname.lower()
        fields: dict[str, object] = {"logger": record.name, "exc_info": record.exc_info}
        return level if level in LEVELS else "error", record.getMessage(), fields

    # Any: the base class takes whatever prepare() returns for a record.
    def enqueue(self, record: Any) -> None:
        self.add(*record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # logging's name
        """The record cannot be made a line. The base class would print that, and wait for it."""
        counts.failed += 1


def _kept(value: object) -> object:
    """What a line keeps of a field: it is short, and nobody can change it any more."""
    if isinstance(value, str):
        return cut(value)
    if value is None or (isinstance(value, int | float) and abs(value) < NUMBER):
        return value
    try:
        return cut(repr(value))
    except Exception:  # noqa: BLE001  # whatever it is: who logs goes on
        return f"a {type(value).__name__} that cannot be shown"


def _trace(exc_info: Any) -> TracebackException | None:
    """What a traceback will need, for ``exc_info`` in any of logging's forms.

    Source lines are read when it is written.
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


def configure(
    stream: TextIO | None = None, level: str = "info", *, json: bool | None = None
) -> None:
    """Say where lines go (default: standard error), from which level on, and in which form.

    ``json=None`` decides by whether ``stream`` is a terminal. Cheap: nothing is imported yet. What
    libraries log through the standard library, asyncio above all, takes the same way from here on.
    Lines that were logged before are written to where they belong.
    """
    global _lines
    old, _lines = _lines, _Lines(stream, level, json)
    old.stop(FLUSH_S)
    root = logging.getLogger()
    root.handlers = [each for each in root.handlers if not isinstance(each, _Lines)]
    root.addHandler(_lines)


def flush(seconds: float = FLUSH_S) -> bool:
    """Wait until all that was logged is written; False if that takes longer. Happens by itself when
    the process ends.
    """
    return _lines.flush_within(seconds)


def write_text(text: str) -> None:
    """A line that is no event, such as why the process ends; in turn with the others."""
    _lines.add_item(text)


def _after_fork() -> None:
    """The thread stayed with the parent, and so did the lines that still wait for it."""
    _lines.begin()


atexit.register(flush)
# Before a fork as well: what the thread is importing would stay half imported in the child.
os.register_at_fork(before=flush, after_in_child=_after_fork)


class Logger:
    """A named source of lines, with fields that all its lines carry."""

    __slots__ = ("_fields",)

    def __init__(self, name: str, **fields: object) -> None:
        self._fields: Mapping[str, object] = {"logger": name, **fields}

    def bind(self, **fields: object) -> "Logger":
        """The same source with more fields, for one connection or one partition."""
        log = Logger.__new__(Logger)
        log._fields = {**self._fields, **fields}
        return log

    def debug(self, event: str, **fields: object) -> None:
        self._write("debug", event, fields)

    def info(self, event: str, **fields: object) -> None:
        self._write("info", event, fields)

    def warning(self, event: str, **fields: object) -> None:
        self._write("warning", event, fields)

    def error(self, event: str, **fields: object) -> None:
        self._write("error", event, fields)

    def exception(self, event: str, **fields: object) -> None:
        """An error with the traceback of the exception being handled."""
        self._write("error", event, {"exc_info": True, **fields})

    def _write(self, level: str, event: str, fields: dict[str, object]) -> None:
        if LEVELS[level] >= _lines.threshold:
            _lines.add(level, event, {**self._fields, **fields})
