"""`python -m benchmarks.compacting`: what a compaction does to heartbeats and commits meanwhile.

Makes a data directory with hundreds of MiB that have to be compacted, starts a server on it, and
puts the same loads on it before the compaction, during it and afterwards, in several rounds: half
of what saturates the server, and in the last round as many commits as it takes.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Self

from benchmarks import backlog, cases, report
from benchmarks.crowd import Link
from benchmarks.hotloop import Outcome
from benchmarks.members import stable_groups
from benchmarks.processes import GENERATOR_CORE, cpu_seconds, on_core
from benchmarks.targets import Home, Server, create_topic, first_join

CONNECTIONS = 50
HALF = 0.5
"""Of the rate at which the server is saturated."""
BESIDE_PER_S = 2_000.0
"""Heartbeats while commits are measured."""
NOT_YET_S = 300.0
"""Before the first compaction, where none is wanted."""
GAPS, GAP_S = 20, 0.02
"""Between the processes of two compactions, at most."""
WATCH_S = 0.1
"""Between two looks at what the compactions have used."""
MEBI = 2**20
BOUNDS = {
    "heartbeats": ("p99_us", 1.3, False),
    "beside commits": ("p99_us", 1.3, False),
    "commits": ("per_s", 0.85, True),
    "commits, saturated": ("per_s", 0.85, True),
}
"""What has to hold during a compaction over without: the figure, and at most or at least."""
MIB_PER_S = 10.0

Figures = dict[str, float]
Loads = Callable[[], Iterator[dict[str, Figures]]]
"""Puts one load after the other on a server."""


@dataclass(slots=True)
class Measured:
    """Figures by load, of runs without a compaction and during one; MiB/s of the compactions while
    the server has half of its load.
    """

    without: dict[str, list[Figures]] = field(default_factory=dict)
    during: dict[str, list[Figures]] = field(default_factory=dict)
    mib_per_s: list[float] = field(default_factory=list)
    cores: list[float] = field(default_factory=list)
    """Of the processes that compacted."""


class Load:
    """Members on a server, and the loads that they put on it."""

    def __init__(self, server: Server, seconds: float, partitions: int) -> None:
        self._groups = stable_groups(server.port, CONNECTIONS, 10)
        beating = [member for group in self._groups for member in group.members]
        alone = stable_groups(server.port, CONNECTIONS, 1)
        self._groups += alone
        self._beats = cases.beating(beating)
        self._commits = cases.committing([group.members[0] for group in alone], partitions)
        self._port = server.port
        self._seconds = seconds

    def saturate(self) -> tuple[float, float]:
        """Heartbeats and commits a second as fast as they are answered: medians of three."""
        runs = [(self._beats.run(1.0), self._commits.run(1.0)) for _ in range(3)]
        beats, commits = zip(*runs, strict=True)
        return tuple(statistics.median(run.per_second for run in one) for one in (beats, commits))

    def half(self, saturated: tuple[float, float]) -> Iterator[dict[str, Figures]]:
        """One load after the other."""
        beats, commits = (HALF * rate for rate in saturated)
        yield {"heartbeats": _figures(self._beats.run(self._seconds, rate=beats))}
        yield self._beside(commits)

    def full(self) -> Iterator[dict[str, Figures]]:
        yield {"commits, saturated": _figures(self._commits.run(self._seconds))}

    def _beside(self, rate: float) -> dict[str, Figures]:
        """Commits at a rate, and a few heartbeats, on threads of their own."""
        found: dict[str, Figures] = {}

        def beat() -> None:
            outcome = self._beats.run(self._seconds, rate=BESIDE_PER_S)
            found["beside commits"] = _figures(outcome)

        thread = threading.Thread(target=beat)
        thread.start()
        found["commits"] = _figures(self._commits.run(self._seconds, rate=rate))
        thread.join()
        return found

    def close(self) -> None:
        with closing(Link(self._port)) as link:
            for group in self._groups:
                group.leave(link)
        for group in self._groups:
            group.close()


def _figures(outcome: Outcome) -> Figures:
    return {
        "per_s": outcome.per_second,
        "p50_us": outcome.quantile_us(0.5),
        "p99_us": outcome.quantile_us(0.99),
    }


def compacting(server: Server) -> int | None:
    """The process that compacts, if one does now."""
    for task in Path(f"/proc/{server.pid}/task").iterdir():
        try:
            found = (task / "children").read_text().split()
        except OSError:
            continue  # the thread has ended
        if found:
            return int(found[0])
    return None


def compactions(server: Server) -> list[dict[str, float]]:
    """What the server has said of each that has ended."""
    lines = (line for line in server.output().splitlines() if '"log compacted"' in line)
    return [json.loads(line) for line in lines]


@contextmanager
def started(made: Server, base: Path, written: backlog.Backlog, wait_s: float) -> Iterator[Server]:
    """A server on a copy of the data, whose first compaction begins after so many seconds."""
    folder = base / "round" / made.name
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(made.folder / "data", folder / "data")
    os.sync()  # or the system would write the copy while something is measured
    backoff = {"log.cleaner.backoff.ms": str(int(wait_s * 1000))}
    server = Server(
        made.name,
        folder.parent,
        Home(made.port, folder),
        {**written.settings, **backlog.COMPACTING, **backoff},
    )
    try:
        yield server
    finally:
        server.stop()


def play(server: Server, loads: Loads, deadline: float, found: Measured) -> dict[str, float]:
    """All loads once before the compactions, then until they are done, then once more; returns the
    MiB/s and the cores of the compactions.
    """
    for each in loads():
        _add(found.without, each)
    if compacting(server) is not None or time.monotonic() > deadline:
        raise TimeoutError("the compaction began while the figures without one were taken")
    while compacting(server) is None:
        time.sleep(0.02)
    with _Processor(server) as used:
        while used.goes_on():
            for each in loads():
                if used.goes_on():
                    _add(found.during, each)
    for each in loads():
        _add(found.without, each)
    done = compactions(server)
    seconds = sum(each["seconds"] for each in done)
    mib = sum(each["bytes_before"] for each in done) / MEBI
    return {"mib_per_s": mib / seconds, "cores": used.seconds / seconds}


class _Processor:
    """How much of a processor the compactions use: what the server leaves of its own one.

    The other one stands for the machines of the clients: a compaction there would delay requests
    before they are sent, and that would count as the server's delay.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._each: dict[int, float] = {}
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(WATCH_S):
            pid = compacting(self._server)
            with suppress(OSError):
                if pid is not None:
                    self._each[pid] = cpu_seconds(pid)

    def goes_on(self) -> bool:
        """Whether there is still one, or will be in a moment."""
        for _ in range(GAPS):
            if compacting(self._server) is not None:
                return True
            time.sleep(GAP_S)
        return False

    @property
    def seconds(self) -> float:
        return sum(self._each.values())


def _add(to: dict[str, list[Figures]], figures: dict[str, Figures]) -> None:
    for name, each in figures.items():
        to.setdefault(name, []).append(each)


def show(found: Measured) -> bool:
    """Print medians and what has to hold; whether all of it does."""
    good = True
    print(f"{'':20} {'':8} {'without':>10} {'during':>10}   {'ratio':>6}")
    for name, before in found.without.items():
        for figure in before[0]:
            values = [
                statistics.median(each[figure] for each in runs)
                for runs in (before, found.during[name])
            ]
            ratio = values[1] / values[0]
            verdict = ""
            if name in BOUNDS and BOUNDS[name][0] == figure:
                _, bound, least = BOUNDS[name]
                met = ratio >= bound if least else ratio <= bound
                good &= met
                verdict = f"  at {'least' if least else 'most'} {bound}: {'yes' if met else 'NO'}"
            print(
                f"{name:20} {figure:8} {values[0]:10.0f} {values[1]:10.0f}   {ratio:6.2f}{verdict}"
            )
    rate = statistics.median(found.mib_per_s)
    met = rate >= MIB_PER_S
    print(
        f"compaction: {rate:.1f} MiB/s, at least {MIB_PER_S}: {'yes' if met else 'NO'}; "
        f"{statistics.median(found.cores):.2f} cores; runs without and during: "
        f"{len(found.without['commits'])}, {len(found.during['commits'])}"
    )
    return good and met


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compacting", description=__doc__)
    parser.add_argument("--records", type=int, default=5_000_000, help="in all (5000000)")
    parser.add_argument("--batch", type=int, default=20, help="records in a batch (20)")
    parser.add_argument("--repeats", type=float, default=10, help="commits of an offset (10)")
    parser.add_argument("--logs", type=int, default=8, help="partitions that have any (8)")
    parser.add_argument("--commit", type=int, default=1, help="partitions of a commit (1)")
    parser.add_argument("--seconds", type=float, default=3.0, help="of one measurement (3)")
    parser.add_argument("--rounds", type=int, default=3, help="compactions of everything (3)")
    parser.add_argument("--data-dir", type=Path, help="where the data is (temporary files)")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    found = Measured()
    with ExitStack() as stack:
        named = tempfile.TemporaryDirectory(prefix="groupkeeper-compacting-", dir=options.data_dir)
        base = Path(stack.enter_context(named))
        stack.enter_context(on_core(GENERATOR_CORE))
        print(f"disk: {report.disk(base)}, load average {os.getloadavg()[0]:.1f}", flush=True)
        size = (options.records, options.batch, options.logs, options.repeats)
        written = backlog.write(base / "log", *size)
        made = backlog.prepare("groupkeeper", base, written)
        print(f"{backlog.log_mib(made):.0f} MiB in {options.logs} logs", flush=True)
        saturated = None
        load_s = 0.0
        for number in range(options.rounds + 2):
            wait_s = NOT_YET_S if saturated is None else 1.5 * load_s + 4 * options.seconds + 2
            with started(made, base, written, wait_s) as server:
                server.wait(first_join)
                create_topic(server)
                backlog.answered(server, written)
                load_s = time.monotonic() - server.started
                load = Load(server, options.seconds, options.commit)
                if saturated is None:
                    saturated = load.saturate()
                    print("saturated: {:.0f} heartbeats/s, {:.0f} commits/s".format(*saturated))
                elif number <= options.rounds:
                    loads = partial(load.half, saturated)
                    rates = play(server, loads, server.started + wait_s, found)
                    found.mib_per_s.append(rates["mib_per_s"])
                    found.cores.append(rates["cores"])
                else:
                    play(server, load.full, server.started + wait_s, found)
                load.close()
            print(f"load average {os.getloadavg()[0]:.1f}, {found.mib_per_s}", flush=True)
    return 0 if show(found) else 1


if __name__ == "__main__":
    sys.exit(main())
