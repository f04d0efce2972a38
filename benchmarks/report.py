"""From figures to RESULTS.md: ratios first, absolute figures after, and what was and was not a fair
run.

Every ratio is oriented so that more is better for Groupkeeper. Pure but for `environment` and
`disk`.
"""

import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from benchmarks.processes import CAN_PIN
from benchmarks.run import COMPACTED, DISTURBED, STARTS, Plan, Results
from benchmarks.targets import file_system

OURS = "groupkeeper"
_NAMES = {"groupkeeper": "Groupkeeper", "floor": "bare responder", "kafka": "Kafka"}

_STARTS = {
    "start-1": "a million records in batches of 1",
    "start-1-compacted": "the same, compacted",
    "start-100": "a million records in batches of 100",
    "start-100-compacted": "the same, compacted",
}

_OF_A_START = (
    ("answers_ms", "until all partitions answer"),
    ("cpu_s", "CPU time"),
    ("log_mib", "segments"),
)

# case -> the figure that speaks for it, and what the row is called
_ROWS: list[tuple[str, str, str]] = [
    ("heartbeat-50", "requests_per_s", "heartbeats/s, 50 connections"),
    ("heartbeat-50", "p99_us", "their 99th percentile"),
    ("heartbeat-500", "requests_per_s", "heartbeats/s, 500 connections"),
    ("heartbeat-50x8", "requests_per_s", "heartbeats/s, 50 connections, 8 in flight each"),
    ("commit-50x1", "requests_per_s", "commits/s, 50 connections, 1 partition"),
    ("commit-50x1", "p99_us", "their 99th percentile"),
    ("commit-50x20", "requests_per_s", "commits/s, 50 connections, 20 partitions"),
    ("commit-50x20", "p99_us", "their 99th percentile"),
    ("join-10", "cold_ms", "group of 10, cold start"),
    ("join-10", "rebalance_ms", "group of 10, rebalance"),
    ("join-100", "cold_ms", "group of 100, cold start"),
    ("join-100", "rebalance_ms", "group of 100, rebalance"),
    ("join-1000", "cold_ms", "group of 1,000, cold start"),
    ("join-1000", "rebalance_ms", "group of 1,000, rebalance"),
    ("storm-500", "groups_per_s", "500 groups of three at once, groups/s"),
    ("restart-1", "restarts_per_s", "static restarts/s, one after another"),
    ("restart-50", "restarts_per_s", "static restarts/s, 50 at a time"),
    ("ready", "ready_ms", "process start to first JoinGroup answered"),
    ("ready", "idle_mib", "resident memory, idle"),
    ("memory", "members_1000_mib", "resident memory, 1,000 members"),
    ("replay", "replay_ms", "start after kill -9 until all offsets are read"),
    *(
        row
        for case, shape in _STARTS.items()
        for row in (
            (case, "answers_ms", f"start after kill -9 from {shape}, until all partitions answer"),
            (case, "cpu_s", "CPU time by then"),
            (case, "replay_ms", "until all offsets are read"),
            (case, "log_mib", "its segments"),
            (case, "first_ms", "until a first commit in an empty partition"),
            (case, "beat_p99_ms", "heartbeats meanwhile, 99th percentile"),
            (case, "beat_worst_ms", "the slowest one"),
            (case, "commit_p99_ms", "commits meanwhile, 99th percentile"),
            (case, "iteration_ms", "longest iteration of the event loop, at most"),
        )
    ),
]


def ratio(figure: str, ours: float, theirs: float) -> float:
    """How many times as good as theirs; figures per second are better large, all others small."""
    return ours / theirs if figure.endswith("_per_s") else theirs / ours


@dataclass(frozen=True, slots=True)
class View:
    """Look-ups in results that may hold only a part."""

    results: Results

    def value(self, case: str, target: str, figure: str) -> float | None:
        return self.results.figures.get(case, {}).get(target, {}).get(figure)

    def against(self, case: str, target: str, figure: str) -> float | None:
        ours, theirs = self.value(case, OURS, figure), self.value(case, target, figure)
        return None if ours is None or theirs is None else ratio(figure, ours, theirs)

    def growth(self, target: str, figure: str) -> float | None:
        """How the cost of one member grows with the group, from 10 to 100 or from 100 to 1,000
        members, whichever is worse. 1.0 is flat, 10.0 would be quadratic.
        """
        costs = [self.value(f"join-{size}", target, figure) for size in (10, 100, 1000)]
        known = [cost for cost in costs if cost is not None]
        if len(known) < len(costs):
            return None
        return max(large / 10 / small for small, large in pairwise(known))

    def compacted(self, case: str, target: str, figure: str) -> float | None:
        """A figure of a start from a compacted log over that from the same log before."""
        before, after = (self.value(name, target, figure) for name in (case, case + COMPACTED))
        return None if before is None or after is None else after / before

    def worst(self, cases: list[str], target: str, figure: str) -> float | None:
        """The largest of several cases."""
        values = [self.value(case, target, figure) for case in cases]
        return max((value for value in values if value is not None), default=None)


# What has to hold: sentence, value, bound, whether the value must be at least (or else at most) the
# bound.
_Expectation = tuple[str, Callable[[View], float | None], float, bool]
_EXPECTED: list[_Expectation] = [
    ("heartbeats, 50 connections, over the bare responder",
     lambda v: v.against("heartbeat-50", "floor", "requests_per_s"), 0.6, True),
    ("heartbeats, 50 connections, over Kafka",
     lambda v: v.against("heartbeat-50", "kafka", "requests_per_s"), 1.0, True),
    ("heartbeats, 8 in flight, over the bare responder",
     lambda v: v.against("heartbeat-50x8", "floor", "requests_per_s"), 0.25, True),
    ("durable commits, 50 x 1, over the bare responder",
     lambda v: v.against("commit-50x1", "floor", "requests_per_s"), 0.2, True),
    ("durable commits, 50 x 20, over Kafka",
     lambda v: v.against("commit-50x20", "kafka", "requests_per_s"), 1.0, True),
    ("group of 1,000, cold start, over Kafka",
     lambda v: v.against("join-1000", "kafka", "cold_ms"), 1 / 1.3, True),
    ("group of 1,000, rebalance, over Kafka",
     lambda v: v.against("join-1000", "kafka", "rebalance_ms"), 1 / 1.3, True),
    ("cold start, growth of the cost per member from 10 to 1,000",
     lambda v: v.growth(OURS, "cold_ms"), 1.2, False),
    ("rebalance, growth of the cost per member from 10 to 1,000",
     lambda v: v.growth(OURS, "rebalance_ms"), 1.2, False),
    ("start from a million records in batches of 1: compacted over not compacted",
     lambda v: v.compacted("start-1", OURS, "answers_ms"), 0.4, False),
    ("start from a million records in batches of 100: compacted over not compacted",
     lambda v: v.compacted("start-100", OURS, "answers_ms"), 0.4, False),
    ("longest iteration of the event loop in these starts, milliseconds",
     lambda v: v.worst(list(_STARTS), OURS, "iteration_ms"), 20, False),
    ("ready, milliseconds", lambda v: v.value("ready", OURS, "ready_ms"), 400, False),
    ("resident memory idle, MiB", lambda v: v.value("ready", OURS, "idle_mib"), 60, False),
]  # fmt: skip


def markdown(results: Results, plan: Plan, environment: dict[str, str]) -> str:
    view = View(results)
    parts = [
        _HEADING,
        _facts(environment),
        _notes(results, plan),
        _ratios(view),
        _expectations(view),
        _compaction(view),
    ]
    parts += [_absolute(view), _generator(view)]
    return "\n\n".join(part for part in parts if part) + "\n"


_HEADING = """# Results

Written by `python -m benchmarks`; [README.md](README.md) says what each figure means. **Read the
ratios.** They hold from machine to machine far better than the absolute figures below them, which
are noise to anybody but the machine they are from. A ratio is Groupkeeper over the other, more is
better for Groupkeeper throughout: 2.0 in a row of milliseconds is half the time."""


def _facts(environment: dict[str, str]) -> str:
    return "\n".join(f"- {name}: {value}" for name, value in environment.items())


def _notes(results: Results, plan: Plan) -> str:
    notes = []
    if not CAN_PIN:
        notes.append(
            "Server and generator **shared their cores**: nothing was pinned, ratios are too flat."
        )
    for target, why in results.missing.items():
        notes.append(f"Without {_NAMES[target]}: {why}.")
    if plan.seconds < 2:
        notes.append("**A quick run**: short, cold, and good for orders of magnitude only.")
    noisy = [
        f"{case} ({_NAMES[target]}: {figures['other_cores']:.2f} cores)"
        for case, targets in results.figures.items()
        for target, figures in targets.items()
        if figures.get("other_cores", 0.0) > DISTURBED
    ]
    if noisy:
        notes.append(
            "Disturbed by other processes in spite of repetition: " + ", ".join(noisy) + "."
        )
    return "\n\n".join(notes)


def table(heads: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(heads) + " |", "|---" + "|---:" * (len(heads) - 1) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def number(value: float) -> str:
    """Three digits are more than any of this is good for."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _ratios(view: View) -> str:
    rows = []
    for case, figure, title in _ROWS:
        cells = [view.against(case, target, figure) for target in ("floor", "kafka")]
        if any(cells):
            rows.append([title, *(f"{cell:.2f}" if cell else "-" for cell in cells)])
    if not rows:
        return ""
    heads = ["Groupkeeper over", "the bare responder", "Kafka's broker"]
    return "## Ratios\n\n" + table(heads, rows)


def _expectations(view: View) -> str:
    rows = []
    for sentence, measure, bound, least in _EXPECTED:
        value = measure(view)
        if value is not None:
            met = value >= bound if least else value <= bound
            wanted = f"{'at least' if least else 'at most'} {bound:.3g}"
            rows.append([sentence, wanted, f"{value:.3g}", "yes" if met else "**no**"])
    if not rows:
        return ""
    return "## What is expected of it\n\n" + table(["", "wanted", "measured", "met"], rows)


def _compaction(view: View) -> str:
    """What compaction does to a start, for each target."""
    rows = []
    for case in STARTS:
        for figure, title in _OF_A_START:
            values = [view.compacted(case, target, figure) for target in (OURS, "kafka")]
            if any(values):
                cells = (f"{value:.2f}" if value else "-" for value in values)
                rows.append([f"{_STARTS[case]}: {title}", *cells])
    heads = ["A start, compacted over not compacted", _NAMES[OURS], _NAMES["kafka"]]
    return "## Compaction\n\n" + table(heads, rows) if rows else ""


def _absolute(view: View) -> str:
    rows = []
    for case, figure, title in _ROWS:
        values = [view.value(case, target, figure) for target in _NAMES]
        if any(values):
            unit = (
                ""
                if figure.endswith("_per_s")
                else " " + figure.rpartition("_")[2].replace("mib", "MiB")
            )
            rows.append([title, *(f"{number(value)}{unit}" if value else "-" for value in values)])
    return "## Absolute figures (noise)\n\n" + table(["", *_NAMES.values()], rows) if rows else ""


def _generator(view: View) -> str:
    """The generator's own use of its core: near 1 it, and not the server, would be the limit."""
    rows = []
    for case, targets in view.results.figures.items():
        cells = []
        for target in _NAMES:
            figures = targets.get(target, {})
            cores, cpu = figures.get("generator_cores"), figures.get("cpu_us")
            cell = "-" if cores is None else f"{cores:.2f}"
            cells.append(cell + (f" / {cpu:.1f} us" if cpu else ""))
        if any(cell != "-" for cell in cells):
            rows.append([case, *cells])
    if not rows:
        return ""
    text = (
        "Cores used by the generator, which has one to itself / CPU time of the server per request,"
        " restart or group."
    )
    return f"## The generator\n\n{text}\n\n" + table(["", *_NAMES.values()], rows)


def environment(command: str) -> dict[str, str]:
    pinned = "server on core 0, generator on core 1" if CAN_PIN else "not pinned"
    return {
        "Date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "Command": f"`{command}`",
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "Kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "Cores": f"{os.cpu_count()}, {pinned}",
    }


def disk(folder: Path, times: int = 50) -> str:
    """File system of the data directories, and what one small fdatasync costs on it."""
    took = []
    path = folder / "sync"
    with path.open("wb", buffering=0) as file:
        for _ in range(times):
            file.write(bytes(4096))
            start = time.perf_counter()
            os.fdatasync(file.fileno())
            took.append(time.perf_counter() - start)
    path.unlink()
    micros = statistics.median(took) * 1e6
    return f"{file_system(folder)}, fdatasync of 4 KiB {micros:,.0f} us (median)"
