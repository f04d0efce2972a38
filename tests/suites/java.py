"""Java's client: a program of our own, in `java/`, run with several of its versions.

The sources in `java/common` are compiled against every version; those in `java/since-X` against X
and what came after it. Each version runs in a process of its own, and produces 40 MB in another.
Then the newest runs scenarios in which processes with the others join its groups ("mixed").
"""

import hashlib
from pathlib import Path
from typing import ClassVar

from tests.suites import events, maven, versions
from tests.suites.process import Lines, call
from tests.suites.suite import Results, Suite, Target

_SOURCES = Path(__file__).parent / "java"
_CLIENT = "org.apache.kafka:kafka-clients"
_COMMON = (
    "RangeScenarios",
    "CooperativeScenarios",
    "StaticScenarios",
    "OffsetScenarios",
    "LifeScenarios",
    "AdminScenarios",
    "ChangeScenarios",
    "TopicScenarios",
)
# The classes of scenarios that need what only these versions and later ones have.
_SINCE = {"2.8.2": "Since28", "3.9.1": "Since39", "4.1.0": "Since41"}
_OLDER, _NEWEST = versions.KAFKA_CLIENTS[:-1], versions.KAFKA_CLIENTS[-1]
_LOAD = "LoadScenarios"
# Most scenarios wait for timers most of the time. Those that start processes do not, and those that
# send as fast as they can would disturb others.
_AT_ONCE, _MIXED_AT_ONCE, _LOAD_AT_ONCE = 8, 3, 1
_PROCESSES = 2 * len(versions.KAFKA_CLIENTS) + 1
_SMALL_JVM = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class Java(Suite):
    """Every scenario has a group and topics of its own and is bounded in time."""

    name = "java"
    about = "Java's client: members, offsets, Admin and 40 MB, in versions from 2.4 to 4.1"
    needs = ("java", "javac", "mvn")
    versions: ClassVar = {_CLIENT: ", ".join(versions.KAFKA_CLIENTS)}
    limit_s = 1_080.0
    # one of the scenarios asks for less
    settings: ClassVar = {"group.min.session.timeout.ms": "1000"}

    def prepare(self, folder: Path) -> None:
        for version in versions.KAFKA_CLIENTS:
            jars = maven.jars(folder / f"kafka-clients-{version}", [f"{_CLIENT}:{version}"])
            _compile(folder, version, jars)

    def run(self, target: Target, folder: Path) -> Results:
        for version in versions.KAFKA_CLIENTS:
            classes = [*_COMMON, *(_SINCE[each] for each in _up_to(version))]
            scenarios = [version, ",".join(classes), str(_AT_ONCE)]
            yield from self._scenarios(target, folder, version, scenarios)
            scenarios = [version, _LOAD, str(_LOAD_AT_ONCE)]
            yield from self._scenarios(target, folder, version, scenarios)
        scenarios = ["mixed", "MixedScenarios", str(_MIXED_AT_ONCE)]
        yield from self._scenarios(target, folder, _NEWEST, scenarios)

    def _scenarios(
        self, target: Target, folder: Path, version: str, scenarios: list[str]
    ) -> Results:
        """One process; `scenarios` is its label, its classes and how many of them run at once."""
        peers = [f"-Dsuite.classpath.{each}={_class_path(folder, each)}" for each in _OLDER]
        command = ["java", *_SMALL_JVM, f"-Dsuite.peers={','.join(_OLDER)}", *peers]
        command += ["-cp", _class_path(folder, version), "suite.Main", target.bootstrap]
        limit_s = self.limit_s / _PROCESSES
        with Lines([*command, *scenarios], folder, limit_s=limit_s) as lines:
            yield from events.outcomes(lines, f"{scenarios[0]} (all)")


def _up_to(version: str) -> list[str]:
    """The versions with scenarios of their own that this version has what it takes for."""
    known = versions.KAFKA_CLIENTS[: versions.KAFKA_CLIENTS.index(version) + 1]
    return [each for each in known if each in _SINCE]


def _classes(folder: Path, version: str) -> Path:
    return folder / f"classes-{version}"


def _class_path(folder: Path, version: str) -> str:
    return f"{_classes(folder, version)}:{folder}/kafka-clients-{version}/*"


def _compile(folder: Path, version: str, jars: str) -> None:
    """Compile the sources for a version, unless they are as they were."""
    parts = ["common", *(f"since-{each}" for each in _up_to(version))]
    sources = [path for part in parts for path in sorted((_SOURCES / part).rglob("*.java"))]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    target = _classes(folder, version)
    done = target / "done"
    if done.exists() and done.read_text() == digest:
        return
    command: list[str | Path] = ["javac", "--release", "17", "-nowarn", "-cp", jars, "-d", target]
    call([*command, *sources], folder)
    done.write_text(digest)
