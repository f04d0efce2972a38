"""Runs a compaction in a separate process, with the lowest priority.

A process, because compaction is Python code, and on a thread it would hold the GIL while clients
wait. Not `multiprocessing`, which would import the main module of a program that has embedded the
server.

The process reads a job as a line of JSON and writes its result as another one: see __main__.py. It
ends when its parent has ended. A process that does nothing although it could have a processor
(because of a hanging disk, a debugger, SIGSTOP) is killed after some minutes.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from threading import Event, Lock
from typing import Final

from groupkeeper.observe.logs import Logger
from groupkeeper.storage.compaction.compaction import Compacted, CompactionJob
from groupkeeper.storage.errors import Corrupt, StorageError

_ROOT: Final = Path(__file__).parents[2]
"""The folder that contains the package: the process finds the same code, wherever it comes from."""
KEPT_OF_STDERR: Final = 2_000
"""Characters kept from the end of a failed process's standard error."""
LOOK_S: Final = 0.5
"""Interval of checks of the process."""
KILLED_S: Final = 5.0
"""Time limit for a killed process to end. A process that waits for a hanging disk ends only when
the disk answers, and is left alone."""
HUNG_S: Final = 300.0
"""A compaction without a sign of life for this long is killed. Between two signs it reads a
mebibyte, or syncs one new segment: 1 GiB, on a disk that writes 3.5 MB/s."""
FROZEN_S: Final = 10.0
"""If checks are this far apart, the server did not run either (SIGSTOP of both, a paused virtual
machine): the time between them says nothing about the compaction."""

_log = Logger("cleaner")


class CompactionFailed(StorageError):
    """A compaction did not complete: nothing has changed, and it can be retried."""


class CompactionStopped(CompactionFailed):
    """A compaction was abandoned, because the server is stopping."""


class CompactionHung(CompactionFailed):
    """A compaction was killed, because it made no progress."""


class Watch:
    """Decides whether a running compaction hangs."""

    def __init__(self, now: float) -> None:
        self._heard = self._looked = now
        self._signs = 0

    def is_hung(self, now: float, signs: int, *, ready: bool) -> bool:
        """Return whether to kill it. `signs`: signs of life so far. `ready`: the process has a
        processor at the moment, or waits for nothing but one.
        """
        if ready or signs > self._signs or now - self._looked >= FROZEN_S:
            self._heard, self._signs = now, signs
        self._looked = now
        return now - self._heard >= HUNG_S


class CompactionProcess:
    """Runs one compaction at a time. Called on a thread that may block; `stop` on any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = Event()

    def __call__(self, job: CompactionJob) -> Compacted:
        """Run a compaction. Raises Corrupt for damaged segments, CompactionFailed, and OSError."""
        process = self._start()
        out, err = self._supervised(process, job)
        if self._stopped.is_set() and process.returncode != 0:
            raise CompactionStopped(f"the server is stopping: {job.folder} is not compacted")
        answer = out.decode().lstrip(".")
        if process.returncode != 0 or not answer:
            raise CompactionFailed(
                f"the process that compacts {job.folder} ended with exit code "
                f"{process.returncode}: {err.decode(errors='replace')[-KEPT_OF_STDERR:].strip()}"
            )
        told = json.loads(answer)
        if "corrupt" in told:
            raise Corrupt(told["corrupt"])
        if "errno" in told:
            raise OSError(told["errno"], told["error"])
        return Compacted.from_json(answer)

    def _supervised(
        self, process: "subprocess.Popen[bytes]", job: CompactionJob
    ) -> tuple[bytes, bytes]:
        """Return the process's standard output and standard error when it ends."""
        watch = Watch(time.monotonic())
        asked: bytes | None = (job.to_json() + "\n").encode()
        while True:
            try:
                return process.communicate(asked, LOOK_S)
            except subprocess.TimeoutExpired as waiting:
                asked = None  # the rest is written by the next call
                signs, ready = len(waiting.output or b""), _is_ready(process.pid)
                if watch.is_hung(time.monotonic(), signs, ready=ready):
                    _kill(process)
                    raise CompactionHung(
                        f"the process that compacts {job.folder} (pid {process.pid}) made no "
                        f"progress for {HUNG_S:g} s, and was killed"
                    ) from None

    def _start(self) -> "subprocess.Popen[bytes]":
        path = os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        if self._stopped.is_set():
            raise CompactionStopped("the server is stopping")
        # Without the lock: if the program's disk hangs, this waits for it, but a stop must not.
        process = subprocess.Popen(  # no external input
            [sys.executable, "-m", "groupkeeper.cleaner"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
        )
        with self._lock:
            self._process = process
            if self._stopped.is_set():
                process.kill()  # too late for `stop` to do it
        return process

    def stop(self) -> None:
        """End the running process, and start no other."""
        with self._lock:
            self._stopped.set()
            if self._process is not None:
                self._process.kill()


def _is_ready(pid: int) -> bool:
    """Return whether a process is running or waits just for a processor; False if unknown."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state == "R"


def _kill(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    try:
        process.communicate(timeout=KILLED_S)
    except subprocess.TimeoutExpired:
        _log.warning("a killed compaction does not end: it waits for the disk", pid=process.pid)
