"""What changes have cost in sum: this working tree against a pinned commit and the bare responder.

    make bench-guard                                     # ten minutes
    make bench-guard ARGS="--cases storm-500 --rounds 9"

A change that costs one percent is within the noise, and ten of them are not. So nothing is compared
with yesterday: the anchor is a commit that stays the same. In each round every target starts anew,
and each case is run on all of them in turn; another target begins in each round. The anchor takes
part twice: how far its figures are apart is the noise, and a smaller difference says nothing.

Needs Linux, and a machine with nothing else to do: the share of other processes is printed.
"""

import argparse
import io
import math
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks import cases, report
from benchmarks.processes import GENERATOR_CORE, on_core, raise_file_limit
from benchmarks.run import DISTURBED, LOADS, NO_GROUPS, undisturbed, warm_up
from benchmarks.targets import (
    ROOT,
    TARGETS,
    Server,
    Target,
    UnavailableError,
    create_topic,
    groupkeeper_of,
    running,
)
from benchmarks.wire import WrongAnswerError

ANCHOR: Final = "06eb576d"
"""The fastest commit so far, in sum. It moves when another one is faster in every row."""
CHECKOUTS: Final = ROOT / ".bench"
NOW, ANCHORED, AGAIN, FLOOR = "now", "anchor", "anchor again", "floor"
WARM_UP_S: Final = 1.0

START: Final = "start"
ROWS: Final[Sequence[tuple[str, str, str]]] = (
    ("heartbeat-50", "requests_per_s", "heartbeats, 50 connections"),
    ("heartbeat-50", "cpu_us", "their CPU each"),
    ("heartbeat-50x8", "requests_per_s", "heartbeats, 8 in flight each"),
    ("heartbeat-50x8", "cpu_us", "their CPU each"),
    ("commit-50x1", "requests_per_s", "commits, 50 x 1 partition"),
    ("commit-50x1", "cpu_us", "their CPU each"),
    ("commit-50x20", "requests_per_s", "commits, 50 x 20 partitions"),
    ("commit-50x20", "cpu_us", "their CPU each"),
    ("join-1000", "cold_ms", "group of 1,000, cold start"),
    ("join-1000", "cold_cpu_us", "its CPU for each member"),
    ("join-1000", "rebalance_ms", "group of 1,000, rebalance"),
    ("join-1000", "rebalance_cpu_us", "its CPU for each member"),
    ("storm-500", "groups_per_s", "500 groups of three at once"),
    ("storm-500", "cpu_us", "CPU for each group"),
    ("restart-50", "restarts_per_s", "static restarts, 50 at a time"),
    ("restart-50", "cpu_us", "their CPU each"),
    ("restart-1", "restarts_per_s", "static restarts, one by one"),
    ("restart-1", "cpu_us", "their CPU each"),
    (START, "ready_ms", "start, to the first JoinGroup answered"),
    (START, "cpu_ms", "CPU of the start"),
    (START, "idle_mib", "memory, idle"),
    (START, "members_1000_mib", "memory, 1,000 members"),
)
"""Case, figure, and what the row is called."""
CASES: Final = tuple(dict.fromkeys(case for case, _, _ in ROWS))

Figures = Mapping[tuple[str, str, str], Sequence[float]]
"""Target, case and figure -> one value for each round."""


class Sum(NamedTuple):
    """What one row says. Ratios are of speed: more is better."""

    row: str
    anchor: float
    now: float
    since_anchor: float
    noise: float
    """How far apart two medians of the anchor are, or may be, as a ratio of 1 or more."""
    of_floor: float | None

    @property
    def verdict(self) -> str:
        if self.since_anchor * self.noise < 1:
            return "slower"
        return "faster" if self.since_anchor > self.noise else ""


# -- measuring -------------------------------------------------------------------------------------


def checkout(revision: str) -> tuple[str, Path]:
    """The short hash of a commit, and a folder with its files and a virtual environment of its own,
    made if it is not there. Raises UnavailableError.
    """
    try:
        short = _git("rev-parse", "--short=8", f"{revision}^{{commit}}").decode().strip()
        folder = CHECKOUTS / short
        if not folder.exists():
            with tarfile.open(fileobj=io.BytesIO(_git("archive", short))) as files:
                files.extractall(folder, filter="data")
        print(f"preparing {folder.relative_to(ROOT)}", flush=True)
        subprocess.run(["make", "--silent", ".venv/.server"], cwd=folder, check=True)
        for tree in (folder, ROOT):  # or else one of them compiles its modules at each start
            compiling = [sys.executable, "-m", "compileall", "-q", *_packages(tree)]
            subprocess.run(compiling, cwd=tree, check=True)
    except subprocess.CalledProcessError as error:
        why = (error.stderr or b"").decode().strip()
        raise UnavailableError(f"commit {revision} cannot be measured: {why or error}") from None
    return short, folder


def _packages(tree: Path) -> list[str]:
    return [each.parent.name for each in tree.glob("[a-z]*/__init__.py")]


def _git(*words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True).stdout


def measure(
    targets: Mapping[str, Target], chosen: Sequence[str], rounds: int, seconds: float, base: Path
) -> tuple[Figures, float]:
    """Some rounds of the cases on all targets. Returns the figures, and the most cores that other
    processes used during a run.
    """
    found = defaultdict[tuple[str, str, str], list[float]](list)
    others = 0.0
    for number in range(1, rounds + 1):
        print(f"round {number} of {rounds}:", end="", flush=True)
        names = [*targets][number % len(targets) :] + [*targets][: number % len(targets)]
        in_turn = {name: targets[name] for name in names}
        for name, case, figures, cores in _round(in_turn, chosen, seconds, base / str(number)):
            others = max(others, cores)
            for figure, value in figures.items():
                found[name, case, figure].append(value)
        print(flush=True)
    return found, others


def _round(
    targets: Mapping[str, Target], chosen: Sequence[str], seconds: float, base: Path
) -> Iterator[tuple[str, str, Mapping[str, float], float]]:
    """Target, case, figures and the cores of other processes, for each run of a round."""
    if START in chosen:
        print(f" {START}", end="", flush=True)
        for name, target in targets.items():
            yield name, START, cases.ready(name, base, target), 0.0
    with ExitStack() as stack:
        servers = []
        for name, target in targets.items():
            server = stack.enter_context(running(name, base, target))
            servers.append(server)
            if START in chosen:
                yield name, START, cases.memory(server), 0.0
            create_topic(server)
            warm_up(server, WARM_UP_S)
        for case in (case for case in CASES if case in chosen and case != START):
            print(f" {case}", end="", flush=True)
            for server in (each for each in servers if _has(each, case)):
                run = undisturbed(LOADS[case].load, server, seconds)
                yield server.name, case, run.figures, run.cores.others


def _has(server: Server, case: str) -> bool:
    return not (LOADS[case].groups and server.name in NO_GROUPS)


# -- telling ---------------------------------------------------------------------------------------


def sums(found: Figures) -> list[Sum]:
    """The rows that were measured, of medians over the rounds."""

    def middle(target: str, case: str, figure: str) -> float | None:
        values = found.get((target, case, figure))
        return statistics.median(values) if values else None

    rows = []
    for case, figure, title in ROWS:
        anchor, now, again, floor = (
            middle(each, case, figure) for each in (ANCHORED, NOW, AGAIN, FLOOR)
        )
        if anchor is None or now is None or again is None:
            continue
        between = (anchor * again) ** 0.5
        runs = found[ANCHORED, case, figure], found[AGAIN, case, figure]
        noise = max(anchor / again, again / anchor, _spread(*runs))
        of_floor = None if floor is None else report.ratio(figure, now, floor)
        rows.append(Sum(title, between, now, report.ratio(figure, now, between), noise, of_floor))
    return rows


def _spread(runs: Sequence[float], others: Sequence[float]) -> float:
    """Return how far apart medians may be, as a ratio, by how far the two runs of a round are: two
    medians of a few runs are close to each other by chance, too.
    """
    apart = [abs(math.log(each / other)) for each, other in zip(runs, others, strict=True)]
    return math.exp(statistics.median(apart) * min(1.0, 2 / math.sqrt(len(apart))))


def table(rows: Sequence[Sum], anchor: str) -> str:
    """Markdown."""
    heads = ["", anchor, "now", "as speed", "noise", "of the bare responder", ""]
    return report.table(
        heads,
        [
            [
                each.row,
                report.number(each.anchor),
                report.number(each.now),
                f"{each.since_anchor:.2f}",
                f"{each.noise:.2f}",
                "-" if each.of_floor is None else f"{each.of_floor:.2f}",
                each.verdict,
            ]
            for each in rows
        ],
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.guard",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--anchor", default=ANCHOR, help="the commit to compare with (%(default)s)")
    parser.add_argument("--rounds", type=_at_least(1), default=5, help="medians are of so many (5)")
    parser.add_argument("--seconds", type=float, default=2.0, help="of load in a run (2)")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES, help="some only")
    return parser


def _at_least(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least {least}")
        return int(text)

    return number


def main(words: Sequence[str] | None = None) -> int:
    """Measure, and print the table."""
    options = _parser().parse_args(words)
    raise_file_limit()
    try:
        short, folder = checkout(options.anchor)
        anchored = groupkeeper_of(folder, str(folder / ".venv" / "bin" / "python"))
        targets = {
            ANCHORED: anchored,
            NOW: TARGETS["groupkeeper"],
            FLOOR: TARGETS["floor"],
            AGAIN: anchored,
        }
        with tempfile.TemporaryDirectory(prefix="groupkeeper-guard-") as base, ExitStack() as stack:
            stack.enter_context(on_core(GENERATOR_CORE))
            found, others = measure(
                targets, options.cases, options.rounds, options.seconds, Path(base)
            )
    except (UnavailableError, WrongAnswerError) as error:
        print(f"bench-guard: {error}", file=sys.stderr)
        return 1
    print("\n" + table(sums(found), short))
    if others > DISTURBED:
        print(f"\nOther processes used up to {others:.1f} cores: run it again on a quiet machine.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
