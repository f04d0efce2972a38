"""The Spark job on a cluster of Spark's own: a master and two workers on this machine, whose Python
has the libraries but not Groupkeeper. It is in an archive that spark-submit sends with the job.

Logs are read from S3 and tables are written to S3, which moto plays. Each worker has a folder for
temporary files of its own; as root, they see no other.
"""

import os
import shlex
import shutil
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import ClassVar

import pyspark
from pyarrow import dataset, fs

from groupkeeper.analytics.grouped import of_spark
from groupkeeper.analytics.schemas import TABLES
from groupkeeper.analytics.session import find_java
from tests.suites import maven, spark_job, versions
from tests.suites.checks import verdict_of
from tests.suites.process import Background, Lines
from tests.suites.s3 import BUCKET, S3, Store, keys, served
from tests.suites.suite import Results, Suite, Target

WORKERS = 2
_SPARK = Path(pyspark.__file__).parent
_DEPLOY = "org.apache.spark.deploy"
_MASTER = r"Starting Spark master at (spark://\S+)"
_REGISTERED = "Successfully registered with master"
_STARTED = "Launching executor"
_START_S = 60.0
_JARS = (
    f"org.apache.hadoop:hadoop-aws:{versions.HADOOP}!",
    f"software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:{versions.AWS_ACCELERATOR}",
    *(
        f"software.amazon.awssdk:{name}:{versions.AWS_SDK}"
        for name in ("s3", "sts", "s3-transfer-manager", "apache-client", "netty-nio-client")
    ),
)


class SparkCluster(Suite):
    """Starts a cluster of its own; the broker that it is given is not used."""

    name = "spark-cluster"
    about = "the Spark job on a standalone master with two workers, from S3 to S3"
    needs = ("java", "mvn")
    versions: ClassVar = {
        "pyspark": versions.PYSPARK,
        "org.apache.hadoop:hadoop-aws": versions.HADOOP,
    }
    limit_s = 900.0

    def prepare(self, folder: Path) -> None:
        python = self._python(folder)
        python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -S "$@"\n', "utf-8")
        python.chmod(0o755)
        maven.jars(folder / "jars", _JARS)
        S3().prepare(folder)

    def run(self, target: Target, folder: Path) -> Results:
        spark_job.write_logs(folder)
        expected = spark_job.local_tables(folder)
        with keys(), served(folder) as address, _cluster(folder, self._environment(folder)) as on:
            master, members = on
            store = Store(address)
            store.put(folder / "logs", "kafka")
            printed = self._submit(folder, master, address)
            yield verdict_of("findings are printed", "severity" in printed, "")
            launched = sum(_STARTED in line for each in members for line in each.said)
            yield verdict_of("on both workers", launched >= WORKERS, f"executors: {launched}")
            found = _written(store.system)
            for name, rows in expected.items():
                same = found[name] == rows
                yield verdict_of(f"table {name}", same, f"{found[name].total()} rows")

    def _submit(self, folder: Path, master: str, address: str) -> str:
        """The driver has no Groupkeeper either: it is in the archive."""
        s3a = "spark.hadoop.fs.s3a"
        settings = {
            f"{s3a}.endpoint": f"http://{address}",
            f"{s3a}.endpoint.region": "us-east-1",
            f"{s3a}.path.style.access": "true",
            f"{s3a}.connection.ssl.enabled": "false",
            # The workers have one address, and Spark would read the files of the other one.
            "spark.shuffle.readHostLocalDisk": "false",
            "spark.sql.shuffle.partitions": "4",
        }
        job = spark_job.Submitted(_SPARK, master, settings, self._environment(folder))
        logs = f"s3a://{BUCKET}/kafka?endpoint_override={address}&scheme=http&region=us-east-1"
        return job.run(folder, logs, f"s3a://{BUCKET}/tables", limit_s=self.limit_s / 2)

    def _python(self, folder: Path) -> Path:
        """The interpreter without its site: editable installations are not seen."""
        return folder / "interpreter"

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


@contextmanager
def _cluster(folder: Path, env: dict[str, str]) -> Iterator[tuple[str, list[Background]]]:
    """A master and its workers; yields its URL, and them."""
    members: list[Background] = []
    with ExitStack() as running:

        def start(command: Sequence[str], env: dict[str, str]) -> Background:
            lines = Lines(command, folder, limit_s=SparkCluster.limit_s, env=env)
            members.append(running.enter_context(Background(lines)))
            return members[-1]

        place = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        url = start(_command("master.Master", *place), env).wait_for(_MASTER, _START_S)
        for number in range(WORKERS):
            work = folder / f"work-{number}"
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir()
            place = ("--host", "127.0.0.1", "--webui-port", "0", "--work-dir", str(work))
            command = _command("worker.Worker", *place, "--cores", "1", "--memory", "1g", url)
            worker = start(_apart(command), env | {"TMPDIR": "/tmp"})
            worker.wait_for(_REGISTERED, _START_S)
        yield url, members


def _apart(command: list[str]) -> list[str]:
    """With a /tmp that no other process sees, where this process may do that."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return command
    program = 'mount -t tmpfs tmpfs /tmp && exec "$@"'
    return ["unshare", "--mount", "sh", "-c", program, "sh", *command]


def _command(name: str, *arguments: str) -> list[str]:
    return [str(_SPARK / "bin" / "spark-class"), f"{_DEPLOY}.{name}", *arguments]


def _written(bucket: fs.FileSystem) -> spark_job.Tables:
    """Those that the job wrote to S3."""
    found = {}
    for name in spark_job.MADE:
        place = f"{BUCKET}/tables/{name}"
        schema = of_spark(TABLES[name].schema)
        files = dataset.dataset(place, schema, filesystem=bucket, format="parquet")
        found[name] = spark_job.rows(files, name)
    return found
