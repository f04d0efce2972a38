"""All records to Parquet, written by the workers themselves: Spark's own writer would be the
slowest part of the job by far.

Spark plans, runs and repeats the tasks; only names and counts go back through it. One file per
chunk of the plan.
"""

import os
import uuid
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyarrow import parquet

from groupkeeper.analytics.columns import SCHEMA
from groupkeeper.analytics.parse import parse_split
from groupkeeper.analytics.plan import Chunk, Plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WRITTEN: Final = pa.schema([("file", pa.string()), ("rows", pa.int64())])


def write_records(spark: "SparkSession", plan: Plan, folder: Path) -> int:
    """Write the rows of `plan` as `part-<chunk>.parquet` into `folder`, which is made. Returns how
    many there are.
    """
    folder.mkdir(parents=True, exist_ok=True)
    count = len(plan.chunks)
    # One number in each partition: as many tasks as chunks.
    numbers = spark.range(0, count, 1, numPartitions=count)
    write = partial(write_chunks, plan.chunks, str(folder.resolve()))
    written = numbers.mapInArrow(write, "file string, rows bigint").collect()
    return sum(row["rows"] for row in written)


def write_chunks(
    chunks: tuple[Chunk, ...], folder: str, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """For mapInArrow: numbers of chunks in, names and row counts of files out."""
    for batch in batches:
        for number in batch.column("id").to_pylist():
            target = Path(folder, f"part-{number:05d}.parquet")
            rows = write_chunk(chunks[number], target)
            yield pa.RecordBatch.from_pylist([{"file": target.name, "rows": rows}], _WRITTEN)


def write_chunk(chunk: Chunk, target: Path) -> int:
    """One file, there whole or not at all.

    Spark may run a task twice, even at the same time: each try writes under a name of its own, and
    the result's name depends on the chunk only.
    """
    rows = 0
    attempt = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    with parquet.ParquetWriter(attempt, SCHEMA, compression="zstd") as writer:
        for split in chunk:
            for batch in parse_split(split):
                writer.write_batch(batch)
                rows += batch.num_rows
    os.replace(attempt, target)
    return rows
