"""Effects that crash the broker or fill its disk."""

from dataclasses import dataclass

from groupkeeper.testing.faults.rules import Effect, Hit, Rule
from groupkeeper.testing.faults.streams import Drop


class Crash(Drop):
    """Crash the broker as by `kill -9`; with `handled=True` when the response could be sent, that
    is, when the request's writes are durable.
    """

    def __repr__(self) -> str:
        return f"crash_{'when' if self.handled else 'before'}_durable()"

    def strike(self, hit: Hit) -> None:
        hit.rule.bench.crash_here()
        hit.count()  # after the crash, so that a waiting test can call `restart`


@dataclass(repr=False)
class DiskFull(Effect):
    """Fail all operations that grow a file, until the rule is removed; `remove` then waits until
    the groups are loaded again. The rule takes no conditions, and fires for each failed operation.
    """

    apis = ()

    def arm(self, rule: Rule) -> None:
        rule.bench.disk_full += (rule.hit,)

    def disarm(self, rule: Rule) -> None:
        bench = rule.bench
        bench.disk_full = tuple(told for told in bench.disk_full if told != rule.hit)
        if not bench.disk_full:
            bench.disk_has_room()
