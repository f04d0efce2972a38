"""Files with keys and tokens, which are loaded again when they have changed.

Imported with the first of them.
"""

import asyncio
import os
from collections.abc import Callable, Iterable

_Look = tuple[int, int, int] | None
"""Change time, size and inode of a file; None if it cannot be looked at."""


class WatchedFiles:
    """Knows whether files have changed since they were looked at last."""

    def __init__(self, files: Iterable[str | os.PathLike[str]]) -> None:
        """Look at them: call this before they are read."""
        self._files = [*files]
        self._seen = self._look()

    def have_changed(self) -> bool:
        """Look again. On a thread."""
        before, self._seen = self._seen, self._look()
        return self._seen != before

    def _look(self) -> list[_Look]:
        return [_look_at(each) for each in self._files]


def _look_at(file: str | os.PathLike[str]) -> _Look:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


async def watch(refresh: Callable[[], None], every_s: float) -> None:
    """Call `refresh` on a thread again and again, until cancelled."""
    while True:
        await asyncio.sleep(every_s)
        await asyncio.to_thread(refresh)
