"""A Kafka broker in the process of a test: `Broker` to call, `AsyncBroker` to await."""

import asyncio
from collections.abc import Collection, Mapping
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Self, Unpack

from groupkeeper.settings.options import format_address
from groupkeeper.testing.bench import Bench
from groupkeeper.testing.effects import Effect
from groupkeeper.testing.rules import Rule, When


class Broker:
    """A broker on a thread of its own, with a port on the loopback address.

        with Broker(topics={"orders": 6}) as broker:
            consumer = KafkaConsumer("orders", bootstrap_servers=broker.bootstrap_servers)

    In a coroutine, `async with Broker(...) as broker` gives an `AsyncBroker`; `broker.aio` is that
    of a broker that runs.
    """

    def __init__(
        self,
        topics: Mapping[str, int] | None = None,
        *,
        settings: Mapping[str, Any] | None = None,
        data: str | PathLike[str] | None = None,
        as_version: str | None = None,
    ) -> None:
        """`topics`: names and numbers of partitions. `settings`: as of `groupkeeper serve --dev`,
        under Kafka's names. `data`: a data directory; None keeps everything in memory.
        `as_version`: serve the versions of APIs that this release of Kafka serves: 2.8, 3.9 or 4.1.

        Raises SettingsError and WrongArgument. Any: the values of settings.
        """
        where = None if data is None else Path(data)
        self._bench = Bench(topics, settings, where, as_version)
        self.aio = AsyncBroker(self._bench)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        if kind is None:
            self._bench.faults.check()

    async def __aenter__(self) -> "AsyncBroker":
        self.start()
        return self.aio

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, trace)

    # -- its life ------------------------------------------------------------------------------

    def start(self) -> None:
        """Start. Raises StorageError and OSError if its data directory cannot be used."""
        self._bench.start()

    def stop(self) -> None:
        """End in good order; no error if it does not run."""
        self._bench.stop()

    def crash(self) -> None:
        """End as by `kill -9`: nothing more is written or answered, and connections break. What was
        acknowledged survives, in memory too. Raises BrokerDown.
        """
        self._bench.crash()

    def restart(self) -> None:
        """Start again on the same port, with what was written; crash first if it runs."""
        if self._bench.is_up:
            self._bench.crash()
        self._bench.start()

    def reset(self) -> None:
        """Forget all but the topics of the start; connections break, port and cluster id stay.

        Raises RequestFailed if the broker has a data directory.
        """
        self._bench.reset()

    # -- faults --------------------------------------------------------------------------------

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

    # -- what it is ----------------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """`HOST:PORT`, as clients take it. Raises BrokerDown before the first start."""
        return format_address(self._bench.address)

    @property
    def cluster_id(self) -> str:
        """As Metadata responses have it."""
        return self._bench.cluster_id


class AsyncBroker:
    """The same broker for coroutines: what takes time is awaited."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    @property
    def bootstrap_servers(self) -> str:
        """See `Broker.bootstrap_servers`."""
        return format_address(self._bench.address)

    # -- faults --------------------------------------------------------------------------------

    async def fault(self, effect: Effect, **when: Unpack[When]) -> Rule:
        """See `Broker.fault`."""
        return await asyncio.to_thread(self._bench.faults.add, effect, when)

    @property
    def faults(self) -> Collection[Rule]:
        """See `Broker.faults`."""
        return self._bench.faults
