"""The live topics through Spark's own Kafka source: decoded, they are what the files hold."""

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from tests.parity.brokers import NEWEST
from tests.suites import events, maven, versions
from tests.suites.kafka_broker import MovingKafka
from tests.suites.process import Lines
from tests.suites.suite import Results, Suite, SuiteError, Target
from tests.support.populated import populated
from tests.support.process import ROOT

CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{versions.SPARK_KAFKA}"
_WHOLE = {"log.cleaner.enable": "false", "log.roll.ms": "604800000"}
"""Nothing is removed between two looks."""


class SparkKafka(Suite):
    """A server of ours, and a broker of Apache Kafka that the suite starts."""

    name = "spark-kafka"
    about = "live __consumer_offsets and __group_events through Spark's Kafka source"
    needs = ("java", "mvn")
    versions: ClassVar = {
        "org.apache.spark:spark-sql-kafka-0-10": versions.SPARK_KAFKA,
        "org.apache.kafka:kafka": NEWEST,
    }
    limit_s = 900.0

    def prepare(self, folder: Path) -> None:
        maven.jars(folder / "jars", [CONNECTOR])

    def run(self, target: Target, folder: Path) -> Results:
        if target.data_dir is None:
            raise SuiteError("needs a server of ours: its data directory is read beside it")
        yield from self._checks("ours", target.bootstrap, target.data_dir, folder)
        with _broker(folder) as broker:
            yield from self._checks("kafka", broker.bootstrap, broker.log_dir, folder)

    def _checks(self, name: str, bootstrap: str, data: Path, folder: Path) -> Results:
        with populated(bootstrap, int(time.time() * 1000)):
            pass
        jars = ",".join(str(path) for path in sorted((folder / "jars").glob("*.jar")))
        env = {"PYTHONPATH": str(ROOT), "PYSPARK_SUBMIT_ARGS": f"--jars {jars} pyspark-shell"}
        command = [sys.executable, "-m", "tests.suites.live_topics", name, bootstrap, str(data)]
        with Lines(command, folder, limit_s=self.limit_s, env=os.environ | env) as lines:
            yield from events.outcomes(lines, f"{name}: all checks were made", ends_well=True)


@contextlib.contextmanager
def _broker(folder: Path) -> Iterator[MovingKafka]:
    place = folder / "broker"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    broker = MovingKafka(NEWEST, place, _WHOLE)
    broker.run()
    try:
        yield broker
    finally:
        broker.stop()
