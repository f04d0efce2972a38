"""The part of `Broker` and `AsyncBroker` that is about faults."""

from asyncio import to_thread
from collections.abc import Collection
from typing import Unpack

from groupkeeper.testing.bench import Bench
from groupkeeper.testing.effects import Effect
from groupkeeper.testing.faults.rules import Rule, When


class BrokerFaults:
    """Makes rules, and lists them."""

    _bench: Bench

    def fault(self, effect: Effect, **when: Unpack[When]) -> Rule:
        """Let something happen to requests, from now on:

            broker.fault(effects.error("NOT_COORDINATOR"), api="OffsetCommit", group="g", times=2)

        What a rule does not name may be anything. Groups, topics, partitions and members are those
        that the request contains, wherever it has them. A request goes to the first rule that it
        matches. Rules outlive crashes. One that never fired fails the test when the broker's `with`
        statement ends. Raises WrongArgument; see `effects` and docs/testing-faults.md.
        """
        return self._bench.faults.add(effect, when)

    @property
    def faults(self) -> Collection[Rule]:
        """The rules, in order."""
        return self._bench.faults

    def check_faults(self) -> None:
        """Raises RuleNeverFired if a rule never fired, and that was not allowed."""
        self._bench.faults.check()


class AsyncBrokerFaults:
    """The same for coroutines."""

    _bench: Bench

    async def fault(self, effect: Effect, **when: Unpack[When]) -> Rule:
        """See `Broker.fault`."""
        return await to_thread(self._bench.faults.add, effect, when)

    @property
    def faults(self) -> Collection[Rule]:
        """See `Broker.faults`."""
        return self._bench.faults

    def check_faults(self) -> None:
        """See `Broker.check_faults`."""
        self._bench.faults.check()
