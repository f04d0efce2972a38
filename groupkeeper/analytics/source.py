"""The Spark data source `consumer_offsets`: chunks of the plan are Spark's partitions, and the
parser's Arrow batches are its rows.

    from groupkeeper.analytics import register
    register(spark)
    spark.read.format("consumer_offsets").load("/var/lib/kafka/data")

A schema that the user gives says which columns are made at all: Spark prunes none of a Python
source. Streaming is not supported.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from groupkeeper.analytics.columns import SCHEMA
from groupkeeper.analytics.errors import AnalyticsError
from groupkeeper.analytics.options import Options, did_you_mean
from groupkeeper.analytics.parse import parse_split
from groupkeeper.analytics.plan import Chunk, plan
from groupkeeper.analytics.segments import find_segments

NAME: Final = "consumer_offsets"


class ConsumerOffsetsSource(DataSource):  # type: ignore[misc]  # pyspark is not typed here
    """One row per record of the `__consumer_offsets` folders under the given paths. Options and
    columns: docs/analytics.md.
    """

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        """Checks options and paths as well: what is wrong with them is said at load()."""
        with _said_in_one_line():
            options = Options.of(self.options)
            find_segments(options.paths, options.partition)
        return from_arrow_schema(SCHEMA)

    def reader(self, schema: StructType) -> "ConsumerOffsetsReader":
        with _said_in_one_line():
            return ConsumerOffsetsReader(self.options, columns_of(schema))


class ConsumerOffsetsReader(DataSourceReader):  # type: ignore[misc]  # pyspark is not typed here
    """`partitions` runs in the driver, `read` in the tasks."""

    def __init__(self, options: Mapping[str, str], names: Sequence[str] = SCHEMA.names) -> None:
        self._options = Options.of(options)
        self._names = names

    def partitions(self) -> list[InputPartition]:
        options = self._options
        with _said_in_one_line():
            work = plan(options.paths, options.chunk_bytes, options.partition)
        return [InputPartition(chunk) for chunk in work.chunks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        chunk: Chunk | None = partition.value
        # Spark reads an empty plan once, with the partition None.
        for split in chunk or ():
            yield from parse_split(split, self._options.engine, self._names)


def columns_of(schema: StructType) -> list[str]:
    """The names of the columns to read. Raises AnalyticsError if one is not of SCHEMA, or of
    another type there.
    """
    known = {field.name: field.dataType for field in from_arrow_schema(SCHEMA)}
    for field in schema:
        if field.name not in known:
            raise AnalyticsError(
                f"{NAME} has no column {field.name}{did_you_mean(field.name, known)}"
            )
        if field.dataType != known[field.name]:
            wanted, given = known[field.name].simpleString(), field.dataType.simpleString()
            raise AnalyticsError(f"column {field.name} is {wanted}, not {given}: cast it later")
    return [field.name for field in schema]


@contextmanager
def _said_in_one_line() -> Iterator[None]:
    """Spark plans in a Python process of its own, and shows its tracebacks to the user."""
    try:
        yield
    except AnalyticsError:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise
