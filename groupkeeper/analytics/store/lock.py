"""One run at a time writes to a folder of tables."""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from groupkeeper.analytics.errors import AnalyticsError, one_line
from groupkeeper.analytics.store.durable import PRIVATE, Files

LOCK: Final = f"{PRIVATE}/lock"
"""Who writes to an object store, and since when."""


@contextmanager
def locked(files: Files) -> Iterator[Callable[[], None]]:
    """Yields what raises AnalyticsError if another run has taken the lock. Raises it if another one
    has it.
    """
    if isinstance(files.place, Path):
        handle = _lock(files.place)
        try:
            yield lambda: None
        finally:
            os.close(handle)
        return
    ours = _put_lock(files)

    def check() -> None:
        if files.read(LOCK) != ours:
            raise AnalyticsError(f"another analysis has begun to write to {files.place}")

    try:
        yield check
    finally:
        if files.read(LOCK) == ours:
            files.remove(LOCK)


def _lock(folder: Path) -> int:
    """A lock that ends with the process."""
    if find_spec("fcntl") is None:  # Windows
        raise AnalyticsError(
            "--out needs the file locks (flock) of Linux or macOS, and this system has none: use "
            "--csv or --json instead"
        )
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        said = f"{folder} cannot be locked: {one_line(error)}"
        if isinstance(error, BlockingIOError):
            said = f"another analysis writes to {folder}: wait until it ends"
        raise AnalyticsError(said) from None
    return handle


def _put_lock(files: Files) -> bytes:
    """pyarrow cannot ask a store to write only what is not there: of two runs that begin in the
    same moment the later one has the lock, and the other one is told at its end.
    """
    found = files.read(LOCK)
    if found:
        raise AnalyticsError(
            f"another analysis writes to {files.place}, {found.decode()}: wait until it ends; if "
            f"it was killed, remove {LOCK} there"
        )
    now = datetime.now(UTC)
    ours = f"process {os.getpid()} on {socket.gethostname()} since {now:%Y-%m-%dT%H:%M:%S.%fZ}"
    files.write(LOCK, ours.encode())
    return ours.encode()
