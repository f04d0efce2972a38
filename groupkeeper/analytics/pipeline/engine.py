"""Maps a function over work items in worker processes of this machine.

Functions and items are pickled. Results have to be small: large data goes through files.
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
"""Bytes of log that one process reads faster than others start."""
_PRELOADED: Final = "groupkeeper.analytics.pipeline.preload"
"""Imported once, in the process that workers are forked from."""


def engine_for(size: int, workers: int | None = None) -> "Engine":
    """Return the engine for a number of bytes of logs and tables."""
    return Engine(1 if size < ONE_PROCESS_BELOW and workers is None else workers)


class Engine:
    """Worker processes on this machine, no more than there are items. A single worker is this
    process. A context manager: workers end when it exits, at once after an error, and whenever this
    process ends.

    Processes, not threads: half of the work is in Python and numpy, which hold the GIL.
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
        """Yield the results in the order of the items, each as soon as it is available. Workers
        start before the first result is requested. Raises EngineFailed, with one line, for any
        failure in a worker.
        """
        with failures_as_one_line():
            if self._workers == 1 or len(items) == 1:
                return _failing_in_one_line(map(function, items))
            return _failing_in_one_line(self._started().map(function, items))

    def _started(self) -> ProcessPoolExecutor:
        if self._pool is None:
            # Forking this process could copy a lock held by one of its threads.
            context = multiprocessing.get_context("forkserver")
            context.set_forkserver_preload([_PRELOADED])
            seen, self._held = context.Pipe(duplex=False)
            self._pool = ProcessPoolExecutor(
                self._workers, context, initializer=_end_with, initargs=(seen,)
            )
        return self._pool


def _end_with(seen: Connection) -> None:
    """Initialize a worker: it ends when the command closes the other end of the pipe, which no
    other process holds. Without this a worker would outlive a killed command, which is not its
    parent.
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
    """Raise EngineFailed, with a one-line reason, for any exception but AnalyticsError.

    BrokenPipeError passes: with `| head`, click ends the command silently.
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
