"""The job of a run, a process of its own: `python -m tests.chaos.stream.job DATA OUT [--drain]`.

It streams both logs to Parquet, each with a checkpoint, until it is killed. With --drain it reads
what is left, and writes all rows that were committed to one file for each log.
"""

import sys
from pathlib import Path

from tests.support.spark import open_session

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
    for query in queries:
        query.awaitTermination()
    for name, columns in FORMATS.items():
        rows = spark.read.parquet(f"{out}/{name}").selectExpr(*columns.split(", "))
        rows.coalesce(1).write.parquet(str(Path(out, f"rows-{name}")))


if __name__ == "__main__":
    main(*sys.argv[1:])
