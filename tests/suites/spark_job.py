"""The Spark job over a log with many causes, and the tables that it has to make."""

import contextlib
import io
import shutil
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyarrow import dataset

from groupkeeper.analytics.schemas import TABLES
from tests.analytics.churn import churn, told
from tests.analytics.logs import batch, log, write_segment
from tests.suites.process import call
from tests.support.process import ROOT

LOG = ROOT / "tests" / "fixtures" / "kafka-consumer-offsets"
MADE = [name for name in TABLES if name != "lag"]
"""Lag needs the logs of topics, and none is there."""

Tables = dict[str, Counter[str]]


def write_logs(folder: Path) -> None:
    """Write both logs into `folder`/logs: those of a broker of Apache Kafka, and of eight groups
    whose members come and go.
    """
    logs = folder / "logs"
    shutil.rmtree(logs, ignore_errors=True)
    shutil.copytree(LOG, logs)
    with contextlib.redirect_stderr(io.StringIO()):
        written, events = churn()
    write_segment(logs / "__consumer_offsets-49", 0, written)
    stored = [batch([told(each)], base_time=each.at_ms) for each in events]
    write_segment(logs / "__group_events-49", 0, log(*stored))


def local_tables(folder: Path) -> Tables:
    """The tables of `groupkeeper analyze` of these logs on this machine."""
    out = folder / "tables"
    shutil.rmtree(out, ignore_errors=True)
    command = [sys.executable, "-m", "groupkeeper", "analyze", str(folder / "logs")]
    call([*command, "--out", str(out)], folder, {"PYTHONPATH": str(ROOT)})
    return {name: rows(dataset.dataset(out / name, TABLES[name].schema), name) for name in MADE}


def rows(table: dataset.Dataset, name: str) -> Counter[str]:
    """The rows of a table as texts, in no order."""
    schema = TABLES[name].schema
    return Counter(map(repr, table.to_table(schema.names).cast(schema).to_pylist()))


@dataclass(frozen=True, slots=True)
class Submitted:
    """How spark-submit runs a job; the jars in `folder`/jars come with it."""

    spark: Path
    """The package pyspark, as installed."""
    master: str
    settings: Mapping[str, str]
    environment: Mapping[str, str]

    def run(self, folder: Path, *arguments: str, limit_s: float) -> str:
        """Run job.py, as a person would copy it, with Groupkeeper in an archive; returns what it
        printed.
        """
        call(
            [sys.executable, "-m", "zipfile", "-c", "groupkeeper.zip", ROOT / "groupkeeper"], folder
        )
        shutil.copy(ROOT / "groupkeeper" / "analytics" / "job.py", folder / "job.py")
        submit = ["--py-files", str(folder / "groupkeeper.zip"), str(folder / "job.py"), *arguments]
        return self.submit(folder, *submit, limit_s=limit_s)

    def submit(self, folder: Path, *arguments: str, limit_s: float) -> str:
        """Run spark-submit; returns what it printed."""
        jars = ",".join(map(str, sorted((folder / "jars").glob("*.jar"))))
        command = [str(self.spark / "bin" / "spark-submit"), "--master", self.master]
        command += ["--jars", jars]
        for name, value in self.settings.items():
            command += ["--conf", f"{name}={value}"]
        return call([*command, *arguments], folder, self.environment, limit_s)
