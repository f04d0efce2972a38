"""Two threads over one disk in memory, of which one runs at a time.

At every call of the file system, a seed decides who goes on: so each sees the disk in all the
states between two calls of the other, and a seed that has failed fails again.

    def serve(turns: Turns) -> None:
        ...                       # undisturbed
        turns.begin()
        while not turns.over:
            ...                   # in turns with what `run` was given

    result = Turns(seed).run(serve, lambda: back_up(...))
"""

import threading
from collections.abc import Callable
from random import Random
from typing import Any, TypeVar

from tests.support.fake_files import FakeDisk, FakeFiles

T = TypeVar("T")

WAIT_S = 60.0
"""Longer than any test runs."""

CALLS = (
    *("list_folder", "open", "size", "read", "write", "truncate", "sync", "sync_folder"),
    *("rename", "link", "remove", "remove_folder", "make_folder", "look"),
)
"""The calls at which the other thread may go on."""


class Turns:
    """Who of the two runs."""

    def __init__(self, seed: int, share: float = 0.5) -> None:
        """`share`: how likely the other one goes on, at each call."""
        self._random = Random(seed)
        self._share = share
        self._main = threading.Semaphore(0)
        self._other = threading.Semaphore(0)
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._alternating = False
        self.over = False
        """The main thread has finished."""

    def run(self, other: Callable[["Turns"], None], main: Callable[[], T]) -> T:
        """The result of `main`, with which `other` takes turns once it has called `begin`."""
        self._thread = threading.Thread(target=self._run_other, args=(other,), daemon=True)
        self._thread.start()
        _wait(self._main)
        try:
            if self._failure is None:
                self._alternating = True
                return main()
        finally:
            self._alternating = False
            self.over = True
            self._other.release()
            self._thread.join(WAIT_S)
            if self._failure is not None:
                raise self._failure
        raise AssertionError("the other thread has failed")

    def begin(self) -> None:
        """Let the main thread start."""
        self._main.release()
        _wait(self._other)

    def switch(self) -> None:
        """A call of the file system by whichever thread runs."""
        if not self._alternating or self._random.random() >= self._share:
            return
        if threading.current_thread() is self._thread:
            self._main.release()
            _wait(self._other)
        else:
            self._other.release()
            _wait(self._main)

    def _run_other(self, other: Callable[["Turns"], None]) -> None:
        try:
            other(self)
        except BaseException as error:  # noqa: BLE001  # raised again by `run`
            self._failure = error
        self._alternating = False
        self._main.release()


def _wait(semaphore: threading.Semaphore) -> None:
    assert semaphore.acquire(timeout=WAIT_S), "the other thread does not go on"


class InTurns(FakeFiles):
    """The file system of one of the two."""

    def __init__(self, disk: FakeDisk, turns: Turns) -> None:
        super().__init__(disk)
        self._turns = turns

    def __getattribute__(self, name: str) -> Any:  # Any: each method has its own type
        if name in CALLS:
            object.__getattribute__(self, "_turns").switch()
        return super().__getattribute__(name)

    def write(self, handle: int, data: bytes, position: int) -> None:
        """In two parts: a reader may see the first one alone."""
        half = len(data) // 2
        super().write(handle, data[:half], position)
        self._turns.switch()
        super().write(handle, data[half:], position + half)
