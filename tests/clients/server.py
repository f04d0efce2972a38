"""A Groupkeeper process for the real clients: start, kill -9, restart on the same port, stop.

Nothing is taken from the server but its ready line. An address in GROUPKEEPER_TEST_BOOTSTRAP
takes its place by that of any broker, Apache Kafka's for one: what the tests expect is Kafka's.
"""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

BOOTSTRAP_VARIABLE = "GROUPKEEPER_TEST_BOOTSTRAP"
# Read on import: when tests run, nothing of ours is left in the environment.
EXTERNAL_BOOTSTRAP = os.environ.get(BOOTSTRAP_VARIABLE)
READY = re.compile(r"ready kafka=(?P<kafka>\S+) http=(?P<http>\S+)")
READY_SECONDS = 20
STOP_SECONDS = 10
TAIL_BYTES = 8_000
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "num.partitions": "6",
}


class Server:
    """One server process over one data directory; ends with `stop`, whatever happened before."""

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, str] = SETTINGS,
        checkout: Path | None = None,
    ) -> None:
        """`checkout`: whose code runs; this one's unless another is given."""
        self.checkout = checkout or _checkout()
        self.settings = settings
        self.data_dir = folder / "data"
        self.log = folder / "server.log"
        self.bootstrap = "127.0.0.1:0"
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start, on the port of the time before if there was one, and wait until it is ready."""
        self.launch()
        self.bootstrap = self._ready()

    def launch(self) -> None:
        """Start, and do not wait."""
        command = [sys.executable, "-m", "groupkeeper", "serve"]
        command += ["--listen", self.bootstrap, "--http", "127.0.0.1:0"]
        command += ["--data-dir", str(self.data_dir)]
        for key, value in self.settings.items():
            command += ["--set", f"{key}={value}"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=self.checkout
            )

    def _ready(self) -> str:
        found: list[str] = []
        seen = threading.Event()
        threading.Thread(target=self._read, args=(found, seen), daemon=True).start()
        if not seen.wait(READY_SECONDS) or not found:
            self.stop()
            raise AssertionError(f"the server did not become ready:\n{self.tail()}")
        return found[0]

    def _read(self, found: list[str], seen: threading.Event) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        for line in self.process.stdout:
            ready = READY.search(line)
            if ready:
                found.append(ready["kafka"])
                seen.set()
        seen.set()  # it ended

    def kill(self) -> None:
        """What the kernel does to a process that has no time to say farewell."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(STOP_SECONDS)

    def stop(self) -> None:
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    def tail(self) -> str:
        return tail(self.log)


class External:
    """A broker that somebody else runs: it has an address, and nothing may be done to it."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def stop(self) -> None:
        """Leave it as it is."""

    def tail(self) -> str:
        return "(an external broker: see its own log)"


def tail(log: Path) -> str:
    """The end of a log file, for the message of a failed test."""
    return log.read_bytes()[-TAIL_BYTES:].decode(errors="replace") if log.exists() else ""


def _checkout() -> Path:
    return Path(__file__).parents[2]
