"""`groupkeeper serve` as a process: started, found ready, signalled, ended by its id.

    with Process("--dev", "--http", "off") as process:
        client = connect(process.ready().kafka)

A `Process` is one run. A `Server` is a data directory that is served by one process after another.
"""

import os
import re
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple, Self

from tests.support.wire import Address

ROOT = Path(__file__).parents[2]
PROGRAM = (sys.executable, "-m", "groupkeeper")
READY_S = 120.0
STOP_S = 60.0
_TAIL_BYTES = 8_000
_READY = re.compile(
    r"groupkeeper ready kafka=(\S+) http=(\S+)(?: control=(\S+))? node=(\d+) data=(.+)\n"
)


class Ready(NamedTuple):
    """What the ready line says. `http` is `host:port`, or `off`; `kafka` is the first listener, and
    `listeners` are all by name if there are several.
    """

    kafka: Address
    http: str
    node_id: int
    data_dir: str
    listeners: Mapping[str, Address]


class NotReady(AssertionError):
    """The process ended, or printed something else, or nothing in time; with the end of its log."""


def inherit_no_ignored_signals() -> None:
    """Let child processes begin with the usual SIGINT, SIGQUIT and SIGHUP, where this one ignores
    them: a shell that runs it in the background ignores the first two for it, nohup the third. They
    do nothing here, as before; but what does nothing, unlike what is ignored, is not inherited.
    """
    for name in ("SIGINT", "SIGQUIT", "SIGHUP"):
        number = getattr(signal, name, None)  # not on every system
        if number is not None and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


def assigned(settings: Mapping[str, str]) -> list[str]:
    """The settings as arguments."""
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return host, int(port)


def tail(log: Path) -> str:
    """The end of a log file, for the message of a failed test."""
    return log.read_bytes()[-_TAIL_BYTES:].decode(errors="replace") if log.exists() else ""


class Process:
    """A server process on a port of its own choice. Leaving the `with` block kills it."""

    def __init__(
        self,
        *arguments: str,
        program: Sequence[str] = PROGRAM,
        log: Path | None = None,
        cwd: Path = ROOT,
        environment: Mapping[str, str] | None = None,
        umask: int = -1,
        listen: str | None = "127.0.0.1:0",
    ) -> None:
        """`program` is what `serve` and its `arguments` are given to; `log` is a file that standard
        error is appended to, a pipe without one; `environment` replaces ours and this checkout;
        `listen` is None if the settings have listeners.
        """
        self._log = log
        self._reading = threading.Lock()
        self._is_read = False
        self.control: str | None = None
        """`host:port` of the control port, once it is ready."""
        self.output = ""
        """Once the process has ended: standard output behind the lines that were read."""
        self.errors = ""
        """Once the process has ended: standard error, if there is no log file."""
        at = () if listen is None else ("--listen", listen)
        if environment is None:
            environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        with ExitStack() as stack:
            self.popen: subprocess.Popen[bytes] = subprocess.Popen(
                [*program, "serve", *at, *arguments],
                stdout=subprocess.PIPE,
                stderr=stack.enter_context(log.open("ab")) if log else subprocess.PIPE,
                cwd=cwd,
                env=environment,
                umask=umask,
                bufsize=0,  # so that what `select` says is true of `readline`
            )
        self.pid = self.popen.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.kill()

    @property
    def is_alive(self) -> bool:
        return self.popen.poll() is None

    def ready(self, seconds: float = READY_S) -> Ready:
        """Wait for the ready line. Raises NotReady, after the end of the process."""
        try:
            line = self.line(seconds)
        except TimeoutError as error:
            line = str(error)
        found = _READY.fullmatch(line)
        if found is None:
            if not line:
                self.wait()
            self.kill()
            raise NotReady(f"the server did not become ready: {line}\n{self.tail()}")
        kafka, http, self.control, node_id, data_dir = found.groups()
        listeners = {
            each.rpartition("://")[0]: _address(each.rpartition("://")[2])
            for each in kafka.split(",")
        }
        first = next(iter(listeners.values()))
        return Ready(first, http, int(node_id), data_dir, listeners)

    def line(self, seconds: float = READY_S) -> str:
        """The next line of standard output, empty at its end. Raises TimeoutError."""
        assert self.popen.stdout is not None
        readable, _, _ = select.select([self.popen.stdout], [], [], seconds)
        if not readable:
            raise TimeoutError(f"nothing printed within {seconds} s")
        return self.popen.stdout.readline().decode()

    def send_signal(self, number: signal.Signals) -> None:
        self.popen.send_signal(number)

    def wait(self, seconds: float = STOP_S) -> int:
        """Read what is printed until the process ends; the exit code. Raises TimeoutExpired."""
        with self._reading:
            if not self._is_read:
                output, errors = self.popen.communicate(timeout=seconds)
                self.output = output.decode(errors="replace")
                self.errors = (errors or b"").decode(errors="replace")
                self._is_read = True
        return self.popen.returncode

    def stop(self, seconds: float = STOP_S) -> int | None:
        """SIGTERM; the exit code, or None if the process had to be killed after that time.

        Its pipes are read only after its end: a server ends although its log is not read.
        """
        self.popen.terminate()
        try:
            code: int | None = self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        self.kill()
        return code

    def kill(self) -> None:
        """SIGKILL, unless it has ended. Another thread may stop it or wait for it meanwhile."""
        self.popen.kill()
        self.wait()

    def tail(self) -> str:
        """The end of the log or of standard error, for the message of a failed test."""
        return tail(self._log) if self._log else self.errors[-_TAIL_BYTES:]


class Server:
    """One data directory, its log and its port, which outlive the process that serves them.

    Ends with `stop`, whatever happened before.
    """

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, str],
        checkout: Path | None = None,
        advertise: Address | None = None,
    ) -> None:
        """`checkout`: whose code runs; this one's unless another is given. `advertise`: where
        clients are sent to, if not to the port that is listened on.
        """
        self.checkout = checkout or ROOT
        self._more = () if advertise is None else ("--advertise", "{}:{}".format(*advertise))
        self.settings = settings
        self.data_dir = folder / "data"
        self.log = folder / "server.log"
        self.kafka: Address = ("127.0.0.1", 0)
        self.http = "127.0.0.1:0"
        self.process: Process | None = None

    @property
    def bootstrap(self) -> str:
        host, port = self.kafka
        return f"{host}:{port}"

    @property
    def is_alive(self) -> bool:
        return self.process is not None and self.process.is_alive

    def start(self) -> None:
        """Start, on the ports of the time before if there was one, and wait until it is ready."""
        self.launch()
        assert self.process is not None
        ready = self.process.ready()
        self.kafka, self.http = ready.kafka, ready.http

    def launch(self) -> None:
        """Start, and do not wait."""
        self.process = Process(
            *("--listen", self.bootstrap, "--http", self.http),
            *("--data-dir", str(self.data_dir), *assigned(self.settings), *self._more),
            log=self.log,
            cwd=self.checkout,
            environment={**os.environ, "PYTHONPATH": str(self.checkout)},
        )

    def kill(self) -> None:
        """What the kernel does to a process without giving it time to end."""
        if self.process is not None:
            self.process.kill()

    def stop(self) -> int | None:
        """SIGTERM; the exit code, or None if there is no process or it had to be killed."""
        return None if self.process is None else self.process.stop()

    def tail(self) -> str:
        return tail(self.log)
