"""The errors of an analysis. Damage inside a log is reported as data."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar


class AnalyticsError(Exception):
    """Nothing to read, a missing path, no Java: `str(error)` is one line for the user, who can fix
    it.
    """

    exit_code: ClassVar[int] = 2


def one_line(error: OSError) -> str:
    """What the system said, and of which file."""
    place = f" ({error.filename})" if error.filename else ""
    return f"{error.strerror or error}{place}"


def make_folder(folder: Path) -> None:
    """With those above it, before the work of an analysis. Raises AnalyticsError if that cannot be,
    or nothing can be written there.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AnalyticsError(f"{folder} cannot be created: {error.strerror}") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise AnalyticsError(f"{folder} cannot be written to: name another folder")


@contextmanager
def reading(path: object) -> Iterator[None]:
    """Of a file that a former run has written. Raises AnalyticsError if it is broken."""
    try:
        yield
    except (ValueError, OSError) as error:  # pyarrow has no number for what it cannot decode
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise AnalyticsError(
            f"{path} cannot be read, it is cut off or damaged: analyze the log anew with "
            "--rebuild, or into another folder"
        ) from error


class EngineFailed(AnalyticsError):
    """A worker gave up: no memory, no space, a bug."""

    exit_code: ClassVar[int] = 1
