"""Gives memory that is free back to the system, where the C library keeps it.

glibc keeps what lies between blocks that are still in use: after thousands of half-sent requests
some hundred megabytes, though nothing of them is left. Giving it back takes some milliseconds.
"""

import ctypes
from threading import Thread
from typing import Final

WORTH_BYTES: Final = 8 * 1024 * 1024
"""When so much less is in use than before, memory is given back."""


def give_back() -> None:
    """Ask the C library to, on a thread: it does not need the interpreter for it. Does nothing
    where the library has no ``malloc_trim``.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        Thread(target=trim, args=(0,), name="memory", daemon=True).start()


class HighWater:
    """How much was in use, since memory was given back."""

    def __init__(self) -> None:
        self._most = 0

    def is_past(self, used: int) -> bool:
        """True once, when much less is in use than before."""
        self._most = max(self._most, used)
        if self._most - used < WORTH_BYTES or used > self._most // 2:
            return False
        self._most = used
        return True
