"""One run: a server and a streaming job that are both killed, and what the job has in the end."""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pyarrow.dataset
from rich.console import Console

from groupkeeper.analytics.reading.problems import is_damage
from tests.chaos.stream.clients import Commit, Crowd
from tests.chaos.stream.truth import Links, Told
from tests.support.process import ROOT, NotReady, Server

MINUTES = 10.0
SEED = 9
KILLS = 2
GROUPS = 8
BAD, CANNOT_RUN = 1, 2
JOB_SECONDS = 240.0
CROWDED = "Python worker failed to connect back"
TAIL = 4000
SHOWN = 10
DRAIN_SECONDS = 600.0
FORMATS = {"consumer_offsets": "__consumer_offsets", "group_events": "__group_events"}
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.backoff.ms": "20",
    "log.cleaner.delete.retention.ms": "100",
    "log.cleaner.min.cleanable.ratio": "0.1",
    "log.roll.ms": "2000",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.segment.bytes": "32768",
}
COUNTED = re.compile(r"(?:(\d+) of )?(\d+) to (\d+)$")

DESCRIPTION = """\
Stream both logs of a running server with Spark, and count what arrives.

Clients commit, rebalance and leave. Segments are tiny, and compaction runs all the time; in the
second half raw segments are archived, in the first they are not. In each half the server is killed
with kill -9 and restarted twice, and so is the job. In the end the rows are compared with
everything that the server ever wrote, and with what it acknowledged to its clients. What compaction
took before it was read has to be counted; with the archive, nothing may be missing.

Exit code 0: all good. 1: rows are missing, repeated or wrong. 2: it could not begin."""


@dataclass
class Report:
    """Of one log in one half."""

    name: str
    written: int = 0
    rows: int = 0
    repeated: int = 0
    missing: int = 0
    counted: int = 0
    """Offsets that problem rows tell of."""
    wrong: int = 0
    """Rows that tell something else than the record."""
    damage: Counter[str] = field(default_factory=Counter)
    acknowledged: int = 0
    lost_commits: list[Commit] = field(default_factory=list)
    """Acknowledged, and not in the log, or neither a row nor counted."""

    @property
    def bad(self) -> bool:
        unexplained = self.missing != self.counted
        return (
            bool(self.repeated or unexplained or self.wrong or self.damage or self.lost_commits)
            or not self.rows
        )

    def __str__(self) -> str:
        return (
            f"{'BAD ' if self.bad else ''}{self.name}: {self.written} records written, {self.rows} "
            f"rows, {self.repeated} repeated, {self.missing} missing ({self.counted} told as "
            f"compacted away), {self.wrong} wrong, {self.acknowledged} commits acknowledged, "
            f"{len(self.lost_commits)} of them lost{self._details}"
        )

    @property
    def _details(self) -> str:
        lost = f": {sorted(self.lost_commits)[:SHOWN]}" if self.lost_commits else ""
        return lost + (f", damage: {dict(self.damage)}" if self.damage else "")


@dataclass
class Table:
    """Of the stream, compared with a batch over the same logs."""

    name: str
    rows: int
    more: int
    fewer: int

    @property
    def bad(self) -> bool:
        return bool(self.more or self.fewer)

    def __str__(self) -> str:
        return (
            f"{'BAD ' if self.bad else ''}table {self.name}: {self.rows} rows in a batch, of which "
            f"the stream lacks {self.fewer}; it has {self.more} others"
        )


class Job:
    """The streaming job: one process after another."""

    def __init__(self, data_dir: Path, out: Path, log: Path) -> None:
        self._arguments = [str(data_dir), str(out)]
        self.out = out
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *more: str) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.stream.job", *self._arguments, *more],
                stdout=log,
                stderr=log,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                start_new_session=True,
            )

    def kill(self) -> None:
        """The driver and its Java: both have the process group of this child."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def drain(self) -> None:
        """Raises RuntimeError."""
        self.start("--drain")
        assert self._process is not None
        if self._process.wait(DRAIN_SECONDS):
            raise RuntimeError(f"the job failed:\n{self._log.read_text()[-TAIL:]}")
        self._process = None

    @property
    def batches(self) -> int:
        """Committed so far."""
        return len([*self.out.glob("checkpoint-*/commits/[0-9]*")])

    def wait(self) -> None:
        """Until it commits again. Raises RuntimeError.

        On a crowded machine Spark gives up starting its Python workers: then the job starts again.
        """
        before, end = self.batches, time.monotonic() + JOB_SECONDS
        while self.batches == before:
            if self.has_ended and CROWDED in self._log.read_text()[-TAIL:]:
                self._log.write_text("")
                self.start()
            elif time.monotonic() > end or self.has_ended:
                raise RuntimeError(f"the job does nothing:\n{self._log.read_text()[-TAIL:]}")
            time.sleep(0.1)

    @property
    def has_ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None


def _stop(server: Server) -> None:
    code = server.stop()
    if code != 0:
        raise RuntimeError(f"the server ended with exit code {code}: see {server.log}")


def half(
    folder: Path, seconds: float, seed: int, *, raw: bool, console: Console
) -> "list[Report | Table]":
    """Raises NotReady and RuntimeError."""
    folder.mkdir()
    settings = SETTINGS | ({"offsets.raw.retention.ms": "86400000"} if raw else {})
    server = Server(folder, settings)
    server.start()
    links = Links(server.data_dir, folder / "links")
    links.start()
    crowd = Crowd(server.kafka, GROUPS, seed)
    job = Job(server.data_dir, folder / "out", folder / "job.log")
    try:
        crowd.start()
        _until_logs(server.data_dir)
        job.start()
        job.wait()
        _play(server, job, seconds, Random(seed))
        if job.has_ended:
            job.start()
            job.wait()
        crowd.end()
        # What a stop leaves in the journal only, a start writes to the segments.
        _stop(server)
        server.start()
        crowd.wait_loaded(server.kafka)
        _stop(server)
        job.kill()
        job.drain()
    finally:
        crowd.end()
        job.kill()
        server.kill()
        links.end()
    kind = "with the archive" if raw else "without an archive"
    compactions = server.log.read_text(errors="replace").count("log compacted")
    _say(console, f"{kind}: {crowd.joins} joins, {compactions} compactions, {job.batches} batches")
    reports: list[Report | Table] = [
        _compared(f"{name}, {kind}", job, name, links.records(topic), crowd.acknowledged)
        for name, topic in FORMATS.items()
    ]
    if raw:  # else a batch does not see what compaction has taken meanwhile
        told = json.loads((job.out / "tables.json").read_text(encoding="utf-8"))
        reports += [Table(name, *counts) for name, counts in told.items()]
    return reports


def _play(server: Server, job: Job, seconds: float, chance: Random) -> None:
    """Kill each of the two KILLS times, in turn, spread over the time."""
    end = time.monotonic() + seconds
    for number in range(2 * KILLS):
        left = (end - time.monotonic()) / (2 * KILLS - number + 1)
        time.sleep(max(0.0, left) + chance.random())
        if number % 2:
            server.kill()
            time.sleep(chance.random())
            server.start()
        else:
            job.kill()
            job.start()
            job.wait()
    time.sleep(max(0.0, end - time.monotonic()))


def _until_logs(data_dir: Path) -> None:
    end = time.monotonic() + JOB_SECONDS
    while not all([*data_dir.glob(f"{topic}-*")] for topic in FORMATS.values()):
        if time.monotonic() > end:
            raise RuntimeError(f"no logs in {data_dir}")
        time.sleep(0.1)


def _compared(
    title: str, job: Job, name: str, truth: dict[tuple[int, int], Told], acknowledged: set[Commit]
) -> Report:
    report = Report(title, written=len(truth))
    counts: Counter[tuple[int, int]] = Counter()
    gaps: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for partition, offset, *told, problem in _rows(job.out / f"rows-{name}"):
        if offset is not None:
            counts[partition, offset] += 1
            report.wrong += truth.get((partition, offset)) != Told(*told)
        if problem is not None and (match := COUNTED.search(problem)) and offset is None:
            first, last = int(match[2]), int(match[3])
            report.counted += int(match[1] or last - first + 1)
            gaps[partition].append((first, last))
        if problem is not None and is_damage(problem):
            report.damage[problem] += 1
    report.rows = counts.total()
    report.repeated = counts.total() - len(counts)
    missing = truth.keys() - counts.keys()
    report.missing = len(missing)
    if name == "consumer_offsets":
        committed = {(*told,): at for at, told in truth.items() if told.committed is not None}
        report.acknowledged = len(acknowledged)
        for each in acknowledged:
            partition, offset = committed.get(each, (-1, -1))
            is_told = any(first <= offset <= last for first, last in gaps[partition])
            if (partition, offset) not in counts and not is_told:
                report.lost_commits.append(each)
    return report


def _rows(folder: Path) -> Iterator[tuple[object, ...]]:
    for batch in pyarrow.dataset.dataset(folder, format="parquet").to_batches():
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def play(minutes: float, seed: int, folder: Path, console: Console) -> int:
    """How many logs are bad. Raises NotReady and RuntimeError."""
    bad = 0
    for raw in (False, True):
        seconds = minutes * 60 / 2
        for report in half(folder / f"raw-{raw}", seconds, seed, raw=raw, console=console):
            _say(console, str(report), "red" if report.bad else None)
            bad += report.bad
    return bad


def _say(console: Console, text: str, style: str | None = None) -> None:
    console.print(text, style=style, highlight=False, markup=False, soft_wrap=True)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos stream",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"({MINUTES:.0f})")
    parser.add_argument("--seed", type=int, default=SEED, help=f"when kills come ({SEED})")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep all that is written")
    options = parser.parse_args(arguments)
    console = Console()
    with tempfile.TemporaryDirectory(prefix="groupkeeper-stream-") as folder:
        place = options.keep or Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        try:
            return BAD if play(options.minutes, options.seed, place, console) else 0
        except (NotReady, RuntimeError, subprocess.TimeoutExpired) as error:
            _say(console, str(error), "red")
            return CANNOT_RUN
