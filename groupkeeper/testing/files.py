"""Wraps a file system for one run of a test broker, to close it on a crash and inject failures."""

import errno
import os
from collections.abc import Callable, Collection
from typing import Any, Final

from groupkeeper.storage.files.files import Files

GROWING: Final = frozenset({"write", "copy", "make_folder", "link"})
"""Methods that fail with ENOSPC on a full disk."""


class KillableFiles(Files):
    """Passes calls on to a file system until `kill`, then fails them all, like the files of a
    killed process. Thread-safe.
    """

    def __init__(self, files: Files, full: Callable[[], Collection[Callable[[], None]]]) -> None:
        """`full` returns callbacks to call for each operation that fails with ENOSPC; while it
        returns none, the disk is not full.
        """
        self._files = files
        self.may_block = files.may_block
        self._full = full
        self._open: dict[int, None] = {}
        self._dead = False

    def kill(self) -> None:
        """Fail all further calls, and close all open files, which releases their locks."""
        self._dead = True
        for handle in list(self._open):
            if self._open.pop(handle, 0) is None:
                self._files.close(handle)

    def _check(self, call: str) -> None:
        if self._dead:
            raise OSError(errno.EIO, "the broker was killed")
        if call in GROWING and (told := self._full()):
            for tell in told:
                tell()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def open(self, path: str, *, create: bool = False) -> int:
        self._check("open")
        handle = self._files.open(path, create=create)
        self._open[handle] = None
        return handle

    def close(self, handle: int) -> None:
        if self._open.pop(handle, 0) is None:  # else `kill` has already closed it
            self._files.close(handle)


# Any: the arguments and results of each method of `Files`.
def _passing(name: str) -> Callable[..., Any]:
    def call(self: KillableFiles, *args: Any, **named: Any) -> Any:
        self._check(name)
        return getattr(self._files, name)(*args, **named)

    return call


for _name in vars(Files):
    if not _name.startswith("_") and _name not in vars(KillableFiles):
        setattr(KillableFiles, _name, _passing(_name))
