"""Writes tables that Spark can read as Parquet: exported.py FORMAT OUT FOLDER NAME..."""

import sys

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
form, out, folder, *names = sys.argv[1:]
for name in names:
    if form == "iceberg":
        rows = spark.read.table(f"{out}.{name}")
    else:
        rows = spark.read.format(form).load(f"{out}/{name}")
    rows.write.parquet(f"{folder}/{name}")
