"""`python -m benchmarks.stages`: where the processor time of a request goes, by stage.

    python -m benchmarks.stages                       # all cases, some three minutes
    python -m benchmarks.stages --cases storm-500

Each case is run twice on the same server: once to measure how much processor time the server uses
for each request or group, and in which threads; and once more while py-spy samples the stacks of
those that hold the interpreter's lock, which divides the time of a thread. A sample belongs to the
innermost function whose module has a stage; see `STAGES`. A garbage collection that an allocation
starts belongs to the stage of the allocation.

py-spy sees other threads far less often than the main one, so samples are compared only with those
of the same kind of thread; and it takes some that wait for work.

The result is docs/profile.md. Needs Linux, and to be allowed to trace the server.
"""

import argparse
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks import report
from benchmarks.processes import GENERATOR_CORE, on_core, raise_file_limit, thread_times
from benchmarks.run import LOADS, warm_up
from benchmarks.targets import TARGETS, Server, UnavailableError, create_topic, running

RATE_HZ: Final = 499
SECONDS: Final = 4.0
"""How long cases that have no end of their own are sampled."""
PY_SPY: Final = Path(sys.executable).parent / "py-spy"
WARM_UP_S: Final = 1.0

STAGES: Final[Mapping[str, Sequence[str]]] = {
    stage: modules.split()
    for stage, modules in {
        "selector": "selectors.py server/loop.py",
        "asyncio": "asyncio/ concurrent/ threading.py socket.py weakref.py",
        "connections": "connections/ turns.py clock.py",
        "decode requests": "<decode> protocol/framing.py",
        "encode answers": "<encode-response>",
        "partitions": """
            apis/ groups/driver.py groups/reply_queue.py groups/deadline_alarm.py
            groups/group_partitions.py coordinator/partition.py coordinator/gate.py
            coordinator/replies.py coordinator/deadlines.py""",
        "causes": """
            coordinator/causes.py coordinator/likely.py coordinator/liveness.py""",
        "facts": "coordinator/facts.py coordinator/step.py",
        "decisions": "coordinator/",
        "counters": "observe/metrics.py observe/fact_readers.py observe/fact_counters.py",
        "events: limits": "groups/event_budget.py groups/event_limits.py",
        "events: made and encoded": """
            groups/event_ observe/events.py observe/assigned.py protocol/group_events.py
            protocol/timed_batch.py storage/log/queued_log.py""",
        "log lines": "observe/",
        "encode records": "<encode> protocol/record_batch.py protocol/mapped.py",
        "journal and segments": "storage/ groups/writer.py groups/embedded_log.py",
        "garbage collections": "server/collector.py",
    }.items()
}
"""Stage -> what the module of a function of it begins with, below its package. The first that
fits."""
WAITS: Final = ("_worker (concurrent/futures/", "Listener._next (", "_serve (groupkeeper/topics/")
"""Innermost functions of threads that have nothing to do."""
KERNEL: Final = "system calls, in the kernel"
OTHER: Final = "everything else"


class Case(NamedTuple):
    """What is sampled, and how often one run of it is repeated."""

    name: str
    unit: str
    figure: str
    """The processor time in microseconds for each unit, in the figures of the case."""
    repeats: int = 1


CASES: Final = (
    Case("heartbeat-50", "heartbeat", "cpu_us"),
    Case("commit-50x1", "commit of one partition", "cpu_us"),
    Case("commit-50x20", "commit of 20 partitions", "cpu_us"),
    Case("join-1000", "member of a group of 1,000, cold start", "cold_cpu_us", 4),
    Case("storm-500", "group of three", "cpu_us", 16),
    Case("restart-50", "static restart", "cpu_us"),
)


class Profile(NamedTuple):
    """One case: microseconds for each unit, in all and by stage."""

    case: Case
    total_us: float
    floor_us: float | None
    """What the bare responder uses for the same, if it can."""
    stages_us: Mapping[str, float]


# -- stacks ----------------------------------------------------------------------------------------


def stage_of(stack: str) -> str:
    """The stage of a stack as py-spy writes it: `function (file:line);...`, outermost first."""
    for frame in reversed(stack.split(";")):
        module = _module(frame)
        for stage, modules in STAGES.items():
            if module.startswith(tuple(modules)):
                return stage
    return OTHER


def _module(frame: str) -> str:
    """`connections/stream.py`; `<encode-response>` for generated code."""
    file = frame.rpartition(" (")[2].rpartition(":")[0]
    if file.startswith("<"):
        kinds = (kind for kind in ("decode", "encode response", "encode") if f" {kind}" in file)
        return f"<{next(kinds, file).replace(' ', '-')}>"
    return file.removeprefix("groupkeeper/")


def shares_of(lines: Sequence[str], *, main: bool) -> dict[str, float]:
    """The share of each stage of the main thread, or of the others together, by py-spy's raw lines:
    a stack, a space and a number of samples.
    """
    counted = Counter[str]()
    for line in lines:
        stack, _, count = line.rstrip().rpartition(" ")
        waits = stack.rpartition(";")[2].startswith(WAITS)
        if not waits and stack.startswith("Thread._bootstrap") is not main:
            counted[stage_of(stack)] += int(count)
    total = counted.total() or 1
    return {stage: count / total for stage, count in counted.most_common()}


# -- measuring -------------------------------------------------------------------------------------


def sampled(server: Server, case: Case, base: Path) -> list[str]:
    """Runs a case; py-spy's raw lines."""
    raw = base / f"{case.name}.stacks"
    words = [str(PY_SPY), "record", "--gil", "-p", str(server.pid), "-r", str(RATE_HZ), "-f", "raw"]
    with (base / "py-spy.txt").open("w+") as said:
        spy = subprocess.Popen([*words, "-o", str(raw)], stdout=said, stderr=said)
        time.sleep(1)
        if spy.poll() is None:
            for _ in range(case.repeats):
                LOADS[case.name].load(server, SECONDS)
        spy.send_signal(signal.SIGINT)
        spy.wait()
        if not raw.exists():
            said.seek(0)
            raise UnavailableError(f"py-spy: {said.read().strip()[-300:]}")
    return raw.read_text().splitlines()


def profile(case: Case, base: Path) -> Profile:
    """Measures and samples one case."""
    load, floor_us = LOADS[case.name].load, None
    with running("groupkeeper", base, TARGETS["groupkeeper"]) as server:
        create_topic(server)
        warm_up(server, WARM_UP_S)
        before = thread_times(server.pid)
        runs = [load(server, SECONDS).figures[case.figure] for _ in range(case.repeats)]
        times = [now - then for now, then in zip(thread_times(server.pid), before, strict=True)]
        lines = sampled(server, case, base)
    if not LOADS[case.name].groups:
        with running("floor", base, TARGETS["floor"]) as server:
            floor_us = load(server, SECONDS).figures[case.figure]
    total_us = statistics.median(runs)
    main_us, others_us, kernel_us = (total_us * each / sum(times) for each in times)
    stages: dict[str, float] = {KERNEL: kernel_us}
    for thread_us, main in ((main_us, True), (others_us, False)):
        for stage, share in shares_of(lines, main=main).items():
            stages[stage] = stages.get(stage, 0.0) + thread_us * share
    return Profile(case, total_us, floor_us, stages)


def table(profiles: Sequence[Profile]) -> str:
    """Microseconds of each stage, one column for each case, in Markdown."""
    rows = [
        [stage, *(f"{each.stages_us.get(stage, 0.0):.1f}" for each in profiles)]
        for stage in (KERNEL, *STAGES, OTHER)
        if any(each.stages_us.get(stage) for each in profiles)
    ]
    rows.append(["**in all**", *(f"{each.total_us:.1f}" for each in profiles)])
    floors = ("" if each.floor_us is None else f"{each.floor_us:.1f}" for each in profiles)
    rows.append(["a bare responder", *floors])
    return report.table(["Microseconds for one", *(each.case.unit for each in profiles)], rows)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.stages", description=__doc__.split("\n")[0])
    names = [case.name for case in CASES]
    parser.add_argument("--cases", nargs="+", choices=names, default=names, metavar="CASE")
    chosen = parser.parse_args(words).cases
    raise_file_limit()
    try:
        with tempfile.TemporaryDirectory(prefix="gk-stages-") as base, on_core(GENERATOR_CORE):
            profiles = [profile(case, Path(base)) for case in CASES if case.name in chosen]
    except UnavailableError as error:
        print(f"stages: {error}", file=sys.stderr)
        return 1
    print(table(profiles))
    return 0


if __name__ == "__main__":
    sys.exit(main())
