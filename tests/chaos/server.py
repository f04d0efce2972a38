"""A server process for one attack: started, watched from outside through /proc, ended by its id.

Linux only. Nothing is taken from the server but its ready line, its log and its HTTP port.
"""

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.error import HTTPError
from urllib.request import urlopen

from tests.chaos.wire import Address

ROOT = Path(__file__).parents[2]
READY = re.compile(rb"ready kafka=127\.0\.0\.1:(\d+) http=127\.0\.0\.1:(\d+)")
READY_SECONDS = 30
STOP_SECONDS = 15
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "5",
}
_TICKS = os.sysconf("SC_CLK_TCK")


class ServerError(Exception):
    """The server did not start, or is no longer there; with the end of its log."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process uses at a moment; memory in MiB."""

    cpu_s: float
    rss: float
    peak: float
    threads: int
    descriptors: int


@dataclass(frozen=True, slots=True)
class Needs:
    """How a server is to be started."""

    settings: Mapping[str, str]
    descriptors: int = 0
    log_unread: bool = False
    node_id: int = 0
    checkout: Path = ROOT
    """Whose code runs."""


class Server:
    """One process over a data directory of its own; `stop` or `kill` ends it."""

    def __init__(self, folder: Path, needs: Needs) -> None:
        self.data_dir = folder / "data"
        self.log = folder / "server.log"
        self._needs = needs
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: IO[bytes] | None = None
        self.kafka: Address = ("127.0.0.1", 0)
        self.http: Address = ("127.0.0.1", 0)
        self.exit_code: int | None = None
        """Of a process that ended before it was ready."""

    def start(self) -> None:
        """Start and wait for the ready line. Raises ServerError."""
        with contextlib.ExitStack() as stack:
            log: IO[bytes] | int = subprocess.PIPE
            if not self._needs.log_unread:
                log = stack.enter_context(self.log.open("wb"))
            # A relative data directory, so that what lines say of its files is not cut short.
            self._process = subprocess.Popen(
                self._command(),
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self.data_dir.parent,
                env={**os.environ, "PYTHONPATH": str(self._needs.checkout)},
            )
        self._pipe = self._process.stderr
        ready = READY.search(self._first_line())
        if ready is None:
            self.kill()
            raise ServerError(f"the server did not become ready:\n{self.tail()}")
        self.kafka = ("127.0.0.1", int(ready[1]))
        self.http = ("127.0.0.1", int(ready[2]))

    def _command(self) -> list[str]:
        command = [sys.executable, "-m", "groupkeeper", "serve", "--listen", "127.0.0.1:0"]
        command += ["--http", "127.0.0.1:0", "--data-dir", self.data_dir.name]
        command += ["--node-id", str(self._needs.node_id)]
        for key, value in {**SETTINGS, **self._needs.settings}.items():
            command += ["--set", f"{key}={value}"]
        if not self._needs.descriptors:
            return command
        return ["sh", "-c", f'ulimit -n {self._needs.descriptors}; exec "$@"', "sh", *command]

    def _first_line(self) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], READY_SECONDS)
        line = self._process.stdout.readline() if readable else b""
        if readable and not line:
            self.exit_code = self._process.wait(STOP_SECONDS)
        return line

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    # -- seen from outside -----------------------------------------------------------------------

    def usage(self) -> Usage:
        """Raises ServerError when the process is gone."""
        place = Path(f"/proc/{self.pid}")
        try:
            fields = (place / "stat").read_text().rpartition(")")[2].split()
            status = (place / "status").read_text()
            descriptors = len(list((place / "fd").iterdir()))
        except OSError as error:
            raise ServerError(f"the server is gone:\n{self.tail()}") from error
        if "VmRSS:" not in status:
            raise ServerError(f"the server has ended:\n{self.tail()}")

        def mib(name: str) -> float:
            return int(status.partition(name)[2].split()[0]) / 1024

        cpu = (int(fields[11]) + int(fields[12])) / _TICKS
        threads = int(status.partition("Threads:")[2].split()[0])
        return Usage(cpu, mib("VmRSS:"), mib("VmHWM:"), threads, descriptors)

    def forget_peak(self) -> None:
        """Let the peak begin anew from what is in use; without the permission it stays."""
        with contextlib.suppress(OSError):
            Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def log_size(self) -> tuple[int, int]:
        """(lines, bytes) written so far; zeros where nobody reads."""
        if not self.log.exists():
            return 0, 0
        lines = size = 0
        with self.log.open("rb") as log:
            while part := log.read(1 << 20):
                lines += part.count(b"\n")
                size += len(part)
        return lines, size

    def tracebacks(self) -> int:
        """Lines of the log that tell of an exception nobody expected."""
        if not self.log.exists():
            return 0
        with self.log.open("rb") as log:
            return sum(b"Traceback" in line for line in log)

    def tail(self) -> str:
        return self.log.read_bytes()[-3_000:].decode(errors="replace") if self.log.exists() else ""

    def page(self, path: str, seconds: float) -> tuple[int, str]:
        """Status and text of a page of the HTTP port; 0 and the reason if there is none in time."""
        try:
            with urlopen(f"http://{self.http[0]}:{self.http[1]}{path}", timeout=seconds) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            return error.code, error.read().decode(errors="replace")
        except (OSError, ValueError) as error:
            return 0, str(error)

    # -- its end ---------------------------------------------------------------------------------

    def stop(self) -> tuple[int | None, float]:
        """SIGTERM; (exit code, seconds), or None for the code when it had to be killed."""
        assert self._process is not None
        started = time.monotonic()
        self._process.terminate()
        try:
            code: int | None = self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            code = None
        self.kill()
        return code, time.monotonic() - started

    def kill(self) -> None:
        """End it, if it is there, and close our ends of its pipes."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdout, self._pipe):
            if pipe is not None:
                pipe.close()
