"""`groupkeeper analyze` on a cluster of Spark's own: a master and two workers on this machine,
whose Python has the libraries but not Groupkeeper.

What they need of it is sent with the job, by `--master`, or by spark-submit with an archive.
"""

import json
import os
import re
import shlex
import sys
import sysconfig
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import ClassVar, Self

import pyspark

from groupkeeper.analytics.java import find_java
from tests.suites import versions
from tests.suites.process import Lines, call
from tests.suites.suite import Outcome, Result, Results, Suite, SuiteError, Target
from tests.support.process import ROOT

LOG = ROOT / "tests" / "fixtures" / "kafka-consumer-offsets"
WORKERS = 2
_SPARK = Path(pyspark.__file__).parent
_DEPLOY = "org.apache.spark.deploy"
_MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = re.compile(r"Successfully registered with master")
_STARTED = re.compile(r"Launching executor")
_START_S = 60.0
_JOB = """
import sys
import groupkeeper
from groupkeeper.analytics.request import Request
from groupkeeper.analytics.report import analyze

assert groupkeeper.__file__.endswith("groupkeeper.zip/groupkeeper/__init__.py")
sys.exit(analyze(sys.argv[1:], Request(as_json=True)))
"""

Tables = dict[str, list[str]]


class SparkCluster(Suite):
    """Starts a cluster of its own; the broker that it is given is not used."""

    name = "spark-cluster"
    about = "groupkeeper analyze on Spark's standalone master with two workers"
    versions: ClassVar = {"pyspark": versions.PYSPARK}
    limit_s = 400.0

    def prepare(self, folder: Path) -> None:
        python = self._python(folder)
        python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -S "$@"\n', "utf-8")
        python.chmod(0o755)

    def run(self, target: Target, folder: Path) -> Results:
        expected = _tables(self._analyze(folder, []))
        with _cluster(folder, self._environment(folder)) as (master, launched):
            found = _tables(self._analyze(folder, ["--master", master]))
            yield _compared("with --master", found, expected)
            yield _result("on both workers", launched() >= WORKERS, f"executors: {launched()}")
            found = _tables(self._submitted(folder, master))
            yield _compared("with spark-submit and the archive", found, expected)

    def _analyze(self, folder: Path, options: Sequence[str]) -> str:
        command = [sys.executable, "-m", "groupkeeper", "analyze", str(LOG), "--json", *options]
        return call(command, folder, self._driver(folder), self.limit_s / 3)

    def _submitted(self, folder: Path, master: str) -> str:
        """The driver has no Groupkeeper either: it is in the archive."""
        archive, job = folder / "groupkeeper.zip", folder / "job.py"
        pack = [sys.executable, "-m", "groupkeeper.analytics.archive", str(archive)]
        call(pack, folder, self._driver(folder))
        job.write_text(_JOB, encoding="utf-8")
        submit = [str(_SPARK / "bin" / "spark-submit"), "--master", master]
        submit += ["--py-files", str(archive), str(job), str(LOG)]
        return call(submit, folder, self._environment(folder), self.limit_s / 3)

    def _python(self, folder: Path) -> Path:
        """The interpreter without its site: editable installations are not seen."""
        return folder / "python"

    def _environment(self, folder: Path) -> dict[str, str]:
        return {
            "JAVA_HOME": str(find_java()),
            "SPARK_HOME": str(_SPARK),
            "SPARK_NO_DAEMONIZE": "1",
            "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYTHONPATH": sysconfig.get_path("purelib"),
            "PYSPARK_PYTHON": str(self._python(folder)),
        }

    def _driver(self, folder: Path) -> dict[str, str]:
        known = os.pathsep.join((str(ROOT), sysconfig.get_path("purelib")))
        return self._environment(folder) | {"PYTHONPATH": known}


@contextmanager
def _cluster(folder: Path, env: dict[str, str]) -> Iterator[tuple[str, "Counter"]]:
    """A master and its workers; yields its URL, and how many executors were launched so far."""
    launched = Counter(_STARTED)
    with ExitStack() as running:
        master = _Watched(
            _command("master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"),
            folder,
            env,
            launched,
        )
        url = running.enter_context(master).wait_for(_MASTER)
        for number in range(WORKERS):
            place = ("--host", "127.0.0.1", "--webui-port", "0", "--work-dir", f"work-{number}")
            worker = _Watched(
                _command("worker.Worker", *place, "--cores", "1", "--memory", "1g", url),
                folder,
                env,
                launched,
            )
            running.enter_context(worker).wait_for(_REGISTERED)
        yield url, launched


def _command(name: str, *arguments: str) -> list[str]:
    return [str(_SPARK / "bin" / "spark-class"), f"{_DEPLOY}.{name}", *arguments]


class Counter:
    """How many lines a pattern was found in."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._pattern = pattern
        self._found = 0

    def take(self, line: str) -> None:
        self._found += bool(self._pattern.search(line))

    def __call__(self) -> int:
        return self._found


class _Watched:
    """A process of the cluster; its lines are read to their end."""

    def __init__(
        self, command: Sequence[str], folder: Path, env: dict[str, str], counter: Counter
    ) -> None:
        self._lines = Lines(command, folder, limit_s=SparkCluster.limit_s, env=env)
        self._counter = counter
        self._said: list[str] = []
        self._more = threading.Condition()
        self._reader = threading.Thread(target=self._read)

    def __enter__(self) -> Self:
        self._lines.__enter__()
        self._reader.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._lines.__exit__(None, None, None)
        self._reader.join()

    def _read(self) -> None:
        for line in self._lines:
            self._counter.take(line)
            with self._more:
                self._said.append(line)
                self._more.notify_all()

    def wait_for(self, pattern: re.Pattern[str]) -> str:
        """The first group of the pattern in a line, or the match."""

        def found() -> str | None:
            hits = filter(None, map(pattern.search, self._said))
            return next((hit[hit.lastindex or 0] for hit in hits), None)

        with self._more:
            self._more.wait_for(lambda: found() is not None, timeout=_START_S)
            hit = found()
        if hit is None:
            end = "\n".join(self._said[-15:])
            raise SuiteError(f"Spark does not start: {pattern.pattern!r} was not said\n{end}")
        return hit


def _tables(printed: str) -> Tables:
    """Lines of JSON by table, sorted."""
    found: Tables = {}
    for line in printed.splitlines():
        if line.startswith("{"):
            found.setdefault(json.loads(line)["table"], []).append(line)
    return {name: sorted(lines) for name, lines in found.items()}


def _compared(name: str, found: Tables, expected: Tables) -> Result:
    counts = {table: len(lines) for table, lines in found.items()}
    return _result(name, bool(found) and found == expected, f"rows: {counts}")


def _result(name: str, passed: bool, detail: str) -> Result:
    outcome = Outcome.PASSED if passed else Outcome.FAILED
    return Result(name, outcome, detail=detail)
