"""The brokers that transcripts are played on: Apache Kafka, and Groupkeeper as a process.

A profile is a broker with settings of its own. Kafka's jars come from Maven, once, into a folder of
the checkout; without Java or Maven there is one clear line. What runs in memory is not here.
"""

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from groupkeeper.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from groupkeeper.protocol.messages.describe_groups import DescribeGroupsRequest
from groupkeeper.protocol.messages.find_coordinator import FindCoordinatorRequest
from groupkeeper.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.parity.people import SHARED_TOPICS
from tests.parity.player import Dial, NotReadyError, call
from tests.suites import maven, versions
from tests.suites.suite import SuiteError

ROOT = Path(__file__).parent.parent.parent
NEWEST, OLDER = versions.KAFKA, "3.9.1"
TOPIC_ALREADY_EXISTS = 36
_READY_S = 120.0

COMMON = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "5",
}


@dataclass(frozen=True, slots=True)
class Profile:
    """Settings beyond the common ones, and the release of Kafka that is compared with."""

    settings: dict[str, str]
    release: str = NEWEST
    restarted: dict[str, str] | None = None
    """What transcripts may restart the broker with; None where they may not."""
    orderly: bool = False
    """A restart is no kill: the broker is told to stop."""


PROFILES = {
    "plain": Profile({}),
    "delay": Profile({"group.initial.rebalance.delay.ms": "1000"}),
    "small": Profile({"group.max.size": "2"}),
    "retention": Profile(
        {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "500"}
    ),
    "failover": Profile({}, restarted={}),
    "shrunk": Profile({}, restarted={"group.max.size": "1"}),
    "stopped": Profile({}, restarted={}, orderly=True),
    "classic": Profile({"group.coordinator.rebalance.protocols": "classic"}),
    "older": Profile({"offsets.retention.check.interval.ms": "500"}, OLDER),
}

_PROPERTIES = """process.roles=broker,controller
node.id=0
controller.quorum.voters=0@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={folder}/log
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.cleaner.enable=false
"""


class UnavailableError(Exception):
    """A broker that cannot be had here; the text says why and what to do."""


class Broker:
    """A process that serves one profile. `port` is set once it is ready."""

    def __init__(self, name: str, profile: Profile, folder: Path) -> None:
        self.name = name
        self.port = 0
        self._profile = profile
        self._settings = COMMON | profile.settings
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        raise NotImplementedError

    async def start(self) -> None:
        """Returns when groups and the shared topics are served."""
        self._process = self._spawned()
        deadline = time.monotonic() + _READY_S
        while True:
            try:
                return await prepare(dial_to(self.port))
            except (OSError, NotReadyError) as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    last = (self._folder / "output.txt").read_text(errors="replace")[-2000:]
                    raise UnavailableError(f"{self.name}: not ready ({error}): {last}") from error
                await asyncio.sleep(0.2)

    def _spawned(self) -> subprocess.Popen[bytes]:
        with (self._folder / "output.txt").open("ab") as output:
            return subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=ROOT
            )

    async def restart(self) -> None:
        """As the profile says; returns when groups are served again."""
        if self._profile.orderly and self._process is not None:
            self._process.terminate()
            await asyncio.to_thread(self._process.wait, _READY_S)
        self.kill()
        self._settings |= self._profile.restarted or {}
        self.configure()
        await self.start()

    def configure(self) -> None:
        """Let the settings be those of the next start."""

    def kill(self) -> None:
        """SIGKILL, and gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(20)


class Groupkeeper(Broker):
    """The server of this checkout."""

    def __init__(self, profile: Profile, folder: Path) -> None:
        super().__init__("groupkeeper", profile, folder)
        self.port = free_port()

    def command(self) -> list[str]:
        settings = [word for each in self._settings.items() for word in ("--set", "=".join(each))]
        where = ["--listen", f"127.0.0.1:{self.port}", "--http", "off"]
        data = ["--data-dir", str(self._folder / "data")]
        return [sys.executable, "-m", "groupkeeper", "serve", *where, *data, *settings]


class Kafka(Broker):
    """One node of Apache Kafka that is broker and controller."""

    def __init__(self, profile: Profile, folder: Path) -> None:
        super().__init__(f"Apache Kafka {profile.release}", profile, folder)
        self.port = free_port()
        self._jars = class_path(profile.release)
        self._file = folder / "server.properties"
        ports = {"port": self.port, "controller": free_port()}
        self._properties = _PROPERTIES.format(**ports, folder=folder)
        self.configure()
        tool = ["kafka.tools.StorageTool", "format", "-t", "Z3JvdXBrZWVwZXItcGFyaXR5", "-c"]
        # With eligible leader replicas (KIP-966) a topic's min.insync.replicas is the cluster's.
        without = ["--feature", "eligible.leader.replicas.version=0"]
        features = without if profile.release == NEWEST else []
        format_storage = ["java", "-cp", self._jars, *tool, str(self._file), *features]
        subprocess.run(format_storage, check=True, capture_output=True, timeout=_READY_S)

    def configure(self) -> None:
        lines = (f"{name}={value}\n" for name, value in self._settings.items())
        self._file.write_text(self._properties + "".join(lines), encoding="utf-8")

    def command(self) -> list[str]:
        memory = ["-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        return ["java", *memory, "-cp", self._jars, "kafka.Kafka", str(self._file)]


def class_path(release: str) -> str:
    """Kafka's jars, fetched once. Raises UnavailableError."""
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            raise UnavailableError(f"comparing with Apache Kafka needs {tool} on the path")
    folder = ROOT / ".suites" / f"broker-{release}"
    folder.parent.mkdir(exist_ok=True)
    try:
        return maven.jars(folder, [f"org.apache.kafka:kafka_{versions.KAFKA_SCALA}:{release}"])
    except SuiteError as error:
        raise UnavailableError(f"Kafka {release} cannot be fetched: {error}") from error


def free_port() -> int:
    """Below the range from which clients' connections get theirs, as it was a moment ago."""
    for port in range(20_000 + os.getpid() % 500 * 20, 32_000):
        if port in _taken:
            continue
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            _taken.add(port)
            return port
    raise UnavailableError("no port is free")


_taken: set[int] = set()


def dial_to(port: int) -> Dial:
    """How a player connects to what listens on a port of the loopback."""

    async def dial(protocol: asyncio.Protocol) -> asyncio.BaseTransport:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(lambda: protocol, "127.0.0.1", port)
        return transport

    return dial


async def prepare(dial: Dial) -> None:
    """Makes the shared topics and waits until every partition serves groups.

    Raises NotReadyError or OSError while that is not so.
    """
    topics = [
        CreatableTopic(name=name, num_partitions=count, replication_factor=1)
        for name, count in SHARED_TOPICS.items()
    ]
    made = await call(dial, 5, CreateTopicsRequest(topics=topics, timeout_ms=9000))
    if any(topic.error_code not in (0, TOPIC_ALREADY_EXISTS) for topic in made.topics):
        raise NotReadyError("no topics")
    found = await call(dial, 2, FindCoordinatorRequest(key="g"))
    groups = [f"g{number}" for number in range(60)]
    told = await call(dial, 5, DescribeGroupsRequest(groups=groups))
    # Kafka's first answers to this one are LOAD_IN_PROGRESS, until it has a block of ids.
    given = await call(dial, 1, InitProducerIdRequest(transactional_id=None))
    if found.error_code or given.error_code or any(group.error_code for group in told.groups):
        raise NotReadyError("no coordinators, or no producer ids")
