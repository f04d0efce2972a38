"""Effects on the process and its disk."""

from dataclasses import dataclass, field
from typing import Self

from groupkeeper.testing.faults.rules import Effect, Ground, Hit, Rule
from groupkeeper.testing.tap import Answer


@dataclass(frozen=True, repr=False)
class Crash(Effect):
    """The broker ends as by `kill -9`."""

    when_durable: bool

    def __repr__(self) -> str:
        return f"crash_{'when' if self.when_durable else 'before'}_durable()"

    def apply(self, hit: Hit) -> None:
        def crash(_: Answer) -> None:
            hit.bench.crash_here()
            hit.count()  # now `restart` knows that it has crashed

        if self.when_durable:  # an answer leaves when all that was written for it is durable
            hit.exchange.on_answer(crash)
            hit.proceed()
        else:
            crash(None)


@dataclass(frozen=True, repr=False)
class DiskFull(Effect):
    """Nothing can be written any more."""

    name = "disk_full"
    rule: Rule | None = field(default=None, repr=False, compare=False)
    apis = ()

    def arm(self, rule: Rule, bench: Ground) -> Self:
        bench.disk_full += (rule.hit,)
        return type(self)(rule)

    def disarm(self, bench: Ground) -> None:
        assert self.rule is not None, "armed"
        bench.disk_full = tuple(told for told in bench.disk_full if told != self.rule.hit)
        if not bench.disk_full:
            bench.disk_has_room()
