"""The vocabulary of the group tests: a topic, a group, members that join, and waiting for them.

What a client cannot show (who else is in the group, under which id) an observer asks the server:
one worker on kafka-python 3 that outlives the tests. Everything is waited for; nothing sleeps.
"""

import itertools
import threading
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.clients.libraries import Library
from tests.clients.process import Partition, Worker, wait_until
from tests.clients.server import External
from tests.support.process import Server

PARTITIONS = 6
HEARTBEAT_MS = 300
QUIET_SECONDS = 4 * HEARTBEAT_MS / 1000  # a rebalance is heard of at the next heartbeat
LONG_SESSION_MS = 30_000  # longer than a test: nobody is removed

Record = tuple[str, int, int]


class Workers:
    """Starts worker processes with logs of their own, and ends all of them with the test."""

    def __init__(self, server: Server | External, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.changed = threading.Condition()
        self.all: list[Worker] = []
        self._ready: list[Worker] = []

    def prepare(self, library: Library, number: int) -> None:
        """Start processes for those that `start` will be asked for next, which then wait for
        nothing but their clients.
        """
        self._ready += [self._launch(library) for _ in range(number)]

    def start(self, library: Library) -> Worker:
        return self._ready.pop(0) if self._ready else self._launch(library)

    def _launch(self, library: Library) -> Worker:
        worker = self._worker(library)
        worker.start(self.folder / f"{len(self.all)}-{library.name}.log")
        self.all.append(worker)
        return worker

    def _worker(self, library: Library) -> Worker:
        return Worker(library, self.server.bootstrap, self.changed)

    def end(self) -> None:
        for worker in self.all:
            worker.kill()


class Group:
    """A group on a fresh topic of six partitions; all its members use one library."""

    def __init__(self, library: Library, workers: Workers, observer: Worker) -> None:
        self.library = library
        self.workers = workers
        self.observer = observer
        self.topic = f"topic-{uuid.uuid4().hex[:12]}"
        self.name = f"group-{uuid.uuid4().hex[:12]}"
        self.partitions: set[Partition] = {(self.topic, one) for one in range(PARTITIONS)}
        self._values = itertools.count()
        observer.ask("create_topic", topic=self.topic, partitions=PARTITIONS)

    # ------------------------------------------------------------ members

    def join(
        self,
        instance_id: str | None = None,
        session_ms: int = LONG_SESSION_MS,
        auto_commit: bool = False,
        library: Library | None = None,
        more: dict[str, Any] | None = None,
    ) -> Worker:
        """Start a process with a member of the group; it joins in its own time. `more`: settings
        under Kafka's names.
        """
        worker = self.workers.start(library or self.library)
        worker.tell(
            "start",
            topics=[self.topic],
            group=self.name,
            session_ms=session_ms,
            heartbeat_ms=(more or {}).get("heartbeat.interval.ms", HEARTBEAT_MS),
            instance_id=instance_id,
            auto_commit=auto_commit,
            more=more,
        )
        return worker

    def settle(self, *members: Worker) -> None:
        """Wait until the members share all partitions evenly and nothing moves any more.

        Nothing moves: no member gave a partition back for four heartbeats. Some clients join
        before they know the topic's partitions and join again, so the first sharing may not last.
        """
        moved = True
        while moved:
            wait_until(lambda: self._shared_by(members), list(members))
            moved = self._moved_soon(members)

    def _moved_soon(self, members: tuple[Worker, ...]) -> bool:
        with self.workers.changed:
            before = moves(*members)
            return self.workers.changed.wait_for(lambda: moves(*members) != before, QUIET_SECONDS)

    def _shared_by(self, members: tuple[Worker, ...]) -> bool:
        owned = [member.assigned or set() for member in members]
        sizes = [len(one) for one in owned]
        once = sum(sizes) == len(self.partitions) and set().union(*owned) == self.partitions
        return once and max(sizes) - min(sizes) <= 1

    def settled(self, number: int, **how: Any) -> list[Worker]:
        """That many dynamic members, sharing the topic."""
        members = [self.join(**how) for _ in range(number)]
        self.settle(*members)
        return members

    def describe(self) -> dict[str, Any]:
        description: dict[str, Any] = self.observer.ask("describe_group", group=self.name)
        return description

    def change_observer(self) -> None:
        """A fresh observer: the old one may still be backing off from a server that was away."""
        self.observer.kill()
        self.observer = self.workers.start(self.observer.library)

    # ------------------------------------------------------------ records

    def send(self, per_partition: int = 10) -> list[Record]:
        """Produce that many records into every partition; answers where they are."""
        records = [
            (number, f"value {next(self._values)}", None)
            for _, number in sorted(self.partitions)
            for _ in range(per_partition)
        ]
        offsets = self.observer.ask("produce", topic=self.topic, records=records)
        return [
            (self.topic, number, offset)
            for (number, _, _), offset in zip(records, offsets, strict=True)
        ]

    def await_records(self, records: Iterable[Record], *members: Worker) -> None:
        wanted = set(records)
        wait_until(lambda: wanted <= set(consumed(*members)), list(members))

    def commit(self, *members: Worker) -> None:
        """Let every member commit what it has consumed."""
        for number, member in [(member.tell("commit"), member) for member in members]:
            member.answer_to(number)


def consumed(*members: Worker) -> list[Record]:
    """Everything that the members were given so far, twice if it was given twice."""
    return sorted(record[:3] for member in members for record in list(member.records))


def moves(*members: Worker) -> list[int]:
    """How often each member had to give its partitions back: unchanged when nothing rebalanced."""
    return [member.revocations for member in members]
