"""Brings files to the disk, so that a power cut does not take them back."""

import errno
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

_AT_ONCE: Final = 16
"""File systems write together what is synced at the same time: a tenth of the time on ext4."""


def sync(paths: Iterable[Path]) -> None:
    """Wait until files, and the names in folders, are on the disk. Raises OSError."""
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        for _ in threads.map(_sync, paths):
            pass


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        # Some network file systems know it of files only.
        if error.errno != errno.EINVAL or not path.is_dir():
            raise
    finally:
        os.close(handle)
