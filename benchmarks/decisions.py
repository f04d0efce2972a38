"""What a decision of access control costs, for secure.py.

Times single decisions with 100,000 ACLs, also right after a change, and the changes themselves:
1,000 teams, whose topics and groups have literal ACLs and, for a quarter, prefixed ones of one or
two levels, for 7,001 principals. Each number is the median of some runs.
"""

import random
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from groupkeeper.access.acls import Acl, PatternKind, Permission
from groupkeeper.access.authorizer import Authorizer
from groupkeeper.protocol.acl_codes import Operation, ResourceKind

ACLS: Final = 100_000
TEAMS: Final = 1_000
PRINCIPALS: Final = 7_001
AREAS: Final = 13
DECISIONS: Final = 20_000
RUNS: Final = 5

DECISION_US: Final = 20.0
"""Longest median of a decision, in microseconds."""
CHANGED_US: Final = 100.0
"""Longest p99 of the first decision after a change."""


class Quantiles(NamedTuple):
    """Times in microseconds."""

    p50: float
    p99: float


def acls(count: int, chance: random.Random) -> Iterator[Acl]:
    """Yield the ACLs of teams."""
    operations = Operation.READ, Operation.WRITE, Operation.DESCRIBE
    for at in range(count):
        kind = ResourceKind.TOPIC if at % 5 else ResourceKind.GROUP
        name, pattern = f"team-{at % TEAMS}.", PatternKind.PREFIXED
        if at % 8:
            name += f"area-{at % AREAS}."
        if at % 4:
            name, pattern = f"{name}orders-{at}", PatternKind.LITERAL
        who = f"User:service-{at % PRINCIPALS}"
        yield Acl(kind, name, pattern, who, "*", chance.choice(operations), Permission.ALLOW)


def timed(calls: Iterator[tuple[Callable[[], object], Callable[[], object]]]) -> Quantiles:
    """Time the second one of each pair, after the first one."""
    times = []
    for before, call in calls:
        before()
        began = time.perf_counter()
        call()
        times.append((time.perf_counter() - began) * 1e6)
    cuts = statistics.quantiles(times, n=100)
    return Quantiles(cuts[49], cuts[98])


class Bench:
    """An authorizer with many ACLs, and random resources that they are about."""

    def __init__(self, count: int, chance: random.Random) -> None:
        self._chance = chance
        self.authorizer = Authorizer()
        self._acls = list(acls(count, chance))
        for acl in self._acls:
            self.authorizer.add(acl)

    def _decision(self, acl: Acl) -> Callable[[], object]:
        name = acl.name + "x" if acl.pattern == PatternKind.PREFIXED else acl.name
        asked = acl.principal, "10.0.0.1", Operation.READ, acl.resource, name
        return lambda: self.authorizer.allows(*asked)

    def decisions(self, count: int) -> Quantiles:
        chosen = (self._chance.choice(self._acls) for _ in range(count))
        return timed((_nothing, self._decision(acl)) for acl in chosen)

    def after_changes(self, count: int) -> tuple[Quantiles, Quantiles]:
        """Return times of decisions right after a change, and times of changes."""
        chosen = [self._chance.choice(self._acls) for _ in range(count // 2)]
        authorizer, decided, changed = self.authorizer, [], []
        for acl in chosen:
            for change in (authorizer.remove, authorizer.add):
                changed.append((_nothing, lambda change=change, acl=acl: change(acl)))
                decided.append((changed[-1][1], self._decision(acl)))
        return timed(iter(decided)), timed(iter(changed))


def _nothing() -> None:
    return None


def _median(runs: list[Quantiles]) -> Quantiles:
    return Quantiles(*(statistics.median(each) for each in zip(*runs, strict=True)))


def measure(count: int, decisions: int, runs: int) -> list[str]:
    """Print the times, and return what is slower than promised."""
    chance = random.Random(0)  # noqa: S311  # the same in every run
    bench = Bench(count, chance)
    plain, after, changes = [], [], []
    for _ in range(runs):
        plain.append(bench.decisions(decisions))
        decided, changed = bench.after_changes(decisions)
        after.append(decided)
        changes.append(changed)
    found = {"a decision": plain, "after a change": after, "a change": changes}
    for what, each in found.items():
        p50, p99 = _median(each)
        print(f"{what:16} p50 {p50:6.1f} us   p99 {p99:6.1f} us")
    slow = []
    if (usual := _median(plain).p50) > DECISION_US:
        slow.append(f"a decision: p50 {usual:.1f} us of {DECISION_US:.0f}")
    if (first := _median(after).p99) > CHANGED_US:
        slow.append(f"a decision after a change: p99 {first:.1f} us of {CHANGED_US:.0f}")
    return slow
