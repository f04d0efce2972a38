"""A Kafka broker in the process of a test: `Broker` to call, `AsyncBroker` to await."""

from asyncio import wrap_future
from collections.abc import Collection, Mapping
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from groupkeeper.settings.options import format_address
from groupkeeper.testing.bench import Bench
from groupkeeper.testing.time_control import TIMEOUT_S


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
    ) -> None:
        """`topics`: names and numbers of partitions. `settings`: as of `groupkeeper serve --dev`,
        under Kafka's names. `data`: a data directory; None keeps everything in memory.

        Raises SettingsError. Any: the values of settings.
        """
        self._bench = Bench(topics, settings, None if data is None else Path(data))
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

    async def __aenter__(self) -> "AsyncBroker":
        self.start()
        return self.aio

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

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

    # -- time ----------------------------------------------------------------------------------

    def advance(
        self,
        seconds: float,
        *,
        silent: Collection[str] = (),
        all: bool = False,  # noqa: A002  # reads as a sentence
        timeout: float = TIMEOUT_S,
    ) -> None:
        """Move the broker's time ahead, through all that is due until then, in order: sessions,
        rebalance timeouts, expired offsets, retention.

        Members whose connection is open and whose heartbeats came until now stay, as if they went
        on, but for those that `silent` names (by member, instance or client id; `all`: all of
        them). When a group waits for members that stay, time waits for them, each time for
        `timeout` real seconds at most. Of a broker that does not run, only the time moves on.

        Raises TypeError, ValueError, and RequestFailed if `silent` names no member.
        """
        self._bench.advance(seconds, silent, all, timeout).result()

    def freeze(self) -> None:
        """Let time stand still for groups, offsets and retention; no error if it does. Requests are
        answered, and Fetch requests wait, as ever.
        """
        self._bench.freeze().result()

    def resume(self) -> None:
        """Let time run again, from where it stands; no error if it runs."""
        self._bench.resume().result()

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

    # -- time ----------------------------------------------------------------------------------

    async def advance(
        self,
        seconds: float,
        *,
        silent: Collection[str] = (),
        all: bool = False,  # noqa: A002  # as `Broker.advance`
        timeout: float = TIMEOUT_S,  # noqa: ASYNC109  # bounds waits on the way, not the call
    ) -> None:
        """See `Broker.advance`."""
        await wrap_future(self._bench.advance(seconds, silent, all, timeout))

    async def freeze(self) -> None:
        """See `Broker.freeze`."""
        await wrap_future(self._bench.freeze())

    async def resume(self) -> None:
        """See `Broker.resume`."""
        await wrap_future(self._bench.resume())
