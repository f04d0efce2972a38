"""A server process for one attack: started, watched from outside through /proc, ended by its id.

Linux only. Nothing is taken from the server but its ready line, its log and its HTTP port.
"""

import contextlib
import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

from tests.chaos import secure
from tests.chaos.preload import Slow, build, slowed
from tests.support import process
from tests.support.process import PROGRAM, ROOT, NotReady, Process, assigned
from tests.support.wire import Address

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
    slow_disk: Sequence[Slow] = ()
    """File calls that are slow while `folder`/slow exists; `folder`/calls has all that were made by
    then (preload.py). `below` is relative to the data directory.
    """
    checkout: Path = ROOT
    """Whose code runs."""
    secure: bool = False
    """There are ports with TLS and logins beside the plain one."""


class Server(process.Server):
    """One process over a data directory of its own, for one attack."""

    def __init__(self, folder: Path, needs: Needs) -> None:
        super().__init__(folder, {**SETTINGS, **needs.settings}, needs.checkout)
        self._needs = needs
        self.ports: Mapping[str, Address] = {}
        """Of all listeners, if there are several."""
        self._silent: socket.socket | None = None
        """Takes connections and never answers: see `secure.SILENT`."""
        if needs.secure:
            self._silent = socket.create_server(("127.0.0.1", 0))
            where = f"127.0.0.1:{self._silent.getsockname()[1]}"
            own = {key: each.replace(secure.SILENT, where) for key, each in needs.settings.items()}
            self.settings = {**SETTINGS, **secure.settings(folder), **own}
        self.exit_code: int | None = None
        """Of a process that ended before it was ready."""

    def start(self) -> None:
        """Start and wait for the ready line. Raises ServerError."""
        self.log.unlink(missing_ok=True)
        try:
            self.launch()
            assert self.process is not None
            ready = self.process.ready()
        except NotReady as error:
            assert self.process is not None
            self.exit_code = self.process.popen.returncode
            raise ServerError(f"the server did not become ready:\n{self.tail()}") from error
        self.kafka, self.http, self.ports = ready.kafka, ready.http, ready.listeners

    def launch(self) -> None:
        """Start, and do not wait."""
        needs = self._needs
        slow = _slow_disk(self.data_dir.resolve(), needs.slow_disk) if needs.slow_disk else {}
        # A relative data directory, so that what lines say of its files is not cut short.
        self.process = Process(
            *("--http", "127.0.0.1:0", "--data-dir", self.data_dir.name),
            *("--node-id", str(needs.node_id), *assigned(self.settings)),
            listen=None if needs.secure else "127.0.0.1:0",
            program=_limited(needs.descriptors),
            log=None if needs.log_unread else self.log,
            cwd=self.data_dir.parent,
            environment={**os.environ, "PYTHONPATH": str(needs.checkout), **slow},
        )

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def kill(self) -> None:
        super().kill()
        if self._silent is not None:
            self._silent.close()

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

    def log_lines(self) -> int:
        """How many were written so far; 0 if the log is not read."""
        return sum(1 for _ in self._logged())

    def tracebacks(self) -> int:
        """Lines of the log that tell of an unexpected exception."""
        return sum(b"Traceback" in line for line in self._logged())

    def _logged(self) -> Iterator[bytes]:
        if self.log.exists():
            with self.log.open("rb") as log:
                yield from log

    def page(self, path: str, seconds: float) -> tuple[int, str]:
        """Status and text of a page of the HTTP port; 0 and the reason if there is none in time."""
        try:
            with urlopen(f"http://{self.http}{path}", timeout=seconds) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            return error.code, error.read().decode(errors="replace")
        except (OSError, ValueError) as error:
            return 0, str(error)

    def timed_stop(self) -> tuple[int | None, float]:
        """SIGTERM; (exit code, seconds), or None for the code when it had to be killed."""
        assert self.process is not None
        started = time.monotonic()
        code = self.process.stop(STOP_SECONDS)
        return code, time.monotonic() - started


def _slow_disk(data_dir: Path, slow: Sequence[Slow]) -> Mapping[str, str]:
    """Variables of a server whose calls can be made slow, and are listed: those of other files of
    the directory wait for nothing.
    """
    folder = data_dir.parent
    rules = [replace(each, below=data_dir / each.below) for each in slow]
    rules.append(Slow("*", data_dir, 0))
    return slowed(rules, build(folder), flag=folder / "slow", seen=folder / "calls")


def _limited(descriptors: int) -> Sequence[str]:
    """The program, with so many file descriptors; 0 for as many as we have."""
    if not descriptors:
        return PROGRAM
    return ["sh", "-c", f'ulimit -n {descriptors}; exec "$@"', "sh", *PROGRAM]
