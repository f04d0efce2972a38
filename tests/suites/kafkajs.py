"""Clients of Node, kafkajs and @platformatic/kafka: programs of our own, in `js/`."""

import shutil
from pathlib import Path
from typing import ClassVar

from tests.suites import events, maven, versions
from tests.suites.kafka_tools import JARS
from tests.suites.process import Lines, call
from tests.suites.suite import Results, Suite, Target

_SOURCES = Path(__file__).parent / "js"
_FILES = ("package.json", "package-lock.json", "load.mjs", "share.mjs")


class KafkaJs(Suite):
    """What it needs is in a lock file, with checksums and without a registry's address."""

    name = "kafkajs"
    about = "kafkajs: 40 MB from its producer, read by a group of its consumer"
    needs = ("node", "npm")
    versions: ClassVar = {"kafkajs": versions.KAFKAJS}
    limit_s = 180.0

    def prepare(self, folder: Path) -> None:
        for name in _FILES:
            shutil.copy(_SOURCES / name, folder)
        done = folder / "done"
        wanted = (folder / "package-lock.json").read_text(encoding="utf-8")
        if not (done.exists() and done.read_text(encoding="utf-8") == wanted):
            call(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], folder)
            done.write_text(wanted, encoding="utf-8")

    def run(self, target: Target, folder: Path) -> Results:
        yield from self._program(folder, "load.mjs", target.bootstrap)

    def _program(self, folder: Path, program: str, *arguments: str) -> Results:
        env = {"KAFKAJS_NO_PARTITIONER_WARNING": "1"}
        command = ["node", program, *arguments]
        with Lines(command, folder, limit_s=self.limit_s, env=env) as lines:
            yield from events.outcomes(lines, program.removesuffix(".mjs"))


class Platformatic(KafkaJs):
    """It knows topics by id only, so it is the proof of those versions of Fetch and Produce."""

    name = "platformatic"
    about = "@platformatic/kafka: alone, and on one topic with kafkajs and Java's client"
    needs = ("node", "npm", "java", "mvn")
    versions: ClassVar = {
        "@platformatic/kafka": versions.PLATFORMATIC,
        "kafkajs": versions.KAFKAJS,
        "org.apache.kafka:kafka-tools": versions.KAFKA,
    }

    def prepare(self, folder: Path) -> None:
        super().prepare(folder)
        maven.jars(folder / "jars", JARS)

    def run(self, target: Target, folder: Path) -> Results:
        jars = maven.jars(folder / "jars", JARS)
        yield from self._program(folder, "share.mjs", target.bootstrap, jars)
