"""Effects on the process and its disk."""

from dataclasses import dataclass
from typing import Self

from groupkeeper.testing.faults.rules import Effect, Hit, Rule
from groupkeeper.testing.wire.tap import Answer


@dataclass(repr=False)
class Crash(Effect):
    """The broker ends as by `kill -9`."""

    when_durable: bool

    def __repr__(self) -> str:
        return f"crash_{'when' if self.when_durable else 'before'}_durable()"

    def apply(self, hit: Hit) -> None:
        def crash(_: Answer) -> None:
            hit.rule.bench.crash_here()
            hit.count()  # now `restart` knows that it has crashed

        if self.when_durable:  # an answer leaves when all that was written for it is durable
            hit.exchange.on_answer(crash)
            hit.proceed()
        else:
            crash(None)


@dataclass(repr=False)
class DiskFull(Effect):
    """Fail everything that would grow a file, until the rule is removed: then groups are loaded
    again, and `remove` waits for that. It takes no conditions, and fires with each call that fails.
    """

    name = "disk_full"
    apis = ()

    def arm(self, rule: Rule) -> Self:
        rule.bench.disk_full += (rule.hit,)
        return self

    def disarm(self, rule: Rule) -> None:
        bench = rule.bench
        bench.disk_full = tuple(told for told in bench.disk_full if told != rule.hit)
        if not bench.disk_full:
            bench.disk_has_room()
