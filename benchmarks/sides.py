"""Servers with different settings side by side: in each round, each case on all of them in turn."""

import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks import cases, report
from benchmarks.processes import GENERATOR_CORE, on_core
from benchmarks.run import DISTURBED, undisturbed, warm_up
from benchmarks.targets import ROOT, Server, Settings, Target, create_topic, groupkeeper_of, running

OFF, ON, AGAIN = "off", "on", "off again"
RATE: Final = "requests_per_s"


class Sides(NamedTuple):
    """Requests per second."""

    case: str
    off: float
    on: float
    noise: float
    """How far two servers without the settings are apart, as a ratio of 1 or more."""

    @property
    def ratio(self) -> float:
        return self.on / self.off


def groupkeeper_with(settings: Settings) -> Target:
    """This checkout's server, with settings besides those of a benchmark."""
    plain = groupkeeper_of(ROOT, sys.executable)
    return Target(lambda port, folder, more: plain.command(port, folder, {**more, **settings}))


def compare(
    settings: Settings,
    loads: Mapping[str, cases.Load],
    rounds: int,
    seconds: float,
    base: Path,
    prepare: Callable[[Server], None] = lambda server: None,
) -> list[Sides]:
    """Compare a server with these settings, which `prepare` readies, with two without them; prints
    a table, one row a case.
    """
    targets = {
        OFF: groupkeeper_with({}),
        ON: groupkeeper_with(settings),
        AGAIN: groupkeeper_with({}),
    }
    found = defaultdict[tuple[str, str], list[float]](list)
    others = 0.0
    with ExitStack() as stack:
        stack.enter_context(on_core(GENERATOR_CORE))
        servers = [
            stack.enter_context(running(name, base, target)) for name, target in targets.items()
        ]
        for server in servers:
            create_topic(server)
            if server.name == ON:
                prepare(server)
            warm_up(server, 1.0)
        for number in range(1, rounds + 1):
            print(f"round {number} of {rounds}", file=sys.stderr, flush=True)
            for case, load in loads.items():
                for server in servers:
                    run = undisturbed(load, server, seconds)
                    found[case, server.name].append(run.figures[RATE])
                    others = max(others, run.cores.others)
    sides = [_sides(case, found) for case in loads]
    print(_table(sides))
    if others > DISTURBED:
        print(f"\nOther processes used up to {others:.1f} cores: run it again on a quiet machine.")
    return sides


def _sides(case: str, found: Mapping[tuple[str, str], Sequence[float]]) -> Sides:
    off, on, again = (statistics.median(found[case, each]) for each in (OFF, ON, AGAIN))
    return Sides(case, (off * again) ** 0.5, on, max(off / again, again / off))


def _table(sides: Sequence[Sides]) -> str:
    rows = [
        [each.case, report.number(each.off), report.number(each.on), *_ratios(each)]
        for each in sides
    ]
    return report.table(["requests per second", "off", "on", "on / off", "noise"], rows)


def _ratios(sides: Sides) -> list[str]:
    return [f"{sides.ratio:.2f}", f"{sides.noise:.2f}"]
