"""`groupkeeper serve`, with a list of the file calls that its event loop's thread makes.

    python -m tests.support.loop_calls LIST [mutant|waiting] serve ...

LIST is a file that gets a line `CALL PATH` for each call between the ready line and the stop.
Functions of `os` that touch files are replaced, and `open`. What the interpreter does itself, such
as importing a module, goes past them. So do reads from memory, which do not wait (`RWF_NOWAIT`).
With `mutant`, file jobs run on the event loop; with `waiting`, reads from memory may wait.
"""

import builtins
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from groupkeeper.cli import main as command
from groupkeeper.server import main
from groupkeeper.server.server import Server
from groupkeeper.storage.files.files import Files
from groupkeeper.topics import topics
from groupkeeper.topics.file_jobs import FileJobs

CALLS = (
    *("open", "close", "stat", "lstat", "fstat", "statvfs", "access", "listdir", "scandir"),
    *("read", "pread", "preadv", "readv", "write", "pwrite", "pwritev", "writev", "sendfile"),
    *("fsync", "fdatasync", "sync", "truncate", "ftruncate", "copy_file_range"),
    *("rename", "replace", "remove", "unlink", "link", "symlink", "mkdir", "rmdir", "chmod"),
)
OPEN = builtins.open
NOWAIT = getattr(os, "RWF_NOWAIT", 0)


class _List:
    """The calls, while it is armed."""

    def __init__(self, path: str) -> None:
        self.is_armed = False
        self._loop = threading.get_ident()
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._write, self._readlink = os.write, os.readlink
        self._inside = False

    def watch(self, module: Any, name: str) -> None:
        real = getattr(module, name, None)
        if real is not None:
            setattr(module, name, self._noted(name, real))

    def _noted(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            waits = name != "preadv" or not args[3:] or not args[3] & NOWAIT
            if waits and self.is_armed and threading.get_ident() == self._loop:
                path = self._path(args[0] if args else more.get("path", ""))
                if not path.startswith(("pipe:", "socket:", "anon_inode:")):
                    self._write(self._file, f"{name} {path}\n".encode())
            return real(*args, **more)

        return call

    def _path(self, what: Any) -> str:
        if not isinstance(what, int):
            return os.fsdecode(what)
        try:
            return self._readlink(f"/proc/self/fd/{what}")
        except OSError:
            return "?"


def _wait_and_fill(files: Files, handle: int, buffer: memoryview, position: int) -> bool:
    return os.preadv(handle, (buffer,), position) == len(buffer)


def run(calls: str, *arguments: str) -> None:
    """Serve as the command line does."""
    noted = _List(calls)
    if arguments[0] == "mutant":
        arguments = arguments[1:]
        topics.FileThreads = FileJobs  # type: ignore[misc, assignment]
        Files.fills_cached = False
    if arguments[0] == "waiting":
        arguments = arguments[1:]
        Files.fill_cached = _wait_and_fill  # type: ignore[method-assign]
    for name in CALLS:
        noted.watch(os, name)
    noted.watch(builtins, "open")
    after_ready, stop = main.after_ready, Server.stop

    def ready(options: Any) -> None:
        after_ready(options)
        noted.is_armed = True

    async def stopped(server: Server) -> None:
        noted.is_armed = False
        await stop(server)

    main.after_ready, Server.stop = ready, stopped  # type: ignore[method-assign]
    sys.argv = ["groupkeeper", *arguments]
    sys.exit(command())


if __name__ == "__main__":
    run(*sys.argv[1:])
