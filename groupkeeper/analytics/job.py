"""Runs the analysis as a Spark job: logs in; tables, answers and findings out. A file to copy.

python -m zipfile -c groupkeeper.zip /path/to/groupkeeper      # the package, for the workers
spark-submit --py-files groupkeeper.zip job.py s3a://logs/kafka s3a://tables/groups
"""

import argparse

from groupkeeper.analytics import register
from groupkeeper.analytics.answering import answers
from groupkeeper.analytics.session import builder
from groupkeeper.analytics.spark import Logs, saved, tables_of, with_day

options = argparse.ArgumentParser(prog="job.py", description=__doc__.partition("\n")[0])
options.add_argument("logs", help="data folder of a broker or of Groupkeeper: a path or URL")
options.add_argument("out", help="of the tables: a path or URL, or for iceberg CATALOG.NAMESPACE")
options.add_argument("--format", default="parquet", help="of the tables (default: %(default)s)")


def main() -> None:
    given = options.parse_args()
    spark = builder("groupkeeper").getOrCreate()  # in your copy: SparkSession.builder
    register(spark)
    tables = {
        name: saved(with_day(name, rows), given.format, given.out, name, ["day"])
        for name, rows in tables_of(Logs.read(spark, given.logs)).items()
    }
    found = {
        name: saved(rows, given.format, given.out, f"answers/{name}")
        for name, rows in answers(tables).items()
    }
    found["findings"].select("severity", "group", "sentence").show(100, truncate=False)


if __name__ == "__main__":
    main()
