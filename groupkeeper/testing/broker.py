"""A Kafka broker in the process of a test, to be called: `Broker` without its coroutines."""

from collections.abc import Collection, Mapping
from os import PathLike
from types import TracebackType
from typing import Any, Self
from weakref import finalize

from groupkeeper.testing import arguments
from groupkeeper.testing.bench import Bench
from groupkeeper.testing.broker_faults import BrokerFaults
from groupkeeper.testing.broker_records import BrokerRecords
from groupkeeper.testing.broker_sight import BrokerSight
from groupkeeper.testing.cluster.nodes import Node
from groupkeeper.testing.group import Group
from groupkeeper.testing.time.control import TIMEOUT_S


class BlockingBroker(BrokerFaults, BrokerRecords, BrokerSight):
    """What a `Broker` does when it is called."""

    def __init__(
        self,
        topics: Mapping[str, int] | None = None,
        *,
        settings: Mapping[str, Any] | None = None,
        data: str | PathLike[str] | None = None,
        brokers: int = 1,
        as_version: str | None = None,
    ) -> None:
        """`topics`: names and numbers of partitions. `settings`: as of `groupkeeper serve --dev`,
        under Kafka's names. `data`: a data directory; None keeps everything in memory. `brokers`:
        as many nodes, with ids from 0, and a port each; see `node`. `as_version`: serve the
        versions of APIs that this release of Kafka serves: 2.8, 3.9 or 4.1.

        One that is not stopped ends when it is collected as garbage, with a ResourceWarning, also
        if groups and nodes of it are still in use.

        Raises SettingsError, RequestFailed, WrongArgument, TypeError, ValueError.
        Any: the values of settings.
        """
        where = arguments.folder(data)
        self._bench = Bench(topics, settings, where, brokers, as_version)
        finalize(self, self._bench.forsake).atexit = False

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

    # -- its life ------------------------------------------------------------------------------

    def start(self) -> None:
        """Start. Raises RequestFailed if it runs, StorageError and OSError if its data directory
        cannot be used.
        """
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
        """Forget all but the topics of the start; connections break, port and cluster id stay. Time
        is the machine's again, and runs.

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

        In a coroutine, await `broker.aio.advance` instead: clients on its event loop cannot answer
        meanwhile. A RuntimeWarning says so when members were waited for in vain.

        Raises TypeError, ValueError, and RequestFailed if `silent` names no member.
        """
        self._bench.time_control.advance(seconds, silent, all, timeout)

    def freeze(self) -> None:
        """Let time stand still for groups, offsets and retention; no error if it does. Requests are
        answered, and Fetch requests wait, as ever.
        """
        self._bench.time_control.freeze()

    def resume(self) -> None:
        """Let time run again, from where it stands; no error if it runs."""
        self._bench.time_control.resume()

    # -- groups --------------------------------------------------------------------------------

    def group(self, group_id: str) -> Group:
        """A group, whether it exists or not: to look at, to wait for, to act on."""
        return Group(self._bench.sights, self._bench.waits, group_id)

    # -- what it is ----------------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """`HOST:PORT` of each node that runs, as clients take it.

        Raises BrokerDown before the first start.
        """
        return self._bench.bootstrap_servers

    @property
    def cluster_id(self) -> str:
        """As Metadata responses have it."""
        return self._bench.cluster_id

    # -- nodes ---------------------------------------------------------------------------------

    def node(self, node_id: int) -> Node:
        """One of `brokers=`, by its id from 0. Raises RequestFailed if there is none."""
        return Node(self._bench, node_id)

    @property
    def nodes(self) -> list[Node]:
        """All, whether they run or not."""
        return [Node(self._bench, node_id) for node_id in range(self._bench.cluster.size)]

    def coordinator(self, group: str) -> int:
        """The id of the node that coordinates a group. Raises BrokerDown."""
        arguments.text(group, "a group's id")
        return self._bench.running.call(lambda: self._bench.cluster.coordinator(group))

    def leader(self, topic: str, partition: int) -> int:
        """The id of the node that leads a partition. Raises BrokerDown, RequestFailed."""
        return self._bench.running.call(lambda: self._bench.cluster.leader_of(topic, partition))

    def move_coordinator(self, group: str, *, to: int) -> None:
        """Let another node coordinate a group, and all others in its partition of
        `__consumer_offsets`, as in a failover: requests that wait get NOT_COORDINATOR, and the
        groups are loaded from the log, with their members. Returns when they are.

        Raises BrokerDown, and RequestFailed if that node does not run.
        """
        arguments.text(group, "a group's id")
        self._bench.run(lambda: self._bench.cluster.move_coordinator(group, to))

    def move_leader(self, topic: str, partition: int, *, to: int) -> None:
        """Let another node lead a partition, in a new leader epoch. Raises as above."""
        self._bench.run(lambda: self._bench.cluster.move_leader(topic, partition, to))
