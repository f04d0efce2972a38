"""The job of a run, a process of its own: `python -m tests.chaos.stream.job DATA OUT [--drain]`.

It streams both logs to Parquet, and the tables of an analysis, each with a checkpoint, until it is
killed. With --drain it reads what is left, writes all rows that were committed to one file for each
log, and to `tables.json` how the tables differ from those of a batch over the same logs.
"""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from groupkeeper.analytics.schemas import TABLES
from groupkeeper.analytics.spark import Logs, tables_of
from groupkeeper.analytics.streaming import kept
from tests.support.spark import open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMATS = {
    "consumer_offsets": "partition, offset, group, topic_partition, committed_offset, problem",
    "group_events": "partition, offset, group, null as topic_partition, null as committed, problem",
}
"""And what is looked at in the rows."""


def main(data: str, out: str, *more: str) -> None:
    spark = open_session("groupkeeper-chaos", master="local[2]")
    drain = "--drain" in more
    trigger = {"availableNow": True} if drain else {"processingTime": "1 second"}
    queries = []
    for name in FORMATS:
        read = spark.readStream.format(name).option("maxBytesPerTrigger", "1m").load(data)
        write = read.writeStream.format("parquet").option("path", f"{out}/{name}")
        write = write.option("checkpointLocation", f"{out}/checkpoint-{name}")
        queries.append(write.trigger(**trigger).start())
    logs = (
        spark.readStream.format(name).option("maxBytesPerTrigger", "1m").load(data)
        for name in FORMATS
    )
    tables = kept(Logs(*logs), f"{out}/tables")
    tables = tables.option("checkpointLocation", f"{out}/checkpoint-tables")
    queries.append(tables.trigger(**trigger).start())
    for query in queries:
        query.awaitTermination()
    for name, columns in FORMATS.items():
        rows = spark.read.parquet(f"{out}/{name}").selectExpr(*columns.split(", "))
        rows.coalesce(1).write.parquet(str(Path(out, f"rows-{name}")))
    Path(out, "tables.json").write_text(json.dumps(compared(spark, data, out)))


def compared(spark: "SparkSession", data: str, out: str) -> dict[str, list[int]]:
    """Table -> its rows in a batch, and how many of them the stream has more, and has not."""
    found = {}
    for name, rows in tables_of(Logs.read(spark, data)).items():
        if name not in TABLES or name == "lag":
            continue
        expected = rows.persist()
        place = Path(out, "tables", name)
        streamed = expected.limit(0)
        if place.exists():  # else no batch had a row
            read = spark.read.schema(rows.schema).parquet(str(place))
            streamed = read.select(*rows.columns)  # without those of its folders
        more, fewer = streamed.exceptAll(expected).count(), expected.exceptAll(streamed).count()
        found[name] = [expected.count(), more, fewer]
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
