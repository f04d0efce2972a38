"""What a play is played on: a cluster of Apache Kafka that all plays share, and a group of its own.

What a play does is written down as deeds, for those facts that the coordinator's log lacks.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from groupkeeper.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tests.clients.libraries import CONFLUENT, Library
from tests.clients.process import Worker, wait_until
from tests.clients.scene import PARTITIONS, Group
from tests.support.wire import connect
from tests.truth.observed.cluster import Cluster
from tests.truth.observed.feeder import Feeder
from tests.truth.observed.observers import Observer
from tests.truth.observed.wave import Wave
from tests.truth.play import KAFKA_PYTHON, AllWorkers

SESSION_MS: Final = 10_000
HEARTBEAT_MS: Final = 3_000
"""Kafka's default."""
COMMIT_MS: Final = 1_000
"""Interval of commits: to the session as Kafka's defaults are, a ninth."""
POLL_MS: Final = 60_000
LATE_S: Final = 4.0
"""How much too late a member polls."""
_SETTLE_S: Final = 60.0
_NICE: Final = 5
_QUIET_S: Final = HEARTBEAT_MS / 1000 + 1.0
STALLED, SUBSCRIBED, GREW, REMOVED = "stalled", "subscribed", "partitions added", "removed by admin"
CLOSED, KILLED, STOPPED, STARTED = "closed", "killed", "stopped", "started"


@dataclass(frozen=True, slots=True)
class Deed:
    """What was done to a member (or to the topic), in Unix milliseconds."""

    what: str
    name: str
    at_ms: int


class Admin(Worker):
    """One administrator for all plays: a process for each would cost more than what it does."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(KAFKA_PYTHON, bootstrap, threading.Condition())
        self._asking = threading.Lock()

    def ask(self, do: str, **arguments: Any) -> Any:
        """Let it do something; one play after the other."""
        with self._asking:
            return super().ask(do, **arguments)


@dataclass(slots=True)
class Site:
    """What all plays share."""

    cluster: Cluster
    observer: Observer
    feeder: Feeder
    admin: Admin


def now_ms() -> int:
    """The time, as Kafka's log lines have it."""
    return time.time_ns() // 1_000_000


class Stage:
    """One play under way. `is_fed`: records arrive all the time; else members have nothing to
    commit, which some clients do all the same.
    """

    def __init__(
        self,
        client: Library,
        site: Site,
        folder: Path,
        *,
        is_fed: bool = True,
        wave: Wave | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.site, self.client = site, client
        self.deeds: list[Deed] = []
        self.begun_ms = 0
        self.workers, self.admin = AllWorkers(site.cluster, folder), site.admin
        self.group = Group(client, self.workers, self.admin)
        self._is_fed = is_fed
        self._wave = wave or Wave(1)
        if wave is not None:
            wave.place(self.group, site.cluster)
        if is_fed:
            site.feeder.feed(self.group.topic, range(PARTITIONS))

    def close(self) -> None:
        """End the members."""
        if self._is_fed:
            self.site.feeder.feed(self.group.topic, ())
        for each in self.workers.all:
            each.go_on()
        self.workers.end()

    # -- members -----------------------------------------------------------------------------------

    def join(
        self,
        name: str,
        *,
        static: bool = False,
        session_ms: int = SESSION_MS,
        poll_ms: int = POLL_MS,
        library: Library | None = None,
        commit_ms: int = COMMIT_MS,
        auto_commit: bool = True,
        **more: Any,
    ) -> Worker:
        """A member whose client id is its name; a static one has the instance id, too."""
        settings = {
            "client.id": name,
            "max.poll.interval.ms": max(poll_ms, session_ms),
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "auto.commit.interval.ms": commit_ms,
            **{key.replace("__", "."): value for key, value in more.items()},
        }
        self._did(STARTED, name)
        member = self.group.join(
            name if static else None,
            session_ms=session_ms,
            auto_commit=auto_commit,
            library=library,
            more=settings,
        )
        # On a busy machine clients wait, and brokers and who sends records do not.
        os.setpriority(os.PRIO_PROCESS, member.process.pid, _NICE)
        return member

    def settled(self, *names: str, seconds: float = 5.0, **how: Any) -> list[Worker]:
        """Members that share the topic, joined one after the other, which then consume for a time:
        the beginning.
        """
        members: list[Worker] = []
        for name in names:
            members.append(self.join(name, **how))
            self.settle(*members)
        self._wave.meet()
        time.sleep(seconds)
        self.begin()
        return members

    def begin(self) -> None:
        """What happened so far is not what the play is about."""
        self.begun_ms = now_ms()

    def settle(self, *members: Worker, seconds: float = _SETTLE_S) -> None:
        """Wait until these members share the topic, and nothing moves for a heartbeat."""
        self._settle(lambda: self._is_shared(members), *members, seconds=seconds)

    def _settle(
        self, is_settled: Callable[[], bool], *members: Worker, seconds: float = _SETTLE_S
    ) -> None:
        deadline = time.monotonic() + seconds
        while True:
            left = max(0.1, deadline - time.monotonic())
            wait_until(is_settled, list(members), left)
            before = [each.assignments for each in members]
            time.sleep(_QUIET_S)
            if [each.assignments for each in members] == before and is_settled():
                return

    def settle_or_lose_one(self, one: Worker, other: Worker) -> None:
        """The same of two members, of which one may hang instead: the other one has all then."""
        self._settle(
            lambda: any(map(self._is_shared, ((one, other), (one,), (other,)))), one, other
        )

    def _is_shared(self, members: tuple[Worker, ...]) -> bool:
        shares = [each.assigned or set() for each in members]
        whole = self.group.partitions
        is_whole = sum(map(len, shares)) == len(whole) and set().union(*shares) == whole
        return is_whole and all(shares)

    def starve(self, member: Worker) -> None:
        """Let no more records arrive in the partitions of a member."""
        idle = {number for _, number in member.assigned or ()}
        numbers = [number for _, number in sorted(self.group.partitions) if number not in idle]
        self.site.feeder.feed(self.group.topic, numbers)

    # -- deeds -------------------------------------------------------------------------------------

    def kill(self, *members: Worker, names: tuple[str, ...] = ()) -> None:
        """kill -9."""
        for each in members:
            each.kill()
        for name in names:
            self._did(KILLED, name)

    def stop(self, member: Worker, name: str) -> None:
        """SIGSTOP: the process stands still."""
        self._did(STOPPED, name)
        member.stop()

    def stall(self, member: Worker, name: str, seconds: float) -> None:
        """Let a member not call poll for a time."""
        self._did(STALLED, name)
        member.tell("stall", seconds=seconds)

    def roll(self, away_s: float = 0.0, **how: Any) -> None:
        """Restart two members, one after the other; each is away for a time."""
        members = self.settled("alpha", "beta", **how)
        for place, name in enumerate(("alpha", "beta")):
            members[place].ask("close")
            time.sleep(away_s)
            members[place] = self.join(name, **how)
            self.settle(*members)

    def poll_too_late(self, poll_ms: int, **how: Any) -> None:
        """Let one of two members exceed `max.poll.interval.ms`, and poll again."""
        alpha, beta = self.settled("alpha", "beta", poll_ms=poll_ms, **how)
        stall_s = poll_ms / 1000 + LATE_S
        self.stall(beta, "beta", stall_s)
        time.sleep(stall_s)
        self.polls_again(beta)
        self.settle(alpha, beta)

    def polls_again(self, member: Worker) -> None:
        """confluent-kafka tells the application in an error that it polled too late."""
        if member.library is CONFLUENT:
            wait_until(lambda: member.failed is not None, [member])
            member.failed = None
            member.tell("poll_again")

    def subscribe(self, member: Worker, name: str, topic: str) -> None:
        """Let a member subscribe to another topic."""
        self._did(SUBSCRIBED, name)
        member.tell("subscribe", topics=[topic])

    def remove(self, instance: str) -> None:
        """Let an administrator remove a static member."""
        self._did(REMOVED, instance)
        self.admin.ask("remove_instances", group=self.group.name, instance_ids=[instance])

    def add_partitions(self, count: int) -> None:
        """Let the topic have so many partitions."""
        self._did(GREW, "")
        topic = CreatePartitionsTopic(name=self.group.topic, count=count, assignments=None)
        with connect(("127.0.0.1", self.site.cluster.ports[0])) as client:
            request = CreatePartitionsRequest(topics=[topic], timeout_ms=10_000)
            answer = client.call(3, request)
        assert not answer.results[0].error_code, answer
        self.group.partitions = {(self.group.topic, number) for number in range(count)}

    @contextmanager
    def coordinator_away(self, seconds: float) -> Iterator[None]:
        """Kill the broker that coordinates the groups of all plays of the wave, and start it again
        after a time.
        """
        cluster, number = self.site.cluster, self._wave.broker

        def starts() -> None:
            cluster.brokers[number].start()
            cluster.await_ready(number)

        self._wave.meet(cluster.brokers[number].kill)
        try:
            yield
            time.sleep(seconds)
        finally:
            self._wave.meet(starts)

    def _did(self, what: str, name: str) -> None:
        self.deeds.append(Deed(what, name, now_ms()))
