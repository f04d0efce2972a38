"""A Kafka broker in the process of a test, to be called: `Broker` without its coroutines."""

from collections.abc import Collection, Iterable, Mapping
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Self, Unpack

from groupkeeper.observe.log_writer import readable
from groupkeeper.testing.bench import Bench
from groupkeeper.testing.effects import Effect
from groupkeeper.testing.group import Group
from groupkeeper.testing.nodes import Node
from groupkeeper.testing.rules import Rule, When
from groupkeeper.testing.seeding import Data, Headers, Record, timed, timed_ones
from groupkeeper.testing.time_control import TIMEOUT_S


class BlockingBroker:
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

        Raises SettingsError, RequestFailed and WrongArgument. Any: the values of settings.
        """
        where = None if data is None else Path(data)
        self._bench = Bench(topics, settings, where, brokers, as_version)

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

    # -- topics, records, offsets --------------------------------------------------------------

    def create_topic(
        self, name: str, partitions: int = 1, *, configs: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic; `configs` as {"cleanup.policy": "compact"}. Raises RequestFailed, also
        if it exists, and BrokerDown.
        """
        self._bench.seeding.create_topic(name, partitions, configs or {})

    def produce(
        self,
        topic: str,
        value: Data,
        *,
        key: Data = None,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> Record:
        """Append a record, and return it as it is in the log. A str stands for its UTF-8 bytes.

        Without `partition`, the key decides as Kafka's clients do (murmur2), and records without
        a key go to the partitions in turn. The time is the broker's unless it is given (Unix ms).
        A topic that does not exist is created only by `auto.create.topics.enable`.
        Raises RequestFailed and BrokerDown.
        """
        at_ms = self._bench.time.wall() if timestamp_ms is None else timestamp_ms
        record = timed(value, key, headers, at_ms)
        return self._bench.seeding.produce(topic, [record], partition)[0]

    def produce_many(
        self,
        topic: str,
        values: Iterable[Data | tuple[Data, Data]],
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> list[Record]:
        """Append many records, given as values or as pairs of key and value; see `produce`."""
        at_ms = self._bench.time.wall() if timestamp_ms is None else timestamp_ms
        return self._bench.seeding.produce(topic, timed_ones(values, at_ms), partition)

    def records(self, topic: str, partition: int | None = None) -> list[Record]:
        """All records that are in a topic now, partition after partition, decompressed, without
        control records. Raises RequestFailed and BrokerDown.
        """
        return self._bench.seeding.records(topic, partition)

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """The offsets that a group has committed, by topic and partition; empty for a group that
        does not exist. Raises RequestFailed and BrokerDown.
        """
        return self._bench.seeding.committed(group)

    def commit(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit offsets for a group that has no members, to say where consumers begin. Raises
        RequestFailed and BrokerDown.
        """
        self._bench.seeding.commit(group, offsets)

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

    def groups(self) -> list[str]:
        """The ids of the groups that exist now, sorted. Raises BrokerDown."""
        return self._bench.sights.group_ids()

    def groups_seen(self) -> list[str]:
        """The ids of the groups that something has happened to since the broker's start or reset,
        also of those that are gone; also while it does not run.
        """
        return self._bench.sights.seen()

    def timeline(self, group_id: str) -> str:
        """What happened to a group since the broker's start or reset, and why, and what it does
        now, as `groupkeeper why` prints it. Also when the broker has crashed or was stopped.
        """
        return self._bench.sights.timeline(group_id)

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
        """`HOST:PORT` of each node that runs, as clients take it.

        Raises BrokerDown before the first start.
        """
        return self._bench.bootstrap_servers

    @property
    def cluster_id(self) -> str:
        """As Metadata responses have it."""
        return self._bench.cluster_id

    def transcript(
        self,
        *,
        apis: Collection[str] = (),
        clients: Collection[str] = (),
        times: bool = True,
    ) -> str:
        """What clients and the broker said since its start or reset, over restarts: requests with
        versions and fields, answers with errors by name, seconds by the broker's clock.

        `apis` and `clients` (client ids) choose; without `times` the text of the same conversation
        is the same each time, to be compared with one that was kept. Of a long conversation, the
        end is kept, and the text says so.
        """
        return self._bench.transcript.text(apis, clients, times=times)

    @property
    def logs(self) -> list[str]:
        """The last lines of the broker's log, as `groupkeeper serve` prints them."""
        return [*map(readable(), self._bench.lines.copy())]

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
        self._bench.run(lambda: self._bench.cluster.move_coordinator(group, to))

    def move_leader(self, topic: str, partition: int, *, to: int) -> None:
        """Let another node lead a partition, in a new leader epoch. Raises as above."""
        self._bench.run(lambda: self._bench.cluster.move_leader(topic, partition, to))
