"""The fault rules of a broker, as a layer around the handlers.

A request goes to the first rule that it matches, in the order in which the rules were made; what
that rule passes on goes to the next ones.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from itertools import count

from groupkeeper.coordinator.caller import Link
from groupkeeper.testing.errors import WrongArgument
from groupkeeper.testing.faults.entries import RequestItem, entries_of, matches
from groupkeeper.testing.faults.rules import Effect, Hit, Rule, When
from groupkeeper.testing.host import Host
from groupkeeper.testing.wire.tap import Exchange


class Faults:
    """The rules of a broker, in order."""

    def __init__(self, bench: Host) -> None:
        self._bench = bench
        self.rules: tuple[Rule, ...] = ()
        self._numbers = count(1)
        self._missed: tuple[Rule, ...] = ()
        """Removed rules that never fired."""
        self._muted: dict[Link, float] = {}
        """Connections of which no request is handled until a time of the loop."""

    def add(self, effect: Effect, when: When) -> Rule:
        """Make a rule. Raises WrongArgument, and BrokerDown if the effect needs a broker."""
        if not isinstance(effect, Effect):
            raise WrongArgument(f"{effect!r} is no effect: call one of groupkeeper.testing.effects")
        rule = Rule(effect, when, self._bench, next(self._numbers))
        self.rules += (rule,)
        return rule

    def remove(self, rule: Rule) -> None:
        """See `Rule.remove`."""
        if rule in self.rules:
            self.rules = tuple(each for each in self.rules if each is not rule)
            if not rule.hits and not rule.may_miss:
                self._missed += (rule,)
            rule.effect.disarm(rule)

    def forget(self, rule: Rule) -> None:
        """Do not check it at the end: it was checked."""
        self._missed = tuple(each for each in self._missed if each is not rule)

    def clear(self) -> None:
        """Remove all rules, and forget them."""
        for rule in self.rules:
            self.remove(rule)
        self._missed = ()

    def check(self) -> None:
        """Raises RuleNeverFired for the first rule, removed or not, that never fired and had to."""
        for rule in (*self._missed, *self.rules):
            rule.check()

    # -- on the broker's loop ------------------------------------------------------------------

    def take(self, exchange: Exchange, proceed: Callable[[], None]) -> None:
        """See `Layer.take`."""
        until = self._muted.pop(exchange.caller.peer.link, None) if self._muted else None
        if until is None:
            self._take(exchange, proceed, self.rules)
        else:
            loop = asyncio.get_running_loop()
            loop.call_at(until, self._take, exchange, proceed, self.rules)

    def mute(self, link: Link, seconds: float) -> None:
        """Handle the next request of a connection only after so long."""
        self._muted = {each: until for each, until in self._muted.items() if not each.closed}
        self._muted[link] = asyncio.get_running_loop().time() + seconds

    def holds(self, link: Link) -> bool:
        """Whether a request on that connection waits until a rule is removed."""
        return any(rule.effect.holds(link) for rule in self.rules)

    def _take(
        self, exchange: Exchange, proceed: Callable[[], None], rules: tuple[Rule, ...]
    ) -> None:
        root: RequestItem | None = None
        for at, rule in enumerate(rules):
            if not rule.may_fire(exchange):
                continue
            if root is None:
                topics = self._bench.topics_by_id
                root = entries_of(exchange.request, exchange.caller.api_version, topics)
            if not matches(root, rule.wanted):
                continue
            later = rules[at + 1 :]
            then = partial(self._take, exchange, proceed, later)
            hit = Hit(exchange, then, root, rule)
            if rule.effect.concerns(hit) and rule.fires():
                rule.effect.apply(hit)
                return
        proceed()
