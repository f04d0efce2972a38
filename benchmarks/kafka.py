"""Apache Kafka's broker as a target: its jars, its configuration, its command line.

Nothing here is needed to measure Groupkeeper alone: without Java, jars or Maven the comparison is
left out, with a reason.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from benchmarks.hotloop import cache_folder

VERSION = "4.1.0"
CLUSTER_ID = "Z3JvdXBrZWVwZXItYmVuYw"
_MAVEN_S = 600

_POM = """<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>groupkeeper</groupId><artifactId>kafka-jars</artifactId><version>1</version>
  <dependencies>
    {dependencies}
  </dependencies>
</project>
"""
_JARS = (
    ("org.apache.kafka", "kafka_2.13", VERSION),
    ("org.apache.kafka", "kafka-tools", VERSION),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.24.3"),
)

# One node that is broker and controller, replication 1 throughout. What concerns groups is left at
# Kafka's defaults but for the initial delay, which would only make every cold start three seconds
# longer.
_PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={folder}/log
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
"""

_LOGGING = """<Configuration>
  <Appenders><Console name="out"><PatternLayout pattern="%d %p %m (%c)%n"/></Console></Appenders>
  <Loggers><Root level="INFO"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
"""

# The options of Kafka's own start script.
_JVM = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)


class NoKafkaError(Exception):
    """Kafka cannot be run here; the text says why."""


def heap() -> str:
    return os.environ.get("KAFKA_HEAP", "1g")


@cache
def class_path() -> str:
    """KAFKA_LIBS, or the jars that Maven fetches into the cache once."""
    if shutil.which("java") is None:
        raise NoKafkaError("no java on the path")
    if given := os.environ.get("KAFKA_LIBS"):
        return given
    jars = cache_folder() / f"kafka-{VERSION}"
    if not (jars / f"kafka_2.13-{VERSION}.jar").exists():
        _fetch(jars)
    return f"{jars}/*"


def _fetch(jars: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise NoKafkaError("no jars: set KAFKA_LIBS to a class path, or install Maven")
    jars.mkdir(exist_ok=True)
    listed = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId>"
        f"<version>{version}</version></dependency>"
        for group, name, version in _JARS
    )
    pom = _POM.format(dependencies=listed)
    (jars / "pom.xml").write_text(pom, encoding="utf-8")
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
    print(f"fetching Kafka {VERSION} with Maven ...", flush=True)
    try:
        command = [maven, "--batch-mode", "--quiet", "--file", str(jars / "pom.xml"), *goal]
        subprocess.run(command, check=True, capture_output=True, timeout=_MAVEN_S)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        raise NoKafkaError(
            "no jars: Maven could not fetch them, and KAFKA_LIBS is not set"
        ) from error


def _properties(port: int, folder: Path, settings: Mapping[str, str]) -> Path:
    path = folder / "server.properties"
    text = _PROPERTIES.format(port=port, controller=port + 1, folder=folder)
    text += "".join(f"{key}={value}\n" for key, value in settings.items())
    path.write_text(text, encoding="utf-8")
    return path


def format_storage(port: int, folder: Path) -> None:
    """Prepares an empty data directory, which Kafka wants done before its first start."""
    tool = ["java", "-cp", class_path(), "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID]
    with (folder / "format.txt").open("wb") as output:
        command = [*tool, "-c", str(_properties(port, folder, {}))]
        subprocess.run(command, check=True, stdout=output, stderr=output, timeout=120)


def command(port: int, folder: Path, settings: Mapping[str, str]) -> list[str]:
    memory = [f"-Xms{heap()}", f"-Xmx{heap()}"]
    logging = folder / "log4j2.xml"
    logging.write_text(_LOGGING, encoding="utf-8")
    options = [*memory, *_JVM, f"-Dlog4j2.configurationFile={logging}", "-cp", class_path()]
    return ["java", *options, "kafka.Kafka", str(_properties(port, folder, settings))]
