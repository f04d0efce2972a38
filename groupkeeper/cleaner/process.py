"""Runs a compaction in a separate process, with the lowest sufficient priority.

A process, because compaction is Python code, and on a thread it would hold the GIL while clients
wait. Not `multiprocessing`, which would import the main module of a program that has embedded the
server.

The process reads a job as a line of JSON and writes its result as another one: see __main__.py. It
ends when its parent has ended. supervision.py decides when to end it earlier.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from threading import Event, Lock
from typing import Final

from groupkeeper.cleaner import supervision
from groupkeeper.cleaner.supervision import Priorities, Priority, Supervision
from groupkeeper.observe.logs import Logger
from groupkeeper.storage.compaction.compaction import Compacted, CompactionJob
from groupkeeper.storage.compaction.segment_writer import remove_cleaned
from groupkeeper.storage.errors import Corrupt, StorageError
from groupkeeper.storage.files.files import Files

_ROOT: Final = Path(__file__).parents[2]
"""The folder that contains the package: the process finds the same code, wherever it comes from."""
KEPT_OF_STDERR: Final = 2_000
"""Characters kept from the end of a failed process's standard error."""
LOOK_S: Final = 0.5
"""Interval of checks of the process."""
KILLED_S: Final = 5.0
"""Time limit for a killed process to end. A process that waits for a hanging disk ends only when
the disk answers, and is left alone."""
_TICKS: Final = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 1

_log = Logger("cleaner")


class CompactionFailed(StorageError):
    """A compaction did not complete: nothing has changed, and it can be retried."""


class CompactionStopped(CompactionFailed):
    """A compaction was abandoned, because the server is stopping."""


class CompactionHung(CompactionFailed):
    """A compaction was killed, because it made no progress."""


class _Starved(Exception):
    """A compaction was ended, to be restarted with a higher priority."""


class CompactionProcess:
    """Runs one compaction at a time. Called on a thread that may block; `stop` on any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = Event()
        self._priorities = Priorities()

    def __call__(self, job: CompactionJob) -> Compacted:
        """Run a compaction. Raises Corrupt for damaged segments, CompactionFailed, and OSError."""
        while True:
            priority = self._priorities.at(time.monotonic())
            try:
                return self._run(job, priority)
            except _Starved:
                higher = Priority(priority + 1)
                self._priorities.raise_to(higher, time.monotonic())
                _log.warning(
                    "compaction gets too little processor time: restarted with more",
                    folder=job.folder,
                    priority=higher.name.lower(),
                )
                remove_cleaned(Files(), job.folder, job.token)

    def _run(self, job: CompactionJob, priority: Priority) -> Compacted:
        process = self._start(priority)
        out, err = self._supervised(process, job, priority)
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
        self, process: "subprocess.Popen[bytes]", job: CompactionJob, priority: Priority
    ) -> tuple[bytes, bytes]:
        """Return the process's standard output and standard error when it ends."""
        watched = Supervision(time.monotonic())
        asked: bytes | None = (job.to_json() + "\n").encode()
        while True:
            try:
                return process.communicate(asked, LOOK_S)
            except subprocess.TimeoutExpired as waiting:
                asked = None  # the rest is written by the next call
                now, signs = time.monotonic(), len(waiting.output or b"")
                cpu_s, ready = _seen(process.pid)
                watched.look(now, signs, cpu_s, ready=ready)
                if watched.is_hung(now):
                    _kill(process)
                    raise CompactionHung(
                        f"the process that compacts {job.folder} (pid {process.pid}) made no "
                        f"progress for {supervision.HUNG_S:g} s, and was killed"
                    ) from None
                if priority is not Priority.NORMAL and watched.is_starved(now):
                    _kill(process)
                    raise _Starved from None

    def _start(self, priority: Priority) -> "subprocess.Popen[bytes]":
        path = os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        if self._stopped.is_set():
            raise CompactionStopped("the server is stopping")
        # Without the lock: if the program's disk hangs, this waits for it, but a stop must not.
        process = subprocess.Popen(  # noqa: S603  # no external input
            [sys.executable, "-m", "groupkeeper.cleaner", priority.name.lower()],
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


def _seen(pid: int) -> tuple[float, bool]:
    """Return a process's processor time in seconds, and whether it is running or waits just for a
    processor. Zero and False if unknown.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0, False
    return (int(fields[11]) + int(fields[12])) / _TICKS, fields[0] == "R"


def _kill(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    try:
        process.communicate(timeout=KILLED_S)
    except subprocess.TimeoutExpired:
        _log.warning("a killed compaction does not end: it waits for the disk", pid=process.pid)
