"""Writes all records to Parquet, in the workers: Spark's own writer takes twice as long.

Spark plans, runs and repeats the tasks; only file names and row counts are returned through it.
Each chunk of the plan becomes one file.
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
    """Write the rows of `plan` as `part-<chunk>.parquet` into `folder`, which is created. Returns
    the number of rows.
    """
    folder.mkdir(parents=True, exist_ok=True)
    count = len(plan.chunks)
    # One number per partition makes one task per chunk.
    numbers = spark.range(0, count, 1, numPartitions=count)
    write = partial(write_chunks, plan.chunks, str(folder.resolve()))
    written = numbers.mapInArrow(write, "file string, rows bigint").collect()
    return sum(row["rows"] for row in written)


def write_chunks(
    chunks: tuple[Chunk, ...], folder: str, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """For mapInArrow: takes chunk numbers, yields file names and row counts."""
    for batch in batches:
        for number in batch.column("id").to_pylist():
            target = Path(folder, f"part-{number:05d}.parquet")
            rows = write_chunk(chunks[number], target)
            yield pa.RecordBatch.from_pylist([{"file": target.name, "rows": rows}], _WRITTEN)


def write_chunk(chunk: Chunk, target: Path) -> int:
    """Write one file atomically; returns the number of rows.

    Spark may run a task twice, even concurrently: each attempt writes under a name of its own and
    renames it at the end.
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
