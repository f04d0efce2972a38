"""Refusals at start that name the option to change: addresses and data directories that the system
does not let a process have.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from groupkeeper.settings.options import Address, format_address
from groupkeeper.storage.errors import StorageError

_NO_DIRECTORY: Final = frozenset(
    {errno.EACCES, errno.EEXIST, errno.ENOENT, errno.ENOTDIR, errno.EPERM, errno.EROFS}
)
"""Errors of a path, as against those of a disk."""


class CannotListenError(OSError):
    """An address cannot be listened at. The text says why, and what to do."""


@contextmanager
def listening_at(address: Address, option: str) -> Iterator[None]:
    """Name the address and its option if it cannot be bound. Raises CannotListenError."""
    try:
        yield
    except OSError as problem:
        number = problem.errno or 0
        # asyncio repeats the address in its own text; a name that is not known has a number below 0
        why = os.strerror(number).lower() if number > 0 else problem.strerror or str(problem)
        remedy = "stop what listens there, or choose" if number == errno.EADDRINUSE else "choose"
        line = f"cannot listen at {format_address(address)}: {why}: {remedy} another {option}"
        raise CannotListenError(line) from problem


@contextmanager
def opening_directory(data_dir: str, option: str) -> Iterator[None]:
    """Name the option of a data directory that cannot be made or written. Raises StorageError;
    errors of the disk stay as they are.
    """
    try:
        yield
    except OSError as problem:
        if problem.errno not in _NO_DIRECTORY:
            raise
        path = problem.filename or data_dir
        raise StorageError(
            f"{data_dir} cannot be used as a data directory ({path}: {problem.strerror}): make it "
            f"writable, or choose another {option}"
        ) from problem
