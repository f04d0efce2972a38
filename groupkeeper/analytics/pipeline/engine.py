"""Maps a function over work items, in processes of this machine.

Functions and items are pickled. Results are small: what is large goes through files.
"""

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import Final, Self, TypeVar

from groupkeeper.analytics.errors import AnalyticsError, EngineFailed, one_line

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

ONE_PROCESS_BELOW: Final = 48 * 1024 * 1024
"""Bytes of log that one process reads before others have started."""
_PRELOADED: Final = "groupkeeper.analytics.pipeline.preload"
"""What every worker needs is imported once, and workers are forked from there."""


def engine_for(size: int, workers: int | None = None) -> "Engine":
    """The engine for so many bytes, of a log and tables."""
    return Engine(1 if size < ONE_PROCESS_BELOW and workers is None else workers)


class Engine:
    """Worker processes on this machine, no more than there are items; with one worker none, but
    this process. A context manager: the workers end with it, at once where it ends in an error, and
    with this process, however that ends.

    Processes, not threads: half of the work is Python's and numpy's, which hold the interpreter.
    """

    def __init__(self, workers: int | None = None) -> None:
        self._workers = workers or os.cpu_count() or 1
        self._pool: ProcessPoolExecutor | None = None
        self._held: Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self._held is not None and error is not None:
            self._held.close()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def map(
        self, function: Callable[[_Item], _Result], items: Sequence[_Item]
    ) -> Iterator[_Result]:
        """The results in the order of the items, each as soon as it is there. Workers begin before
        the first one is asked for. Raises EngineFailed, with one line, for whatever goes wrong in
        one of them.
        """
        with failures_as_one_line():
            if self._workers == 1 or len(items) == 1:
                return _failing_in_one_line(map(function, items))
            return _failing_in_one_line(self._started().map(function, items))

    def _started(self) -> ProcessPoolExecutor:
        if self._pool is None:
            # A fork of this process could copy a lock that one of its threads holds.
            context = multiprocessing.get_context("forkserver")
            context.set_forkserver_preload([_PRELOADED])
            seen, self._held = context.Pipe(duplex=False)
            self._pool = ProcessPoolExecutor(
                self._workers, context, initializer=_end_with, initargs=(seen,)
            )
        return self._pool


def _end_with(seen: Connection) -> None:
    """In a worker: end it when the command lets go of the other end of the pipe, which no other
    process has. A worker hears nothing else of a command that was killed: its parent is another.
    """

    def watch() -> None:
        with suppress(EOFError, OSError):
            seen.recv_bytes()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _failing_in_one_line(results: Iterator[_Result]) -> Iterator[_Result]:
    with failures_as_one_line():
        yield from results


@contextmanager
def failures_as_one_line() -> Iterator[None]:
    """Raises EngineFailed, with the line that says why, for all that is no AnalyticsError.

    A BrokenPipeError stays one: `| head` has read enough, and click ends the command in silence.
    """
    try:
        yield
    except (AnalyticsError, BrokenPipeError):
        raise
    except BrokenProcessPool as error:
        raise EngineFailed(
            "a worker process was ended, probably for want of memory: try fewer (--workers 1)"
        ) from error
    except MemoryError as error:
        raise EngineFailed(
            "out of memory: try fewer workers (--workers 1), or fewer groups (--group)"
        ) from error
    except OSError as error:
        raise EngineFailed(one_line(error)) from error
    except Exception as error:  # a bug ends the command with one line
        raise EngineFailed(f"{type(error).__name__}: {error}") from error
