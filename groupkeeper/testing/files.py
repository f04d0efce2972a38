"""The files of one life of a test broker: they end with it, and can fail."""

import errno
import os
from collections.abc import Callable, Collection
from typing import Any, Final

from groupkeeper.storage.files.files import Files

GROWING: Final = frozenset({"write", "copy", "make_folder", "link"})
"""Calls that fail on a full disk."""


class KillableFiles(Files):
    """The files of a file system until `kill`; then every call fails, and none is open any more, as
    when a process was killed. Any thread may call.
    """

    def __init__(self, files: Files, full: Callable[[], Collection[Callable[[], None]]]) -> None:
        """`full`: whom to tell about a call that fails because the disk is full; empty: it is not.
        What would grow a full disk fails with ENOSPC.
        """
        self._files = files
        self.may_block = files.may_block
        self._full = full
        self._open: dict[int, None] = {}
        self._dead = False

    def kill(self) -> None:
        """Fail all calls from now on, and close what is open: locks are released."""
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
        if self._open.pop(handle, 0) is None:  # else `kill` has closed it
            self._files.close(handle)


# Any: whatever each call of `Files` takes and returns.
def _passing(name: str) -> Callable[..., Any]:
    def call(self: KillableFiles, *args: Any, **named: Any) -> Any:
        self._check(name)
        return getattr(self._files, name)(*args, **named)

    return call


for _name in vars(Files):
    if not _name.startswith("_") and _name not in vars(KillableFiles):
        setattr(KillableFiles, _name, _passing(_name))
