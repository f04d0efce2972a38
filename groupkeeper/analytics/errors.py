"""The errors of an analysis. Damage inside a log is reported as data instead."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar


class AnalyticsError(Exception):
    """Nothing to read, a missing path, no Java: `str(error)` is one line for the user to act on."""

    exit_code: ClassVar[int] = 2


def one_line(error: OSError) -> str:
    """Return the system's message and the file it is about."""
    place = f" ({error.filename})" if error.filename else ""
    return f"{error.strerror or error}{place}"


def make_folder(folder: Path) -> None:
    """Create a folder and its parents before an analysis starts. Raises AnalyticsError if that
    fails, or if the folder is not writable.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AnalyticsError(f"{folder} cannot be created: {error.strerror}") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise AnalyticsError(f"{folder} cannot be written to: name another folder")


@contextmanager
def reading(path: object) -> Iterator[None]:
    """Read a file that an earlier run wrote. Raises AnalyticsError if it is damaged."""
    try:
        yield
    except (ValueError, OSError) as error:  # decoding errors of pyarrow have no errno
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise AnalyticsError(
            f"{path} cannot be read, it is cut off or damaged: analyze the log anew with "
            "--rebuild, or into another folder"
        ) from error


class EngineFailed(AnalyticsError):
    """A worker failed: out of memory, out of disk space, or a bug."""

    exit_code: ClassVar[int] = 1
