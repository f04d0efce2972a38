"""Groups that move from Apache Kafka to us, and from us to Apache Kafka, by copying folders.

Both sides are asked by Kafka's own tools what groups, members, offsets and lags there are.
"""

import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import ClassVar

from confluent_kafka.admin import AdminClient, NewTopic

from tests.parity.brokers import COMMON, NEWEST, OLDER
from tests.suites.checks import checked, wait_for
from tests.suites.kafka_broker import OFFSETS, MovingKafka
from tests.suites.kafka_checks import CLASSES, GROUPS
from tests.suites.kafka_scene import PARTITIONS, TOPIC, WITHOUT_MEMBERS, Scene
from tests.suites.kafka_tools import java
from tests.suites.process import Lines, call
from tests.suites.suite import Results, Suite, Target
from tests.support.process import ROOT, Server

RELEASES = (NEWEST, OLDER)
MESSAGES, READ = 600, 300
"""How many messages the topic has, and how many of them a Java consumer reads before the move."""
_READER = "reader"
_TOOL_S = 60.0
_VIEWS = {"offsets": (0, 1, 2, 3, 4, 5), "members": (0, 1, 2, 3, 4, 5, 6), "state": (0, 3, 4, 5)}
"""What kafka-consumer-groups shows of all groups, and the columns that a move keeps."""

Table = frozenset[tuple[str, ...]]


class KafkaMoves(Suite):
    """Starts brokers and servers of its own; the one that it is given is not used."""

    name = "kafka-moves"
    about = "groups and messages that move from a broker to us, and from us to a broker"
    needs = ("java", "mvn")
    versions: ClassVar = {"org.apache.kafka:kafka": ", ".join(RELEASES)}
    limit_s = 900.0

    def prepare(self, folder: Path) -> None:
        java(folder.parent)

    def run(self, target: Target, folder: Path) -> Results:
        for release in RELEASES:
            place = folder / f"moves-{release}"
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            move = _Move(release, place, java(folder.parent))
            yield from move.from_kafka()
            yield from move.to_kafka()


class _Move:
    """The moves between us and one release of Kafka."""

    def __init__(self, release: str, place: Path, java_words: list[str]) -> None:
        self._release = release
        self._place = place
        self._java = java_words

    # -- from a broker -------------------------------------------------------------------------

    def from_kafka(self) -> Results:
        folder = self._place / "from"
        folder.mkdir()
        kafka = MovingKafka(self._release, folder)
        try:
            said = self._live_on(kafka)
        finally:
            kafka.kill()
        for state in ("running", "killed", "stopped"):
            yield from self._start_on(folder / state, state, said)

    def _live_on(self, kafka: MovingKafka) -> dict[str, Table]:
        """What the broker says of its groups, when its folders have been copied in three states."""
        for _ in range(3):  # leader epochs rise
            kafka.run()
            kafka.stop()
        kafka.run()
        with Scene(kafka.bootstrap) as scene:
            scene.make_topic(MESSAGES)
            scene.play(transactions=True)
            assert self._read(kafka.bootstrap, READ) == READ
            wait_for(kafka.is_cleaned, "the cleaner has been through all partitions")
            scene.leave_transactions_open()
            said = self._tables(kafka.bootstrap)
            self._copy(kafka, "running")
            kafka.kill()
            self._copy(kafka, "killed")
            kafka.run()
            kafka.stop()
            self._copy(kafka, "stopped")
        return said

    def _copy(self, kafka: MovingKafka, state: str) -> None:
        for pattern in (OFFSETS, f"{TOPIC}-*"):
            kafka.copy_to(kafka.log_dir.parent / state / "data", pattern)

    def _start_on(self, folder: Path, state: str, said: dict[str, Table]) -> Results:
        name = f"from Kafka {self._release}, {state}"
        with _served(folder) as server:
            _make_topic(server.bootstrap)
            yield from self._compare(name, server.bootstrap, said)
            yield checked(f"{name}: commits are accepted", lambda: _commit(server.bootstrap))
            yield checked(f"{name}: Java goes on", lambda: self._read_rest(server.bootstrap))
            server.kill()
            server.start()
            yield checked(
                f"{name}: all is read after kill -9",
                lambda: _equal(self._lag(server.bootstrap), {0}),
            )

    # -- to a broker ---------------------------------------------------------------------------

    def to_kafka(self) -> Results:
        """Our folders are those of a server that was restored from a backup."""
        folder = self._place / "to"
        folder.mkdir()
        said = self._back_up(folder)
        yield from self._restore(folder, said)
        kafka = MovingKafka(self._release, folder)
        try:
            yield from self._replace(kafka, folder / "restored", said)
        finally:
            kafka.kill()

    def _back_up(self, folder: Path) -> dict[str, Table]:
        (folder / "ours").mkdir()
        for _ in range(3):  # epochs rise
            with _served(folder / "ours"):
                pass
        with _served(folder / "ours") as server, Scene(server.bootstrap) as scene:
            scene.make_topic(MESSAGES)
            scene.play(transactions=False)
            said = self._tables(server.bootstrap)
            _groupkeeper("backup", folder / "backup", server.data_dir)
        return said

    def _restore(self, folder: Path, said: dict[str, Table]) -> Results:
        name = f"backup and restore, Kafka {self._release}"
        _groupkeeper("restore", folder / "backup", folder / "restored" / "data")
        with _served(folder / "restored") as server:  # and stopped: all is in the segments then
            yield from self._compare(name, server.bootstrap, said)

    def _replace(self, kafka: MovingKafka, ours: Path, said: dict[str, Table]) -> Results:
        name = f"to Kafka {self._release}"
        kafka.run()
        with Scene(kafka.bootstrap) as scene:
            scene.make_topic(0)
        kafka.stop()
        for folder in (*kafka.log_dir.glob(OFFSETS), *kafka.log_dir.glob(f"{TOPIC}-*")):
            for file in [file for file in folder.iterdir() if file.name != "partition.metadata"]:
                file.unlink()
            for file in (ours / "data" / folder.name).glob("*"):
                shutil.copy(file, folder)
        kafka.run()
        yield from self._compare(name, kafka.bootstrap, said)
        yield checked(f"{name}: commits are accepted", lambda: _commit(kafka.bootstrap))
        yield checked(
            f"{name}: Java reads all messages",
            lambda: _equal(self._read(kafka.bootstrap, MESSAGES), MESSAGES),
        )
        kafka.kill()
        kafka.run()
        committed = {("simple", TOPIC, "0", "50"), ("simple", TOPIC, "1", "51")}

        def kept() -> None:
            found = {row[:4] for row in self._tables(kafka.bootstrap)["offsets"]}
            _equal(committed - found, set())

        yield checked(f"{name}: commits are kept after kill -9", kept)

    # -- what tools say ------------------------------------------------------------------------

    def _compare(self, name: str, bootstrap: str, said: dict[str, Table]) -> Results:
        found = self._tables(bootstrap)
        for view, rows in said.items():
            yield checked(f"{name}: the same {view}", partial(_same, found[view], rows))

    def _tables(self, bootstrap: str) -> dict[str, Table]:
        return {view: self._table(bootstrap, view) for view in _VIEWS}

    def _table(self, bootstrap: str, view: str) -> Table:
        words = ["--describe", "--all-groups", f"--{view}"]
        words += ["--verbose"] if view == "members" else []
        lines = self._tool(CLASSES[GROUPS], bootstrap, *words)
        rows = [line.split() for line in lines if re.match(r"\S+ +\S+ +\S+ +\S", line)]
        columns = _VIEWS[view]
        return frozenset(
            tuple(row[at] for at in columns if at < len(row))
            for row in rows
            if row[0] not in ("GROUP", "Consumer")
        )

    def _lag(self, bootstrap: str) -> set[int]:
        rows = self._table(bootstrap, "offsets")
        return {int(row[5]) for row in rows if row[0] == _READER}

    def _read(self, bootstrap: str, most: int) -> int:
        """How many messages a Java consumer gets; it commits them."""
        words = ["--topic", TOPIC, "--group", _READER, "--from-beginning", "--timeout-ms", "15000"]
        tool = "org.apache.kafka.tools.consumer.ConsoleConsumer"
        lines = self._tool(tool, bootstrap, *words, "--max-messages", str(most))
        return sum(line.isdigit() for line in lines)

    def _read_rest(self, bootstrap: str) -> None:
        with Scene(bootstrap) as scene:
            scene.make_topic(PARTITIONS)  # one new message in each partition
        _equal(self._read(bootstrap, MESSAGES - READ + PARTITIONS), MESSAGES - READ + PARTITIONS)

    def _tool(self, tool: str, bootstrap: str, *words: str) -> list[str]:
        command = [*self._java, tool, "--bootstrap-server", bootstrap, *words]
        with Lines(command, self._place, limit_s=_TOOL_S) as lines:
            return list(lines)


@contextmanager
def _served(folder: Path) -> Iterator[Server]:
    """A server on `folder`/data, which is stopped in order."""
    server = Server(folder, COMMON)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def _make_topic(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result()


def _groupkeeper(command: str, place: Path, data_dir: Path) -> None:
    words = [command, str(place), "--data-dir", str(data_dir)]
    call([sys.executable, "-m", "groupkeeper", *words], ROOT)


def _commit(bootstrap: str) -> None:
    with Scene(bootstrap) as scene:
        for group in WITHOUT_MEMBERS:
            scene.commit(group, 50)


def _equal(found: object, expected: object) -> None:
    assert found == expected, f"{found} instead of {expected}"


def _same(found: Table, expected: Table) -> None:
    assert expected, "nothing to compare"
    missing, more = sorted(expected - found), sorted(found - expected)
    assert not missing and not more, f"missing: {missing}\nmore: {more}"
