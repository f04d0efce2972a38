"""Brokers of Apache Kafka on the loopback that write down why groups rebalance.

Kafka logs the reason of each rebalance (`broker_log.py` reads it). Its jars bring no backend for
these log lines: the one of Log4j is fetched beside them.
"""

import asyncio
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from groupkeeper.history.newer_departures import SessionLimit
from groupkeeper.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.parity.brokers import ROOT, UnavailableError, class_path, dial_to, free_port
from tests.parity.player import NotReadyError, call
from tests.suites import maven, versions

OFFSETS_PARTITIONS: Final = 20
CONSUMER_SESSION: Final = SessionLimit(10_000, 3_000)
"""Of consumer groups (KIP-848)."""
SETTINGS: Final[Mapping[str, str]] = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.session.timeout.ms": str(CONSUMER_SESSION.timeout_ms),
    "group.consumer.heartbeat.interval.ms": str(CONSUMER_SESSION.heartbeat_ms),
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
    "offsets.topic.segment.bytes": str(100 << 20),
    "transaction.state.log.min.isr": "1",
    "controlled.shutdown.enable": "true",
    "auto.leader.rebalance.enable": "false",
}
NO_MORE: Final[Mapping[str, str]] = {}
_LOG4J: Final = "2.24.3"
_READY_S: Final = 120.0
_STOP_S: Final = 60.0
_PAUSE_S: Final = 0.2
_MEMORY: Final = ("-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_CLUSTER_ID: Final = "Z3JvdXBrZWVwZXItdHJ1dGhz"
_LOGGING: Final = """\
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d{UNIX_MILLIS} %m%n
rootLogger.level=warn
rootLogger.appenderRef.out.ref=out
logger.group.name=org.apache.kafka.coordinator.group
logger.group.level=info
"""
"""Each line begins with its time in Unix milliseconds."""


class Node:
    """One process of a cluster. `log` is what it prints, over all its starts."""

    def __init__(self, number: int, folder: Path, properties: str, jars: str) -> None:
        folder.mkdir(parents=True)
        self.number, self.log, self.log_dir = number, folder / "output.txt", folder / "log"
        self._jars, self._folder = jars, folder
        self._file = folder / "server.properties"
        self._file.write_text(properties)
        (folder / "log4j2.properties").write_text(_LOGGING)
        self.process: subprocess.Popen[bytes] | None = None

    def format(self) -> None:
        """Prepare the log directory."""
        words = ("kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(self._file))
        done = subprocess.run(
            ["java", "-cp", self._jars, *words],
            capture_output=True,
            text=True,
            timeout=_READY_S,
            check=False,
        )
        if done.returncode:
            raise UnavailableError(f"Kafka cannot format its folder: {done.stderr[-500:]}")

    def start(self) -> None:
        """Start the process; it is not ready yet."""
        logging = f"-Dlog4j2.configurationFile={self._folder / 'log4j2.properties'}"
        command = ["java", *_MEMORY, logging, "-cp", self._jars, "kafka.Kafka", str(self._file)]
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=ROOT
            )

    def stop(self) -> None:
        """End the process in order."""
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """kill -9."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(_STOP_S)


class Cluster:
    """`brokers` brokers. One is its own controller; several have one beside them, so that brokers
    can be killed.
    """

    def __init__(
        self, folder: Path, brokers: int = 1, settings: Mapping[str, str] = NO_MORE
    ) -> None:
        """`settings`: more of all nodes."""
        jars = class_path(versions.KAFKA)
        backend = f"org.apache.logging.log4j:log4j-slf4j-impl:{_LOG4J}!"
        jars = f"{jars}:{maven.jars(ROOT / '.suites' / 'broker-logging', [backend])}"
        more = "".join(f"{name}={value}\n" for name, value in settings.items())
        controller = free_port()
        self.ports = [free_port() for _ in range(brokers)]
        self.brokers = [
            Node(
                number,
                folder / f"broker-{number}",
                _properties(number, port, controller, folder, brokers) + more,
                jars,
            )
            for number, port in enumerate(self.ports)
        ]
        self.controllers = []
        if brokers > 1:
            about = _properties(brokers, None, controller, folder, brokers)
            self.controllers = [Node(brokers, folder / "controller", about, jars)]

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def start(self) -> None:
        """Returns when all brokers serve groups. Raises UnavailableError."""
        for each in (*self.controllers, *self.brokers):
            each.format()
            each.start()
        for number in range(len(self.brokers)):
            self.await_ready(number)

    def await_ready(self, number: int) -> None:
        """Wait until a broker knows a coordinator. Raises UnavailableError."""
        deadline = time.monotonic() + _READY_S
        node = self.brokers[number]
        while (problem := self._problem(number)) is not None:
            assert node.process is not None
            if node.process.poll() is not None or time.monotonic() > deadline:
                last = node.log.read_text(errors="replace")[-2000:]
                raise UnavailableError(f"broker {number} is not ready ({problem}): {last}")
            time.sleep(_PAUSE_S)

    def is_coordinating(self, number: int) -> bool:
        """Whether a broker knows a coordinator."""
        return self._problem(number) is None

    def coordinator_of(self, group: str) -> int:
        """The number of the broker that coordinates a group. Raises OSError and NotReadyError."""
        for port in self.ports:
            try:
                found = asyncio.run(call(dial_to(port), 2, FindCoordinatorRequest(key=group)))
            except OSError:
                continue
            if not found.error_code:
                return int(found.node_id)
        raise NotReadyError("no broker knows a coordinator")

    def log_dir(self, group: str) -> Path:
        """The log directory of the broker that coordinates a group."""
        return self.brokers[self.coordinator_of(group)].log_dir

    def _problem(self, number: int) -> str | None:
        try:
            request = FindCoordinatorRequest(key="some-group")
            found = asyncio.run(call(dial_to(self.ports[number]), 2, request))
        except (OSError, NotReadyError) as problem:
            return str(problem)
        return f"error {found.error_code}" if found.error_code else None

    def log_lines(self) -> list[str]:
        """What all brokers have written, each in its order."""
        return [
            line
            for each in self.brokers
            if each.log.exists()
            for line in each.log.read_text(errors="replace").splitlines()
        ]

    def stop(self) -> None:
        """End all processes."""
        for each in (*self.brokers, *self.controllers):
            each.kill()


def _properties(number: int, port: int | None, controller: int, folder: Path, brokers: int) -> str:
    """The properties of a node; `port` is None for the controller."""
    control = f"CONTROLLER://127.0.0.1:{controller}"
    roles = [*(["broker"] if port else []), *(["controller"] if brokers == 1 or not port else [])]
    listeners = [*([f"PLAINTEXT://127.0.0.1:{port}"] if port else [])]
    name = f"broker-{number}" if port else "controller"
    replicas = str(brokers)
    all_of_them = {
        "process.roles": ",".join(roles),
        "node.id": str(number),
        "controller.quorum.voters": f"{0 if brokers == 1 else brokers}@127.0.0.1:{controller}",
        "listeners": ",".join([*listeners, *([control] if "controller" in roles else [])]),
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": str(folder / name / "log"),
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        **({"advertised.listeners": listeners[0]} if port else {}),
        **SETTINGS,
    }
    return "".join(f"{name}={value}\n" for name, value in all_of_them.items())
