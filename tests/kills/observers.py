"""Kills of an observer under load, beside a server or Apache Kafka: its events are those of one
that was never killed, and those of one that reads the log once more from the start.

    report = run(Plan(kills=100), folder, say)
    words(report)

Groups come, grow, commit, shrink and go all the time. Of a cluster of Kafka each broker is killed
in turn, too.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import cycle, zip_longest
from pathlib import Path
from random import Random
from typing import Final

from groupkeeper.protocol.group_events import Event
from tests.kills.passing_groups import PassingGroups, create_topic
from tests.support.process import Server
from tests.support.stored_events import events_on_disk
from tests.support.wire import Address
from tests.truth.observed.cluster import Cluster
from tests.truth.observed.observers import Observer

UP_SECONDS: Final = (0.2, 4.0)
"""How long an observer lives: it is ready after one or two seconds."""
BROKER_SECONDS: Final = (2.0, 5.0)
"""How long a broker is away, and how long all are there before the next is killed."""
CAUGHT_UP_SECONDS: Final = 120.0
PAUSE_SECONDS: Final = 0.3
SESSION_SECONDS: Final = 8.0
"""After this time no group changes any more by itself."""
SETTINGS: Final = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "5"}
STEPS: Final = frozenset(
    {"group_created", "rebalance_completed", "group_emptied", "group_deleted", "history_lost"}
)
LEFT, READ = "groupkeeper_observer_records_left", "groupkeeper_observer_records_read_total"


@dataclass(slots=True)
class Plan:
    """What is done. `brokers`: kills of brokers of Apache Kafka; 0 for this server instead."""

    kills: int = 100
    seed: int = 9
    brokers: int = 0
    threads: int = 4
    asks: bool = False
    """Observers ask coordinators. What was asked is not stored, and may change what is told of a
    record: only which ones are told of has to be the same."""


@dataclass(slots=True)
class Report:
    """What happened."""

    kills: int = 0
    broker_kills: int = 0
    lives: int = 0
    commits: int = 0
    failures: int = 0
    """Errors of members, all of which began anew."""
    events: int = 0
    rebalances: int = 0
    records: int = 0
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0


def run(plan: Plan, folder: Path, say: Callable[[str], None] = lambda _: None) -> Report:
    """Kill so many observers, and then compare. Raises AssertionError if something does not start,
    or does not end.
    """
    report, chance, began = Report(), Random(plan.seed), time.monotonic()
    with ExitStack() as stack:
        cluster = stack.enter_context(_cluster(folder, plan.brokers))
        create_topic(cluster.addresses)
        options = () if plan.asks else ("--no-ask",)
        steady, victim, fresh = (
            Observer(cluster.bootstrap, folder / name, *options)
            for name in ("steady", "killed", "fresh")
        )
        for each in (steady, victim, fresh):
            stack.callback(each.kill)
        steady.start()
        over = threading.Event()
        groups = [
            PassingGroups(number, plan.seed, cluster.addresses, over)
            for number in range(plan.threads)
        ]
        stack.callback(over.set)
        for one in groups:
            one.start()
        breaker = threading.Thread(target=cluster.break_brokers, args=(plan, report, over))
        breaker.start()
        stack.callback(breaker.join)
        stack.callback(over.set)
        while report.kills < plan.kills or report.broker_kills < plan.brokers:
            victim.launch()
            time.sleep(chance.uniform(*UP_SECONDS))
            assert victim.is_alive, victim.tail()
            victim.kill()
            report.kills += 1
            say(words(report)[0])
        over.set()
        for thread in (*groups, breaker):
            thread.join()
        report.lives, report.commits, report.failures = (
            sum(getattr(each, name) for each in groups) for name in ("lives", "commits", "failures")
        )
        time.sleep(SESSION_SECONDS)
        for each in (victim, fresh):
            each.start()
            _await(each.is_ready, each)
        report.records = int(fresh.numbers()[READ])
        _await(lambda: steady.numbers()[READ] >= report.records, steady)
        for each in (steady, victim, fresh):
            each.stop()
        compare(report, steady, victim, fresh, asks=plan.asks)
    report.seconds = time.monotonic() - began
    return report


def compare(report: Report, steady: Observer, *others: Observer, asks: bool = False) -> None:
    """Hold the events of observers that were stopped against those of one of them."""
    expected = events_on_disk(steady.data)
    report.events = sum(map(len, expected.values()))
    started = (each.type == "rebalance_started" for some in expected.values() for each in some)
    report.rebalances = sum(started)
    lost = sum(each.type == "history_lost" for some in expected.values() for each in some)
    if lost:
        report.wrong.append(f"{lost} times records were lost")
    for other in others:
        found = events_on_disk(other.data)
        for name in sorted(expected | found):
            both = expected.get(name, []), found.get(name, [])
            pairs = zip_longest(*(map(_steps, both) if asks else both))
            differs = [pair for pair in pairs if pair[0] != pair[1]]
            if differs:
                where = f"{other.data.parent.name}, partition {name}"
                report.wrong.append(f"{where}: {len(differs)} events, first {differs[0]}")


def _steps(events: list[Event]) -> list[tuple[object, ...]]:
    """The events of which each record has one at most, without what was asked about them."""
    return [
        (each.mono_ms, each.group, each.type, each.generation)
        for each in events
        if each.type in STEPS
    ]


def words(report: Report) -> list[str]:
    """What happened, line by line."""
    killed = f"{report.kills} observers and {report.broker_kills} brokers killed"
    groups = f"{report.lives} groups came and went, with {report.commits} commits"
    return [
        f"{killed} in {report.seconds:.0f} s",
        f"{groups}; members began anew {report.failures} times",
        f"{report.records} records, {report.rebalances} rebalances, {report.events} events",
        *(f"LOST {each}" for each in report.wrong),
    ]


def _await(is_so: Callable[[], bool], observer: Observer) -> None:
    until = time.monotonic() + CAUGHT_UP_SECONDS
    while not is_so():
        assert time.monotonic() < until, f"it does not catch up: {observer.tail()}"
        time.sleep(PAUSE_SECONDS)


# -- what is observed ------------------------------------------------------------------------------


class Own:
    """A server of this project."""

    def __init__(self, server: Server) -> None:
        self.bootstrap, self.addresses = server.bootstrap, [server.kafka]

    def break_brokers(self, plan: Plan, report: Report, over: threading.Event) -> None:
        """Do nothing: kills of servers are another command."""


class Kafka:
    """Three brokers of Apache Kafka."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self.bootstrap = cluster, cluster.bootstrap
        self.addresses: list[Address] = [("127.0.0.1", port) for port in cluster.ports]

    def break_brokers(self, plan: Plan, report: Report, over: threading.Event) -> None:
        """Kill each broker in turn, and start it again."""
        chance = Random(plan.seed + 1)
        for number in cycle(range(len(self.addresses))):
            if report.broker_kills >= plan.brokers or over.wait(chance.uniform(*BROKER_SECONDS)):
                return
            self._cluster.brokers[number].kill()
            report.broker_kills += 1
            over.wait(chance.uniform(*BROKER_SECONDS))
            self._cluster.brokers[number].start()
            self._cluster.await_ready(number)


@contextmanager
def _cluster(folder: Path, brokers: int) -> Iterator[Own | Kafka]:
    if not brokers:
        server = Server(folder, SETTINGS)
        try:
            server.start()
            yield Own(server)
        finally:
            server.kill()
        return
    cluster = Cluster(folder, 3)
    try:
        cluster.start()
        yield Kafka(cluster)
    finally:
        cluster.stop()
