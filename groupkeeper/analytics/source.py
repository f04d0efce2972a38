"""The Spark data source `consumer_offsets`: chunks of the plan are Spark's partitions, and the
parser's Arrow batches are its rows.

    from groupkeeper.analytics import register
    register(spark)
    spark.read.format("consumer_offsets").load("/var/lib/kafka/data")

Options: `path` (or a list given to load), `chunk_bytes`, `engine` (auto, numba, reference).
Streaming is not supported.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import cast, get_args

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from groupkeeper.analytics.columns import SCHEMA
from groupkeeper.analytics.errors import AnalyticsError
from groupkeeper.analytics.parse import Engine, parse_split
from groupkeeper.analytics.plan import Chunk, plan

NAME = "consumer_offsets"


class ConsumerOffsetsSource(DataSource):  # type: ignore[misc]  # pyspark is not typed here
    """One row per record of the `__consumer_offsets` folders under the given paths. Columns:
    docs/analytics.md.
    """

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return from_arrow_schema(SCHEMA)

    def reader(self, schema: StructType) -> "ConsumerOffsetsReader":
        return ConsumerOffsetsReader(dict(self.options))


class ConsumerOffsetsReader(DataSourceReader):  # type: ignore[misc]  # pyspark is not typed here
    """`partitions` runs in the driver, `read` in the tasks."""

    def __init__(self, options: dict[str, str]) -> None:
        self._paths = paths_of(options)
        self._chunk_bytes = int(options["chunk_bytes"]) if "chunk_bytes" in options else None
        self._engine = engine_of(options)

    def partitions(self) -> list[InputPartition]:
        chunks = plan(self._paths, self._chunk_bytes).chunks
        return [InputPartition(chunk) for chunk in chunks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        chunk: Chunk | None = partition.value
        # Spark reads an empty plan once, with the partition None.
        for split in chunk or ():
            yield from parse_split(split, self._engine)


def paths_of(options: dict[str, str]) -> list[Path]:
    """The paths given to load(): one as `path`, several as a JSON list in `paths`. AnalyticsError
    if none is given.
    """
    paths = json.loads(options["paths"]) if options.get("paths") else []
    if options.get("path"):
        paths.append(options["path"])
    if not paths:
        raise AnalyticsError(f"{NAME} needs a path: load(folder)")
    # Spark passes paths on unchanged; its users write local folders as file: URLs.
    return [Path(path.removeprefix("file://")) for path in paths]


def engine_of(options: dict[str, str]) -> Engine:
    engine = options.get("engine", "auto")
    if engine not in get_args(Engine):
        raise AnalyticsError(f"no such engine: {engine} ({', '.join(get_args(Engine))})")
    return cast(Engine, engine)
