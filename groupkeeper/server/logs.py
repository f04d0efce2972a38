"""Structured log lines on standard error: readable on a terminal, JSON otherwise.

``log = Log("connection")`` at the top of a module, ``log.info("closed", client_id=...)`` where
something happened. An event is a few fixed words, what varies is a field. Not used by the pure
packages: they return facts.

structlog does the work. It is imported with the first line that is really written, because it
costs more than everything else a server needs to open its port.
"""

import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TextIO

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}

# Any: what structlog's last processor returns is of no use to anybody here.
Emit = Callable[[str, str, dict[str, object]], Any]
"""Level, event, fields."""


class _Sink:
    """Where lines go: one per process, replaced by :func:`configure`."""

    def __init__(self, stream: TextIO | None = None, level: str = "info") -> None:
        self.stream = stream
        self.threshold = LEVELS[level]
        self.json: bool | None = None
        self.emit: Emit | None = None

    def write(self, level: str, event: str, fields: dict[str, object]) -> None:
        if self.emit is None:
            self.emit = _build(self.stream or sys.stderr, self.json)
        # Nobody reads: the pipe is broken or the stream closed. A server does not end for that.
        with suppress(OSError, ValueError):
            self.emit(level, event, fields)


_sink = _Sink()


def configure(
    stream: TextIO | None = None, level: str = "info", *, json: bool | None = None
) -> None:
    """Say where lines go (default: standard error), from which level on, and in which form.

    ``json=None`` decides by whether ``stream`` is a terminal. Cheap: nothing is imported yet. What
    libraries log through the standard library, asyncio above all, takes the same way from here on.
    """
    global _sink
    _sink = _Sink(stream, level)
    _sink.json = json
    root = logging.getLogger()
    root.handlers = [handler for handler in root.handlers if not isinstance(handler, _Bridge)]
    root.addHandler(_Bridge(logging.WARNING))


class Log:
    """A named source of lines, with fields that all its lines carry."""

    __slots__ = ("_fields",)

    def __init__(self, name: str, **fields: object) -> None:
        self._fields: Mapping[str, object] = {"logger": name, **fields}

    def bind(self, **fields: object) -> "Log":
        """The same source with more fields, for one connection or one partition."""
        log = Log.__new__(Log)
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
        if LEVELS[level] >= _sink.threshold:
            _sink.write(level, event, {**self._fields, **fields})


class _Bridge(logging.Handler):
    """Hands records of the standard library's logging to our sink."""

    def emit(self, record: logging.LogRecord) -> None:
        level = record.levelname.lower()
        fields: dict[str, object] = {"exc_info": record.exc_info} if record.exc_info else {}
        log = Log(record.name)
        log._write(level if level in LEVELS else "error", record.getMessage(), fields)


def _build(stream: TextIO, json: bool | None) -> Emit:
    """The chain of structlog's processors that ends in ``stream``."""
    with _without_rich():
        import structlog

    as_json = not stream.isatty() if json is None else json
    chain: list[structlog.types.Processor] = [
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    if as_json:
        chain += [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    else:
        plain = structlog.dev.plain_traceback
        chain += [
            structlog.dev.ConsoleRenderer(
                colors=stream.isatty(), exception_formatter=plain, pad_event_to=24
            )
        ]

    class Lines(structlog.BoundLoggerBase):
        def write(self, level: str, event: str, fields: dict[str, object]) -> Any:
            return self._proxy_to_logger("msg", event, level=level, **fields)

    lines = structlog.wrap_logger(
        structlog.PrintLogger(stream), processors=chain, wrapper_class=Lines
    )
    return lines.bind().write  # type: ignore[no-any-return]  # bind() is typed as Any


@contextmanager
def _without_rich() -> Iterator[None]:
    """Hide rich while structlog is imported.

    structlog imports it when it can, for tracebacks that we do not print: 25 ms and 3 MiB.
    """
    hidden = "rich" not in sys.modules
    if hidden:
        sys.modules["rich"] = None  # type: ignore[assignment]  # the documented way to forbid an import
    try:
        yield
    finally:
        if hidden:
            del sys.modules["rich"]
