"""The Spark job with tables of Delta Lake and of Apache Iceberg, and the newest PySpark that Maven
has both for, in an environment of its own.
"""

import os
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from pyarrow import dataset

from groupkeeper.analytics.grouped import of_spark
from groupkeeper.analytics.schemas import TABLES
from groupkeeper.analytics.session import find_java
from tests.suites import maven, spark_job, versions
from tests.suites.checks import verdict_of
from tests.suites.process import install
from tests.suites.suite import Result, Results, Suite, Target

_JARS = (
    f"io.delta:delta-spark_{versions.TABLES_SPARK}_2.13:{versions.DELTA}",
    f"org.apache.iceberg:iceberg-spark-runtime-{versions.TABLES_SPARK}_2.13:{versions.ICEBERG}",
)
_DELTA = "io.delta.sql.DeltaSparkSessionExtension"
_ICEBERG = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
_EXPORTED = Path(__file__).parent / "supplied" / "exported.py"


class SparkTables(Suite):
    """Everything runs on this machine; the broker that the suite is given is not used."""

    name = "spark-tables"
    about = "the Spark job with tables of Delta Lake and Apache Iceberg"
    needs = ("java", "mvn")
    versions: ClassVar = {
        "pyspark": versions.TABLES_PYSPARK[0].partition("==")[2],
        "io.delta:delta-spark": versions.DELTA,
        "org.apache.iceberg:iceberg-spark-runtime": versions.ICEBERG,
    }
    limit_s = 2_400.0

    def prepare(self, folder: Path) -> None:
        maven.jars(folder / "jars", _JARS)
        install(folder, versions.TABLES_PYSPARK)

    def run(self, target: Target, folder: Path) -> Results:
        spark_job.write_logs(folder)
        expected = spark_job.local_tables(folder)
        for form, out in ("delta", str(folder / "delta")), ("iceberg", "lake.groups"):
            job = self._job(folder)
            for _ in range(2):  # the second time in the place of what is there
                arguments = (str(folder / "logs"), out, "--format", form)
                printed = job.run(folder, *arguments, limit_s=self.limit_s / 4)
                found = "severity" in printed
                yield verdict_of(f"{form}: findings are printed", found, printed[-1000:])
            yield from self._tables(folder, job, form, out, expected)

    def _tables(
        self,
        folder: Path,
        job: spark_job.Submitted,
        form: str,
        out: str,
        expected: spark_job.Tables,
    ) -> Iterator[Result]:
        exported = folder / "exported"
        shutil.rmtree(exported, ignore_errors=True)
        program = (str(_EXPORTED), form, out, str(exported), *expected)
        job.submit(folder, *program, limit_s=self.limit_s / 4)
        for name, rows in expected.items():
            table = dataset.dataset(exported / name, of_spark(TABLES[name].schema))
            found = spark_job.rows(table, name)
            yield verdict_of(f"{form}: table {name}", found == rows, f"{found.total()} rows")

    def _job(self, folder: Path) -> spark_job.Submitted:
        for old in ("delta", "lake"):
            shutil.rmtree(folder / old, ignore_errors=True)
        settings = {
            "spark.sql.extensions": f"{_DELTA},{_ICEBERG}",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.lake.type": "hadoop",
            "spark.sql.catalog.lake.warehouse": str(folder / "lake"),
            "spark.sql.shuffle.partitions": "2",
            "spark.databricks.delta.snapshotPartitions": "1",
            # The tables are small: Java's optimising compiler would not pay off.
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.sql.codegen.wholeStage": "false",
            "spark.ui.enabled": "false",
            "spark.sql.session.timeZone": "UTC",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        }
        python = folder / "python"
        environment = {
            "JAVA_HOME": str(find_java()),
            "SPARK_HOME": str(python / "pyspark"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYTHONPATH": os.pathsep.join((str(python), sysconfig.get_path("purelib"))),
            "PYSPARK_PYTHON": sys.executable,
        }
        return spark_job.Submitted(python / "pyspark", "local[2]", settings, environment)
