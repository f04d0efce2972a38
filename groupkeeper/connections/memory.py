"""Returns free memory to the system where the C library keeps it.

glibc keeps free memory between blocks in use: after thousands of incomplete requests some hundred
megabytes, although all of them are freed. Returning it takes some milliseconds.
"""

from threading import Thread
from typing import Final

WORTH_BYTES: Final = 8 * 1024 * 1024
"""How much less has to be in use than before to return memory."""


def give_back() -> None:
    """Return free memory, on a thread, if the C library has `malloc_trim`."""
    Thread(target=_trim, name="memory", daemon=True).start()


def _trim() -> None:
    import ctypes  # with the first peak

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class HighWater:
    """The most that was in use since memory was last returned."""

    def __init__(self) -> None:
        self._most = 0

    def is_past(self, used: int) -> bool:
        """Whether much less is in use than before; true once for each peak."""
        self._most = max(self._most, used)
        if self._most - used < WORTH_BYTES or used > self._most // 2:
            return False
        self._most = used
        return True
