"""Incidents of Kafka Connect and Kafka Streams, played with Apache Kafka's own programs."""

import json
import subprocess
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any, Final

from tests.clients.libraries import Library
from tests.parity.brokers import free_port
from tests.suites import maven, versions
from tests.support.process import tail
from tests.truth.foreign import JAVA
from tests.truth.incidents.stage import Stage
from tests.truth.incidents.truths import CALM, incident, truth

CONNECT: Final = Library(f"connect-{versions.KAFKA}", "", unusable=JAVA.unusable)
STREAMS: Final = Library(f"streams-{versions.KAFKA}", "", unusable=JAVA.unusable)
_CACHE: Final = Path(__file__).parents[3] / ".suites"
_SOURCE: Final = Path(__file__).parents[1] / "java" / "OnStreams.java"
_PARTS: Final = ("kafka-streams", "connect-runtime", "connect-file")
_JAVA: Final = ("java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_READY_S: Final = 90.0
GROUP: Final = "connect-cluster"
_making: Final = threading.Lock()


def class_path() -> str:
    """Where Connect's and Streams' programs are, fetched once."""
    with _making:
        _CACHE.mkdir(exist_ok=True)
        wanted = [f"org.apache.kafka:{each}:{versions.KAFKA}" for each in _PARTS]
        return maven.jars(_CACHE / "truth-connect", wanted)


class Program:
    """A process of Java that ends with the stage."""

    def __init__(self, stage: Stage, name: str, *arguments: str) -> None:
        self.log = stage.folder / f"{name}.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*_JAVA, "-cp", class_path(), *arguments],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=stage.folder,
            )
        stage.programs.append(self)

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        """SIGTERM, as an operator ends it."""
        self.process.terminate()
        self.process.wait(60)

    def until(self, text: str, seconds: float = _READY_S) -> None:
        """Wait until the program has logged a text."""
        deadline = time.monotonic() + seconds
        while text not in self.log.read_text(errors="replace"):
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise AssertionError(f"no {text!r} from the program:\n{tail(self.log)[-600:]}")
            time.sleep(0.2)


class ConnectWorker(Program):
    """A worker of Kafka Connect in distributed mode."""

    def __init__(self, stage: Stage, name: str) -> None:
        self.port = free_port()
        settings = {
            "bootstrap.servers": stage.server.bootstrap,
            "group.id": GROUP,
            "client.id": name,
            "listeners": f"http://127.0.0.1:{self.port}",
            "session.timeout.ms": 6_000,
            "heartbeat.interval.ms": 500,
            "rebalance.timeout.ms": 15_000,
            "scheduled.rebalance.max.delay.ms": 5_000,
            "offset.flush.interval.ms": 2_000,
            "plugin.discovery": "service_load",
            **{
                f"{each}.storage.topic": f"connect-{each}"
                for each in ("config", "offset", "status")
            },
            **{f"{each}.storage.replication.factor": 1 for each in ("config", "offset", "status")},
            "offset.storage.partitions": 2,
            "status.storage.partitions": 1,
            **{f"{each}.converter": _STRINGS for each in ("key", "value")},
        }
        file = stage.folder / f"{name}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        super().__init__(stage, name, "org.apache.kafka.connect.cli.ConnectDistributed", str(file))

    def ready(self) -> "ConnectWorker":
        """Wait until the worker answers."""
        deadline = time.monotonic() + _READY_S
        while True:
            try:
                self.ask("GET", "connectors")
            except OSError as error:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise AssertionError(f"no worker: {error}\n{tail(self.log)[-600:]}") from None
                time.sleep(0.3)
            else:
                return self

    def ask(self, method: str, path: str, **body: Any) -> None:
        """A request to the worker's own port."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/{path}",
            json.dumps(body).encode() if body else None,
            {"Content-Type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=20) as answer:
            answer.read()

    def connector(self, stage: Stage, tasks: int, topic: str = "lines") -> None:
        """Create or change the one connector."""
        source = stage.folder / "source.txt"
        source.touch()
        self.ask(
            "PUT",
            "connectors/lines/config",
            **{
                "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
                "tasks.max": str(tasks),
                "file": str(source),
                "topic": topic,
            },
        )


_STRINGS: Final = "org.apache.kafka.connect.storage.StringConverter"


def _workers(stage: Stage, *names: str) -> list[ConnectWorker]:
    """Workers with one connector, which is then the beginning."""
    made = [ConnectWorker(stage, name).ready() for name in names]
    made[0].connector(stage, 1)
    time.sleep(8)
    stage.watch(GROUP)
    return made


_NOT_CONNECT: Final = (
    r"topics or partitions",
    r"other topics",
    r"cooperative|consumption|Consumption",
)


@incident(
    "a connector's configuration is changed",
    CONNECT,
    source="strimzi/strimzi-kafka-operator#6438; review of the core, C5",
    truth=truth(
        "The configuration of a connector was changed.",
        "metadata_changed/config_changed",
        "metadata_changed/* leader_rejoined/*",
        *_NOT_CONNECT,
    ),
)
def _configured(stage: Stage) -> None:
    one, *_ = _workers(stage, "worker-1", "worker-2")
    one.connector(stage, 1, topic="other-lines")
    time.sleep(10)


@incident(
    "a second connector is created",
    CONNECT,
    source="apache/kafka#6363 (KIP-415)",
    truth=truth(
        "A connector was created.",
        "metadata_changed/config_changed",
        "metadata_changed/* leader_rejoined/*",
        *_NOT_CONNECT,
    ),
)
def _created(stage: Stage) -> None:
    one, *_ = _workers(stage, "worker-1")
    body = {"connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector"}
    body |= {"tasks.max": "1", "file": str(stage.folder / "source.txt"), "topic": "more"}
    one.ask("PUT", "connectors/more/config", **body)
    time.sleep(10)


_REBALANCED: Final = "metadata_changed metadata_changed/* leader_rejoined/* member_rejoined/*"


@incident(
    "a Connect worker is killed",
    CONNECT,
    source="apache/kafka#14647 (KAFKA-15693)",
    truth=truth(
        "worker-2 was killed; its tasks were given away after the scheduled delay.",
        "session_expired/crash_or_network",
        _REBALANCED,
        *_NOT_CONNECT,
        CALM,
    ),
)
def _worker_killed(stage: Stage) -> None:
    _, two = _workers(stage, "worker-1", "worker-2")
    two.kill()
    time.sleep(16)


@incident(
    "a Connect worker is restarted",
    CONNECT,
    source="apache/kafka#6872 (KAFKA-8473); review of the analysis, A6",
    truth=truth(
        "worker-2 was ended in order and started again.",
        "member_left|member_left/shutdown member_joined",
        f"{_REBALANCED} member_joined/rolling_restart",
        *_NOT_CONNECT,
        r"crash",
    ),
)
def _worker_restarted(stage: Stage) -> None:
    _, two = _workers(stage, "worker-1", "worker-2")
    two.end()
    time.sleep(2)
    ConnectWorker(stage, "worker-2").ready()
    time.sleep(10)


@incident(
    "a Connect worker is added",
    CONNECT,
    source="apache/kafka#6958 (KIP-415)",
    truth=truth(
        "A second worker joined.",
        "member_joined",
        _REBALANCED,
        *_NOT_CONNECT,
        r"crash|(?<!sessions )restarted",
    ),
)
def _worker_added(stage: Stage) -> None:
    _workers(stage, "worker-1")
    ConnectWorker(stage, "worker-2").ready()
    time.sleep(10)


# -- Streams ---------------------------------------------------------------------------------------


class Streams(Program):
    """An instance of an application of Kafka Streams that counts."""

    def __init__(self, stage: Stage, name: str, *more: str) -> None:
        folder = str(stage.folder / name)
        where = (stage.server.bootstrap, stage.group.topic, folder, name)
        super().__init__(stage, name, str(_SOURCE), *where, *more)

    def running(self) -> "Streams":
        """Wait until it has its tasks."""
        self.until("state RUNNING")
        return self

    def close(self) -> None:
        """Let the application close."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60)


APPLICATION: Final = "counter"
_STREAMS: Final = (
    "member_joined member_rejoined/* leader_rejoined/* metadata_changed/* member_rejoined "
    "metadata_changed leader_rejoined"
)
_NOT_STREAMS: Final = (
    r"other topics|topics or partitions were added",
    r"moved\. Nothing is wrong: only 0 partitions",
)


@incident(
    "a Streams instance is added",
    STREAMS,
    source="apache/kafka#8596 (KAFKA-9821)",
    truth=truth(
        "A second instance joined; tasks were moved, in follow-up rebalances.",
        "member_joined",
        _STREAMS,
        *_NOT_STREAMS,
        r"crash|(?<!sessions )restarted",
    ),
)
def _instance_added(stage: Stage) -> None:
    Streams(stage, "one").running()
    stage.group.send(5)
    time.sleep(3)
    stage.watch(APPLICATION)
    Streams(stage, "two").running()
    time.sleep(10)


@incident(
    "a Streams instance is killed",
    STREAMS,
    source="apache/kafka#8409 (KAFKA-6145)",
    truth=truth(
        "The second instance was killed.",
        "session_expired/crash_or_network",
        _STREAMS,
        *_NOT_STREAMS,
        CALM,
    ),
)
def _instance_killed(stage: Stage) -> None:
    Streams(stage, "one").running()
    two = Streams(stage, "two").running()
    time.sleep(6)
    stage.watch(APPLICATION)
    two.kill()
    time.sleep(14)


@incident(
    "a Streams instance is closed",
    STREAMS,
    source="apache/kafka#6790: bounces of Streams applications",
    truth=truth(
        "The second instance was closed. Streams does not leave its group by default, so that its "
        "session ends.",
        "session_expired|session_expired/crash_or_network|member_left/shutdown|member_left",
        _STREAMS,
        *_NOT_STREAMS,
    ),
)
def _instance_closed(stage: Stage) -> None:
    Streams(stage, "one").running()
    two = Streams(stage, "two").running()
    time.sleep(6)
    stage.watch(APPLICATION)
    two.close()
    time.sleep(14)


@incident(
    "Streams probes for standby tasks",
    STREAMS,
    source="KIP-441; apache/kafka#8409; review of the core, C5",
    truth=truth(
        "An instance joined whose tasks have to be restored; Streams probes every minute.",
        "member_joined leader_rejoined/probing_rebalance|member_rejoined/probing_rebalance"
        "|metadata_changed/probing_rebalance",
        _STREAMS,
        *_NOT_STREAMS,
        r"crash|(?<!sessions )restarted",
    ),
)
def _probes(stage: Stage) -> None:
    Streams(stage, "one", "warm").running()
    for _ in range(20):
        stage.group.send(100)
    time.sleep(5)
    stage.watch(APPLICATION)
    Streams(stage, "two", "warm").running()
    time.sleep(75)
