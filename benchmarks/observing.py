"""`python -m benchmarks.observing`: what an observer of a large cluster costs, end to end.

Starts a broker in memory (`offsets_broker.py`) and `groupkeeper observe` on it. Measures how fast
it reads a backlog, and then what it takes to keep up with commits and rebalances: cores, memory,
how late it is, and the longest callback of its event loop (`timed_loop.py`).
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.offsets_broker import add_load
from benchmarks.processes import (
    GENERATOR_CORE,
    SERVER_CORE,
    Meter,
    cpu_seconds,
    on_core,
    resident_mib,
)

ROOT: Final = Path(__file__).parent.parent
LOOK_S: Final = 0.2
"""Interval at which the observer is asked how many records are left to read."""
REST_S: Final = 5.0
"""Time between the two measurements."""
TOLD_S: Final = 5.0
"""Within this time the process tells its longest callback."""
LEFT, READ = "groupkeeper_observer_records_left", "groupkeeper_observer_records_read_total"


class Observer(NamedTuple):
    """A running observer; `callbacks` is the file that `timed_loop` writes."""

    pid: int
    http: str
    callbacks: Path

    def page(self) -> str:
        """The page of metrics."""
        with urllib.request.urlopen(f"http://{self.http}/metrics", timeout=60) as answer:
            text: str = answer.read().decode()
            return text

    def is_ready(self) -> bool:
        """Whether all partitions were read to their ends."""
        try:
            with urllib.request.urlopen(f"http://{self.http}/readyz", timeout=60):
                return True
        except urllib.error.HTTPError:
            return False

    def numbers(self) -> dict[str, float]:
        """The metrics without labels."""
        rows = (line.split() for line in self.page().splitlines() if line[0] != "#")
        return {row[0]: float(row[1]) for row in rows if len(row) == 2 and "{" not in row[0]}

    def longest(self) -> str:
        """The longest callback since the last call, in processor time of the loop's thread."""
        before = self.callbacks.read_text() if self.callbacks.exists() else ""
        os.kill(self.pid, signal.SIGUSR2)
        until = time.monotonic() + TOLD_S
        while (text := self.callbacks.read_text() if self.callbacks.exists() else "") == before:
            assert time.monotonic() < until, "it does not tell its longest callback"
            time.sleep(0.05)
        told = json.loads(text[len(before) :])
        return f"longest callback {told['ms']:.1f} ms ({told['callback']})"


@contextmanager
def process(core: int, *words: str, log: Path) -> "Iterator[subprocess.Popen[str]]":
    """A program of this checkout on one core, until the block ends."""
    with on_core(core), log.open("ab") as errors:
        started = subprocess.Popen(
            [sys.executable, *words],
            cwd=ROOT,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
    try:
        yield started
    finally:
        started.terminate()
        started.wait(60)


def line_of(program: "subprocess.Popen[str]", log: Path) -> str:
    """The next line that a program prints."""
    assert program.stdout is not None
    line = program.stdout.readline()
    assert line, log.read_text()[-2000:]
    return line


def caught_up(observer: Observer) -> str:
    """Wait until all is read. Returns how fast that was."""
    began, cpu = time.monotonic(), cpu_seconds(observer.pid)
    while not observer.is_ready():
        time.sleep(LOOK_S)
    records, seconds = observer.numbers()[READ], time.monotonic() - began
    used = cpu_seconds(observer.pid)
    return (
        f"backlog: {records:,.0f} records in {seconds:.1f} s and {used:.1f} s of processor time: "
        f"{records / used:,.0f} records/s on one core ({cpu:.1f} s were the start), "
        f"{resident_mib(observer.pid):.0f} MiB, {observer.longest()}"
    )


def kept_up(observer: Observer, broker: "subprocess.Popen[str]", options: Any, log: Path) -> str:
    """Let commits and rebalances arrive. Returns what it took."""
    assert broker.stdin is not None
    observer.longest()
    meter = Meter(observer.pid)
    broker.stdin.write(f"{options.rate} {options.rounds} {options.seconds}\n")
    broker.stdin.flush()
    most = 0.0
    ends = time.monotonic() + options.seconds
    while time.monotonic() < ends:
        time.sleep(1)
        most = max(most, resident_mib(observer.pid))
    cores, played = meter.read(), json.loads(line_of(broker, log))
    left = observer.numbers()[LEFT]
    return (
        f"{played['commits']:,} commits and {played['rebalances']} rebalances in "
        f"{options.seconds:.0f} s: {cores.server:.2f} cores, {most:.0f} MiB, lag in ms "
        f"{played['lag_ms']}, {left:.0f} records left, {observer.longest()}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.observing", description=__doc__)
    add_load(parser)
    parser.add_argument("--rate", type=int, default=5_000, help="commits a second (5000)")
    parser.add_argument("--rounds", type=int, default=10, help="rebalances a second (10)")
    parser.add_argument("--seconds", type=float, default=60.0, help="of them (60)")
    options = parser.parse_args()
    load = [
        word
        for name in ("partitions", "groups", "members", "in_batch", "records")
        for word in (f"--{name.replace('_', '-')}", str(getattr(options, name)))
    ]
    with tempfile.TemporaryDirectory(prefix="groupkeeper-observing-") as folder:
        log = Path(folder, "log.txt")
        with process(GENERATOR_CORE, "-m", "benchmarks.offsets_broker", *load, log=log) as broker:
            where = f"127.0.0.1:{line_of(broker, log).strip()}"
            words = ["--bootstrap-server", where, "--data", f"{folder}/data"]
            os.environ["LONGEST_CALLBACKS"] = f"{folder}/callbacks"
            command = ["-m", "benchmarks.timed_loop", "observe", *words, "--http", "127.0.0.1:0"]
            with process(SERVER_CORE, *command, log=log) as running:
                http = line_of(running, log).partition("http=")[2].split()[0]
                observer = Observer(running.pid, http, Path(folder, "callbacks"))
                print(caught_up(observer))
                if options.seconds:
                    time.sleep(REST_S)
                    print(kept_up(observer, broker, options, log))
    return 0


if __name__ == "__main__":
    sys.exit(main())
