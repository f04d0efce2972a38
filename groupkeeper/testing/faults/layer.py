"""The fault rules of a test broker, as a layer around the request handlers.

A request goes to the first rule that it matches, oldest first. If the rule passes the request on,
later rules are tried.
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
    """The fault rules of a broker, oldest first."""

    def __init__(self, bench: Host) -> None:
        self._bench = bench
        self.rules: tuple[Rule, ...] = ()
        self._numbers = count(1)
        self._missed: tuple[Rule, ...] = ()
        """Removed rules that never fired."""
        self._muted: dict[Link, float] = {}
        """Throttled connections, with the loop time until which their next request is held."""

    def add(self, effect: Effect, when: When) -> Rule:
        """Add a rule. Raises WrongArgument, and BrokerDown if the effect needs a running broker."""
        if not isinstance(effect, Effect):
            raise WrongArgument(f"{effect!r} is not an effect of groupkeeper.testing.effects")
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
        """Exclude a removed rule from `check`, because its `with` statement has checked it."""
        self._missed = tuple(each for each in self._missed if each is not rule)

    def clear(self) -> None:
        """Remove all rules without checking them."""
        for rule in self.rules:
            self.remove(rule)
        self._missed = ()

    def check(self) -> None:
        """Raise RuleNeverFired for the first rule, removed or not, that failed to fire."""
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
        """Hold the next request of a connection until some seconds have passed."""
        self._muted = {each: until for each, until in self._muted.items() if not each.closed}
        self._muted[link] = asyncio.get_running_loop().time() + seconds

    def holds(self, link: Link) -> bool:
        """Whether a rule holds a request of the connection until the rule is removed."""
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
