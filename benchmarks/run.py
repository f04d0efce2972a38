"""One run: every case against every target in turn, so that what the machine does meanwhile befalls
all alike.

Decides what is measured when, and how often; what a case is stands in cases.py, what becomes of the
figures in report.py.
"""

import shutil
import statistics
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import backlog, cases
from benchmarks.processes import GENERATOR_CORE, on_core
from benchmarks.targets import Server, UnavailableError, available, create_topic, running

DISTURBED = 0.2  # cores used by other processes above which a run is repeated
_TRIES = 3
_PAUSE_S = 2.0

NO_GROUPS = frozenset({"floor"})  # knows no groups of several and keeps nothing


@dataclass(frozen=True, slots=True)
class Case:
    """`groups`: needs a real coordinator. `rounds`: how often at most, where one run is many
    measurements already.
    """

    load: cases.Load
    groups: bool = False
    rounds: int = 99


LOADS: dict[str, Case] = {
    "heartbeat-50": Case(cases.heartbeats(50)),
    "heartbeat-500": Case(cases.heartbeats(500)),
    "heartbeat-50x8": Case(cases.heartbeats(50, depth=8)),
    "commit-50x1": Case(cases.commits(50, 1)),
    "commit-50x20": Case(cases.commits(50, 20)),
    "join-10": Case(cases.joins(10, 5), groups=True),
    "join-100": Case(cases.joins(100, 3), groups=True),
    "join-1000": Case(cases.joins(1000, 2), groups=True, rounds=2),
    "restart-1": Case(cases.restarts(100, 1), groups=True),
    "restart-50": Case(cases.restarts(100, 50), groups=True),
    "storm-500": Case(cases.storm(500), groups=True, rounds=2),
}
STARTS = {"start-1": 1, "start-100": 100}
"""Starts from a long log, as it is and compacted: records in each of its batches."""
COMPACTED = "-compacted"
"""What the name of such a case ends with in the results."""
OWN_SERVERS = ("ready", "memory", "replay", *STARTS)  # start servers of their own
ALL = ("ready", "memory", *LOADS, "replay", *STARTS)


@dataclass(slots=True)
class Plan:
    """What to run, and for how long."""

    targets: list[str]
    cases: list[str]
    seconds: float = 3.0
    rounds: int = 3
    warm_up_s: dict[str, float] = field(default_factory=dict)
    replay_commits: int = 50_000
    start_records: int = 1_000_000


@dataclass(slots=True)
class Results:
    """Medians by case, target and figure; the generator's and other processes' cores, the worst of
    the rounds.
    """

    figures: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def add(self, case: str, target: str, figures: dict[str, float]) -> None:
        mine = self.figures.setdefault(case, {}).setdefault(target, {})
        mine |= figures
        shown = "  ".join(f"{name}={value:.4g}" for name, value in figures.items())
        print(f"  {case:15} {target:12} {shown}", flush=True)


def execute(plan: Plan, base: Path) -> Results:
    """Runs the plan with data directories below `base`; a wrong answer raises WrongAnswerError."""
    results = Results()
    targets = []
    for name in plan.targets:
        try:
            available(name)
            targets.append(name)
        except UnavailableError as error:
            results.missing[name] = str(error)
            print(f"  without {name}: {error}", flush=True)
    with ExitStack() as stack:
        stack.enter_context(on_core(GENERATOR_CORE))
        if "ready" in plan.cases:
            _ready(plan, targets, base, results)
        _loads(plan, targets, base, results)
        if "replay" in plan.cases:
            for name in (name for name in targets if name not in NO_GROUPS):
                results.add("replay", name, cases.replay(name, base, plan.replay_commits))
        for case in (case for case in STARTS if case in plan.cases):
            _start(case, plan, targets, base, results)
    return results


def _ready(plan: Plan, targets: list[str], base: Path, results: Results) -> None:
    for name in targets:
        runs = [
            cases.ready(name, base) for _ in range(1 if name == "kafka" else 2 * plan.rounds + 1)
        ]
        results.add("ready", name, _medians(runs))


def _start(case: str, plan: Plan, targets: list[str], base: Path, results: Results) -> None:
    """The same files for all; removed at once, as they are large."""
    folder = base / case
    written = backlog.write(folder, plan.start_records, STARTS[case])
    able = [name for name in targets if name not in NO_GROUPS]
    try:
        servers = {name: backlog.prepare(name, base, written) for name in able}
        _starts(case, servers, written, plan, results)
        for name, server in servers.items():
            servers[name] = backlog.compact(server, written)
        _starts(case + COMPACTED, servers, written, plan, results)
    finally:
        shutil.rmtree(folder)


def _starts(
    case: str, servers: dict[str, Server], written: backlog.Backlog, plan: Plan, results: Results
) -> None:
    """Each start follows a kill, and the first one, which does not, is not counted."""
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in servers}
    for _ in range(plan.rounds + 1):
        for name, server in servers.items():
            figures, servers[name] = backlog.start(server, written)
            runs[name].append(figures)
    for name, made in runs.items():
        results.add(case, name, _medians(made[1:]))


def _loads(plan: Plan, targets: list[str], base: Path, results: Results) -> None:
    """All cases that share one server per target."""
    chosen = [name for name in LOADS if name in plan.cases]
    if not chosen and "memory" not in plan.cases:
        return
    with ExitStack() as stack:
        servers = []
        for name in targets:  # one at a time: a start is the hungriest thing a server does
            server = stack.enter_context(running(name, base))
            servers.append(server)
            if "memory" in plan.cases:
                results.add("memory", name, cases.memory(server))
            create_topic(server)
        for server in servers:
            warm_up(server, plan.warm_up_s.get(server.name, 2.0) if chosen else 0.0)
        for case in chosen:
            _case(case, servers, plan, results)


def warm_up(server: Server, seconds: float) -> None:
    """The kinds of load to come, unmeasured, until a just-in-time compiler knows them."""
    end = time.monotonic() + seconds
    kinds = [LOADS[name] for name in ("heartbeat-50", "commit-50x20", "commit-50x1", "restart-50")]
    while time.monotonic() < end:
        for kind in kinds:
            if not (kind.groups and server.name in NO_GROUPS):
                kind.load(server, seconds / 12)
        if server.name not in NO_GROUPS:
            LOADS["join-100"].load(server, 0)


def _case(name: str, servers: list[Server], plan: Plan, results: Results) -> None:
    case = LOADS[name]
    able = [server for server in servers if not (case.groups and server.name in NO_GROUPS)]
    runs: dict[str, list[cases.Run]] = {server.name: [] for server in able}
    for _ in range(min(plan.rounds, case.rounds)):
        for server in able:
            runs[server.name].append(undisturbed(case.load, server, plan.seconds))
    for target, made in runs.items():
        figures = _medians([run.figures for run in made])
        figures["generator_cores"] = max(run.cores.generator for run in made)
        figures["other_cores"] = max(run.cores.others for run in made)
        results.add(name, target, figures)


def undisturbed(load: cases.Load, server: Server, seconds: float) -> cases.Run:
    """Again, a little later, when somebody else was using the machine; the last try counts in any
    case.
    """
    for _ in range(_TRIES - 1):
        run = load(server, seconds)
        if run.cores.others <= DISTURBED:
            return run
        time.sleep(_PAUSE_S)
    return load(server, seconds)


def _medians(runs: list[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}
