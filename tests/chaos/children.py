"""Processes of the harness: each has an interpreter, and so a GIL, of its own.

They are forked from a small server process that has the modules loaded already. A child and its
parent talk over a pipe: ("word", value) pairs.
"""

import contextlib
import multiprocessing
import os
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.chaos.canary", "tests.chaos.catalogue"])
_END_SECONDS = 5.0

Work = Callable[..., None]


class ChildError(Exception):
    """A child failed, or did not say in time what was waited for."""


class Child:
    """One process that runs `work(pipe, *arguments)`."""

    def __init__(self, work: Work, *arguments: Any, nice: int = 0) -> None:
        self.pipe, theirs = _CONTEXT.Pipe()
        self._process = _CONTEXT.Process(
            target=_run, args=(work, theirs, nice, arguments), daemon=True
        )
        self._process.start()
        theirs.close()

    def hears(self, seconds: float) -> bool:
        """Whether something was said, at once or in that time."""
        return self.pipe.poll(seconds)

    def wait(self, word: str, seconds: float) -> Any:
        """The value that comes with this word. Raises ChildError."""
        if not self.pipe.poll(seconds):
            raise ChildError(f"nothing within {seconds:.0f} s")
        try:
            said, value = self.pipe.recv()
        except (EOFError, OSError) as error:
            raise ChildError("it ended without a word") from error
        if said != word:
            raise ChildError(str(value))
        return value

    def tell(self, word: str) -> None:
        with contextlib.suppress(OSError):
            self.pipe.send((word, None))

    def end(self) -> None:
        """Whatever it does."""
        self._process.kill()
        self._process.join(_END_SECONDS)
        self.pipe.close()


def _run(work: Work, pipe: Connection, nice: int, arguments: tuple[Any, ...]) -> None:
    os.nice(nice)
    try:
        work(pipe, *arguments)
    except Exception as error:  # noqa: BLE001  # whatever it is, the parent has to hear of it
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = (
            f"{type(error).__name__}: {error} ({os.path.basename(where.filename)}:{where.lineno})"
        )
        with contextlib.suppress(OSError):
            pipe.send(("failed", text))
