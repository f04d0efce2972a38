"""Runs a compaction in a process of its own, with the lowest priority.

A process, because compaction is Python code, and on a thread it would hold the interpreter's lock
while clients wait. Not `multiprocessing`, which would import the main module of a program that has
embedded the server.

The process reads a job as a line of JSON and writes its result as another one: see __main__.py. It
ends when its parent has ended.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from threading import Lock
from typing import Final

from groupkeeper.storage.compaction import Compacted, CompactionJob
from groupkeeper.storage.errors import Corrupt, StorageError

_ROOT: Final = Path(__file__).parents[2]
"""The folder that holds the package: the process finds the same code, wherever it comes from."""
KEPT_OF_STDERR: Final = 2_000
"""Characters of the end of what a process that has failed wrote to standard error."""


class CompactionFailed(StorageError):
    """A compaction did not end as it should: nothing has changed, and it can be tried again."""


class CompactionStopped(CompactionFailed):
    """A compaction was abandoned, because the server stops."""


class CompactionProcess:
    """Runs one compaction at a time. Called on a thread that may block; `stop` on any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._process: subprocess.Popen[str] | None = None
        self._stopped = False

    def __call__(self, job: CompactionJob) -> Compacted:
        """Raises Corrupt if the segments are damaged, CompactionFailed, and OSError."""
        process = self._start()
        out, err = process.communicate(job.to_json() + "\n")
        if self._stopped and process.returncode != 0:
            raise CompactionStopped(f"the server stops: {job.folder} is not compacted")
        if process.returncode != 0 or not out:
            raise CompactionFailed(
                f"the process that compacts {job.folder} ended with exit code "
                f"{process.returncode}: {err[-KEPT_OF_STDERR:].strip()}"
            )
        answer = json.loads(out)
        if "corrupt" in answer:
            raise Corrupt(answer["corrupt"])
        if "errno" in answer:
            raise OSError(answer["errno"], answer["error"])
        return Compacted.from_json(out)

    def _start(self) -> "subprocess.Popen[str]":
        path = os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        with self._lock:
            if self._stopped:
                raise CompactionStopped("the server stops")
            self._process = subprocess.Popen(
                [sys.executable, "-m", "groupkeeper.cleaner"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": path},
            )
            return self._process

    def stop(self) -> None:
        """End the process that is running, and start no other."""
        with self._lock:
            self._stopped = True
            if self._process is not None:
                self._process.kill()
