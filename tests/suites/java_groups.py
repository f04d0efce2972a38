"""Groups of Java's clients on a broker: `java/groups/Groups.java`, which needs no compiler step."""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from tests.suites import maven, versions
from tests.suites.kafka_tools import JARS
from tests.suites.process import Lines, call
from tests.suites.suite import SuiteError

PROGRAM = Path(__file__).parent / "java" / "groups" / "Groups.java"
UTF8 = {"LC_ALL": "C.UTF-8"}
"""So that names of groups are printed as they are."""
_STREAMS = f"org.apache.kafka:kafka-streams:{versions.KAFKA}"
_JAVA = ("java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
_LIMIT_S = 600.0
_FEATURES = "org.apache.kafka.tools.FeatureCommand"
NEWER = {
    "group.coordinator.rebalance.protocols": "classic,consumer,share,streams",
    "group.share.enable": "true",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "unstable.api.versions.enable": "true",
    "unstable.feature.versions.enable": "true",
}
"""Settings of a broker with groups of all protocols; see `enable_newer`."""


def java(folder: Path) -> list[str]:
    """Java with the jars of Kafka's tools and of Kafka Streams."""
    folder.mkdir(parents=True, exist_ok=True)
    return [*_JAVA, _QUIET, "-cp", maven.jars(folder / "jars", [*JARS, _STREAMS])]


def enable_newer(bootstrap: str, java_words: Sequence[str], folder: Path) -> None:
    """Share and streams groups, on a broker that has them. Raises SuiteError."""
    words = ["--bootstrap-server", bootstrap, "upgrade"]
    for each in ("share.version=1", "streams.version=1"):
        words += ["--feature", each]
    call([*java_words, _FEATURES, *words], folder)


class JavaGroups:
    """Members of groups while the `with` block lasts. `failed` has a line for each act that did not
    come to its end.
    """

    def __init__(self, bootstrap: str, java_words: Sequence[str], folder: Path, *acts: str) -> None:
        words = [*java_words, PROGRAM, bootstrap, folder, *acts]
        self._stack = contextlib.ExitStack()
        self._lines = Lines(words, folder, limit_s=_LIMIT_S, env=UTF8)
        self.done: list[str] = []
        self.failed: list[str] = []

    def __enter__(self) -> Self:
        with self._stack:
            self._stack.enter_context(self._lines)
            for line in self._lines:
                kind, _, what = line.partition(" ")
                if line == "ready":
                    self._stack = self._stack.pop_all()
                    return self
                if kind in ("done", "failed"):
                    (self.done if kind == "done" else self.failed).append(what)
        raise SuiteError(f"{PROGRAM.name} ended early: see run.log")

    def __exit__(self, *raised: object) -> None:
        self._stack.close()
