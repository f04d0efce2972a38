"""What is asked beside Apache Kafka: an observer process, and `groupkeeper why`."""

import json
import os
import re
import select
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Final

from tests.support.process import PROGRAM, ROOT

_READY: Final = re.compile(r"groupkeeper observer ready http=(\S+) ")
_READY_S: Final = 60.0
_STOP_S: Final = 20.0
_ASK_S: Final = 120.0
_MOST_ROUNDS: Final = 1000
Row = dict[str, Any]


class Observer:
    """`groupkeeper observe` as a process."""

    def __init__(self, bootstrap: str, folder: Path, *options: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.log, self.data = folder / "observer.log", folder / "observer"
        self.bootstrap, self.http = bootstrap, ""
        self._options = options
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Returns when it is ready. Raises AssertionError."""
        self.launch()
        assert self.process is not None
        output = self.process.stdout
        assert output is not None
        readable, _, _ = select.select([output], [], [], _READY_S)
        line = output.readline() if readable else ""
        match = _READY.match(line)
        assert match, f"the observer is not ready: {line}{self.tail()}"
        self.http = match[1]

    def launch(self) -> None:
        """Start it, and do not wait."""
        words = ["--bootstrap-server", self.bootstrap, "--http", "127.0.0.1:0"]
        with self.log.open("ab") as stderr:
            self.process = subprocess.Popen(
                [*PROGRAM, "observe", *words, "--data", str(self.data), *self._options],
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )

    @property
    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def tail(self) -> str:
        """The end of its log, for messages."""
        return self.log.read_text(errors="replace")[-2000:]

    def is_ready(self) -> bool:
        """Whether it has read all partitions to their ends."""
        try:
            with urllib.request.urlopen(f"http://{self.http}/readyz", timeout=_ASK_S):
                return True
        except urllib.error.HTTPError:
            return False

    def numbers(self) -> dict[str, float]:
        """Its metrics without labels."""
        with urllib.request.urlopen(f"http://{self.http}/metrics", timeout=_ASK_S) as answer:
            lines = answer.read().decode().splitlines()
        rows = (line.split() for line in lines if line[:1] != "#" and "{" not in line)
        return {name: float(value) for name, value in rows}

    def why(self, group: str) -> list[Row]:
        """The entries that it has of a group; none if it does not know it."""
        address = f"http://{self.http}/api/v1/groups/{group}/why?last={_MOST_ROUNDS}"
        try:
            with urllib.request.urlopen(address, timeout=_ASK_S) as answer:
                rows: list[Row] = json.load(answer)["entries"]
                return rows
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return []
            raise

    def stop(self) -> None:
        """End it in order."""
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                self.process.kill()

    def kill(self) -> None:
        """kill -9, unless it has ended."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()


def why(bootstrap: str, group: str) -> list[Row]:
    """What `groupkeeper why` says of a group without an observer. Raises RuntimeError."""
    where = ("--bootstrap-server", bootstrap, "--http", "off", "--json")
    command = [*PROGRAM, "why", group, "--last", str(_MOST_ROUNDS), *where]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=_ASK_S, check=False
    )
    if done.returncode:
        raise RuntimeError(f"why ended with {done.returncode}: {done.stderr.strip()[-400:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def same_until(ask: Any, is_enough: Any, seconds: float) -> list[Row]:
    """Ask until the rows are enough, or the time is up."""
    until = time.monotonic() + seconds
    while not is_enough(rows := ask()) and time.monotonic() < until:
        time.sleep(0.3)
    found: list[Row] = rows
    return found
