"""What a situation is played with: a server, a group of real clients, and what is stored of it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.clients.libraries import KAFKA_PYTHON_3, Library
from tests.clients.process import Worker
from tests.clients.scene import Group, Workers
from tests.support.process import Server
from tests.support.wire import Client, connect
from tests.truth.cable import Cable
from tests.truth.foreign import COMMANDS, ForeignWorker
from tests.truth.reading import Story

PARTITIONS = 3
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "num.partitions": "6",
    "offsets.topic.num.partitions": str(PARTITIONS),
}
SESSION_MS = 3_000
LONG_MS = 60_000
POLL_MS = 4_000
"""max.poll.interval.ms, which is the rebalance timeout, where that decides."""

KAFKA_PYTHON = KAFKA_PYTHON_3


@dataclass(frozen=True, slots=True)
class Situation:
    """What happens to a group, and what has to be stored. `client` is the library of its members;
    `begin` plays it, and calls `Play.now` where the events begin that count.
    """

    name: str
    client: Library
    expected: tuple[str, ...]
    begin: Callable[["Play"], None]
    through_cable: bool = False
    seconds: float = 20.0


class Play:
    """One situation under way."""

    def __init__(self, situation: Situation, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.cable = Cable() if situation.through_cable else None
        self.server = Server(folder, SETTINGS, advertise=self.cable and self.cable.address)
        self.server.start()
        if self.cable is not None:
            self.cable.to(self.server.kafka)
        self.workers = AllWorkers(self.server, folder)
        self.admin = self.workers.start(KAFKA_PYTHON)
        self.group = Group(situation.client, self.workers, self.admin)
        self._story = Story(self.group.name, PARTITIONS)
        self._situation = situation

    def close(self) -> None:
        """End all processes."""
        self.workers.end()
        if self.cable is not None:
            self.cable.close()
        self.server.stop()

    # -- members -------------------------------------------------------------------------------

    def join(
        self,
        name: str,
        static: bool = False,
        session_ms: int = SESSION_MS,
        poll_ms: int = LONG_MS,
        **more: Any,
    ) -> Worker:
        """A member whose client id is its name; a static one has the instance id, too."""
        names = {"client.id": name, "max.poll.interval.ms": max(poll_ms, session_ms)}
        settings = names | {key.replace("__", "."): value for key, value in more.items()}
        instance = name if static else None
        return self.group.join(instance, session_ms=session_ms, more=settings)

    def settled(self, *names: str, **how: Any) -> list[Worker]:
        """Members that share the topic, joined one after the other."""
        members: list[Worker] = []
        for name in names:
            members.append(self.join(name, **how))
            self.group.settle(*members)
        return members

    def consumed(self, *members: Worker) -> None:
        """Let the members consume something, and commit it."""
        self.group.await_records(self.group.send(1), *members)
        self.group.commit(*members)

    def client(self) -> Client:
        """A connection for requests by hand."""
        return connect(self.server.kafka)

    # -- what is stored ------------------------------------------------------------------------

    def now(self) -> None:
        """What happened so far does not count."""
        self._story.begin(self.server.kafka)

    def found(self) -> list[str]:
        """What is stored in the place of what was expected."""
        situation = self._situation
        return self._story.hear(self.server.kafka, situation.expected, situation.seconds)

    def lines(self) -> list[str]:
        """All that counts."""
        return self._story.lines()


class AllWorkers(Workers):
    """Workers on clients of all languages."""

    def _worker(self, library: Library) -> Worker:
        if library.name not in COMMANDS:
            return super()._worker(library)
        return ForeignWorker(library, self.server.bootstrap, self.changed)
