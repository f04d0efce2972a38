"""The clients of a run: real consumers of several libraries, administrators, and raw groups.

Each works on a thread of its own until it is told to end, whatever the server does meanwhile, and
tells the ledger what was acknowledged. None of them is helped over a kill.
"""

import itertools
import json
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from groupkeeper.protocol.errors import ErrorCode
from tests.chaos.damage.truth import Group, Place, Stored
from tests.chaos.wire import Client
from tests.clients.libraries import Library
from tests.clients.process import ClientError, Worker
from tests.kills.ledger import Ledger
from tests.suites import kafka_tools
from tests.suites.process import missing
from tests.suites.run import PLACE as SUITES
from tests.suites.suite import SuiteError
from tests.support.consumer import Member
from tests.support.requests import batch_request
from tests.support.wire import Address
from tests.topics.scene import NOW, batch

TOPIC = "read"
PARTITIONS = 4
SESSION_MS = 45_000
HEARTBEAT_MS = 300
PAUSE_SECONDS = 0.002
COMMIT_SECONDS = 0.02
RECONNECT_SECONDS = 0.02
ANSWER_SECONDS = 15.0
PLACES: list[Place] = [(TOPIC, number) for number in range(PARTITIONS)]
TIME_UP = "Timeout"
NO_NEWS = frozenset({"NoOffset", "_NoOffset", "KafkaTimeout"})
"""What a library says when there is nothing to commit."""


class Committer(ABC):
    """A client on a thread; `name` is unique, `group_id` may have several."""

    def __init__(self, name: str, group_id: str, ledger: Ledger) -> None:
        self.name = name
        self.group_id = group_id
        self.ledger = ledger
        self.over = threading.Event()
        self.moves = 0
        """How often it had to give partitions back."""
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self.over.set()
        self._thread.join(1.0)

    def _work(self) -> None:
        while not self.over.is_set():
            try:
                self.step()
            except (ClientError, AssertionError, OSError) as error:
                if self.over.is_set():
                    return
                name = error.name if isinstance(error, ClientError) else type(error).__name__
                if name not in NO_NEWS:
                    self.ledger.fails(self.name, name)
                self.over.wait(RECONNECT_SECONDS)

    @abstractmethod
    def step(self) -> None:
        """Commit once. Whatever it raises is counted, and it is called again."""


class _Reader(Worker):
    """A worker that knows, whenever an answer comes, how far it had read by then."""

    def __init__(self, library: Library, bootstrap: str) -> None:
        super().__init__(library, bootstrap, threading.Condition())
        self.positions: dict[Place, int] = {}
        self.at_answer: dict[int, dict[Place, int]] = {}

    def _note(self, told: dict[str, Any]) -> None:
        super()._note(told)
        match told:
            case {"event": "records", "records": records}:
                self.positions |= {(topic, n): offset + 1 for topic, n, offset, _ in records}
                self.records.clear()
            case {"event": "revoked"}:
                self.positions.clear()
            case {"answer": number}:
                self.at_answer[number] = dict(self.positions)


class Consumer(Committer):
    """A consumer of a client library, in a process of its own."""

    def __init__(
        self,
        library: Library,
        bootstrap: str,
        instance_id: str | None,
        log: Path,
        ledger: Ledger,
        session_ms: int = SESSION_MS,
    ) -> None:
        kind = "static" if instance_id else "dynamic"
        super().__init__(f"{library.name} {kind}", f"group of {library.name}", ledger)
        self._worker = _Reader(library, bootstrap)
        self._worker.start(log)
        self._worker.tell(
            "start",
            topics=[TOPIC],
            group=self.group_id,
            session_ms=session_ms,
            heartbeat_ms=HEARTBEAT_MS,
            instance_id=instance_id,
            auto_commit=False,
        )

    @property
    def failed(self) -> str | None:
        return "its process ended" if self._worker.ended else self._worker.failed

    def step(self) -> None:
        worker = self._worker
        number = worker.tell("commit")
        try:
            worker.answer_to(number)
        finally:
            offsets = worker.at_answer.pop(number, {})
        self.moves = worker.revocations
        if offsets:
            self.ledger.commits(self.name, self.group_id, offsets)
        self.over.wait(COMMIT_SECONDS)

    def end(self) -> None:
        self.over.set()
        self._worker.kill()
        super().end()


class Administrator(Committer):
    """Sets the offsets of a group that nobody is in, through a library's own call.

    When that call's time is up the process is replaced, as a tool is called again: librdkafka's
    administration client can wait for a coordinator's connection that it never opens.
    """

    def __init__(self, library: Library, bootstrap: str, log: Path, ledger: Ledger) -> None:
        super().__init__(f"{library.name} admin", f"set by {library.name}", ledger)
        self._begin = lambda: self._started(library, bootstrap, log)
        self._worker = self._begin()
        self._numbers = itertools.count(1)

    @staticmethod
    def _started(library: Library, bootstrap: str, log: Path) -> Worker:
        worker = Worker(library, bootstrap, threading.Condition())
        worker.start(log)
        return worker

    def step(self) -> None:
        offsets = dict.fromkeys(PLACES, next(self._numbers))
        self.ledger.sends(self.group_id, offsets)
        listed = [[topic, number, offset] for (topic, number), offset in offsets.items()]
        try:
            self._worker.ask("alter_offsets", group=self.group_id, offsets=listed)
        except ClientError as error:
            if error.name == TIME_UP and not self.over.is_set():
                self._worker.kill()
                self._worker = self._begin()
            raise
        self.ledger.commits(self.name, self.group_id, offsets, bounded=True)
        self.over.wait(COMMIT_SECONDS)

    def end(self) -> None:
        self.over.set()
        self._worker.kill()
        super().end()


class Java(Committer):
    """Kafka's verifiable consumer: Java's client, which tells of every commit in a line of JSON.

    When its only broker is away it would forget all metadata (KIP-899), and then, as leader, take
    the topic for changed and join again. It is told not to: a rebalance is then the server's doing.
    """

    CLASS = "org.apache.kafka.tools.VerifiableConsumer"
    PROPERTIES = "metadata.recovery.strategy=none\n"

    def __init__(self, java: list[str], bootstrap: str, log: Path, ledger: Ledger) -> None:
        super().__init__("java static", "group of java", ledger)
        command = [*java, self.CLASS, "--bootstrap-server", bootstrap, "--topic", TOPIC]
        command += ["--group-id", self.group_id, "--group-instance-id", "java-1"]
        command += ["--session-timeout", str(SESSION_MS)]
        config = log.with_suffix(".properties")
        config.write_text(self.PROPERTIES)
        command += ["--consumer.config", str(config)]
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, text=True
            )

    def step(self) -> None:
        """Until it ends: what it says."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with suppress(ValueError):
                self._hear(json.loads(line))
        if not self.over.is_set():
            self.ledger.fails(self.name, f"ended with exit code {self._process.wait()}")
            self.over.set()

    def _hear(self, event: dict[str, Any]) -> None:
        match event:
            case {"name": "offsets_committed", "success": True, "offsets": [*offsets]}:
                places = {(each["topic"], each["partition"]): each["offset"] for each in offsets}
                self.ledger.commits(self.name, self.group_id, places)
            case {"name": "offsets_committed", "error": error}:
                self.ledger.fails(self.name, str(error)[:60])
            case {"name": "partitions_revoked"}:
                self.moves += 1

    def end(self) -> None:
        self.over.set()
        self._process.kill()
        self._process.wait()
        super().end()


class Connected(Committer):
    """A client with a connection of its own, which is made anew when it breaks."""

    def __init__(self, name: str, group_id: str, address: Address, ledger: Ledger) -> None:
        super().__init__(name, group_id, ledger)
        self._address = address
        self._client: Client | None = None
        self._numbers = itertools.count(1)

    def step(self) -> None:
        try:
            if self._client is None:
                self._client = Client(self._address, timeout=ANSWER_SECONDS)
            self.act(self._client)
        except OSError:
            if self._client is not None:
                self._client.close()
            self._client = None
            raise

    @abstractmethod
    def act(self, client: Client) -> None:
        """Do one thing. Raises OSError, also for an error in the answer."""


def expect_none(errors: Iterable[int]) -> None:
    """Raises OSError for any other error than none."""
    for error in errors:
        if error:
            raise OSError(ErrorCode(error).name)


class Raw(Connected):
    """A group of one member, static or not, that commits as fast as it is answered."""

    def __init__(self, number: int, address: Address, ledger: Ledger) -> None:
        super().__init__(f"raw {number}", f"raw-{number}", address, ledger)
        self._instance = f"raw instance {number}" if number % 2 else None
        self._member = self._joined()

    def _joined(self) -> Member:
        with Client(self._address) as client:
            member = Member(client, self.group_id, self._instance, session_ms=SESSION_MS * 20)
            return member.settle(b"all")

    @property
    def group(self) -> Group:
        member = self._member
        return Group({member.member_id: (self._instance, b"all")}, member.generation)

    def act(self, client: Client) -> None:
        number = next(self._numbers)
        offsets = dict.fromkeys(PLACES[: 1 + number % PARTITIONS], number)
        self.ledger.sends(self.group_id, offsets)
        self._member.client = client
        expect_none(self._member.committed(offsets))
        self.ledger.commits(self.name, self.group_id, offsets, bounded=True)
        time.sleep(PAUSE_SECONDS)


class Producer(Connected):
    """Gives the consumers something to read: small batches to all partitions in turn."""

    def __init__(self, address: Address, ledger: Ledger) -> None:
        super().__init__("producer", "", address, ledger)

    def act(self, client: Client) -> None:
        number = next(self._numbers)
        place = PLACES[number % PARTITIONS]
        value, timestamp = f"value {number}", NOW + number
        request = batch_request(*place, batch(value, timestamp=timestamp))
        answer = client.call(7, request).responses[0].partition_responses[0]
        expect_none([answer.error_code])
        self.ledger.stores(place, answer.base_offset, Stored(timestamp, value.encode()))
        time.sleep(PAUSE_SECONDS * 4)


def java_words() -> list[str]:
    """Java with Kafka's tools, fetched by Maven once. Raises SuiteError with the reason."""
    lacking = missing(("java", "mvn"))
    if lacking:
        raise SuiteError(f"no {' and no '.join(lacking)} on the path")
    return kafka_tools.java(SUITES)
