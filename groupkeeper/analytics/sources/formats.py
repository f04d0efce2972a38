"""The Spark data sources `consumer_offsets` and `group_events`.

    from groupkeeper.analytics import register
    register(spark)
    spark.read.format("consumer_offsets").load("/var/lib/kafka/data")

A schema given by the user limits the columns that are made: Spark does not prune columns of Python
sources. Options limit the rows.
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar, NoReturn

import pyarrow as pa
import pyspark
from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from groupkeeper.analytics.errors import AnalyticsError
from groupkeeper.analytics.reading.columns import SCHEMA
from groupkeeper.analytics.reading.segments import EVENTS, OFFSETS, find_segments
from groupkeeper.analytics.sources import events
from groupkeeper.analytics.sources.options import (
    OF_STREAMS,
    Options,
    StreamOptions,
    did_you_mean,
    has_of_streams,
)
from groupkeeper.analytics.sources.readers import TopicLogReader, said_in_one_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class LogSource(DataSource):  # type: ignore[misc]  # pyspark is not typed here
    """One row per record of the folders of a topic under the given paths."""

    format: ClassVar[str]
    columns: ClassVar[pa.Schema]
    topic: ClassVar[str]

    @classmethod
    def name(cls) -> str:
        return cls.format

    def schema(self) -> StructType:
        """Return the schema. Also checks options and paths, so that errors appear at load()."""
        with said_in_one_line():
            options = Options.of(self.options, self.format)
            if has_of_streams(self.options):
                check_streams()
                StreamOptions.of(self.options)
            find_segments(options.paths, self.topic)
        return from_arrow_schema(self.columns)

    def reader(self, schema: StructType) -> TopicLogReader:
        with said_in_one_line():
            if has_of_streams(self.options):
                raise AnalyticsError(
                    f"{', '.join(OF_STREAMS)} are options of readStream, not of read"
                )
            return self._reader(schema)

    def _reader(self, schema: StructType) -> TopicLogReader:
        options = Options.of(self.options, self.format)
        return TopicLogReader(self.topic, options, self._names(schema))

    def _names(self, schema: StructType) -> list[str]:
        """Return the columns to read. Raises AnalyticsError if the source has no such column, or
        one of another type.
        """
        known = {field.name: field.dataType for field in from_arrow_schema(self.columns)}
        for field in schema:
            name = field.name
            if name not in known:
                raise AnalyticsError(
                    f"{self.format} has no column {name}{did_you_mean(name, known)}"
                )
            if field.dataType != known[name]:
                wanted, given = known[name].simpleString(), field.dataType.simpleString()
                raise AnalyticsError(f"column {name} is {wanted}, not {given}: cast it later")
        return [field.name for field in schema]

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's
        """Return a reader. Does not raise: Spark 4.3 hides errors raised here behind its own."""
        try:
            check_streams()
            from groupkeeper.analytics.sources.stream import LogStreamReader

            return LogStreamReader(self._reader(schema), self.format, self.options)
        except AnalyticsError as error:
            return RefusedStream(error)


def check_streams() -> None:
    """Raise AnalyticsError if this PySpark does not pass start and limit to a source. load() can
    only recognize a stream by its options; without them the error appears when the query starts.
    """
    if find_spec("pyspark.sql.streaming.datasource") is None:
        raise AnalyticsError(
            f"readStream needs PySpark 4.2 or later, and this is {pyspark.__version__}: "
            "upgrade it, or use read without options of streams"
        )


class RefusedStream(DataSourceStreamReader):  # type: ignore[misc]  # pyspark is not typed here
    """Raises the error at the first call."""

    def __init__(self, error: AnalyticsError) -> None:
        self._error = error

    def _refuse(self, *_: object) -> NoReturn:
        with said_in_one_line():
            raise self._error

    initialOffset = latestOffset = partitions = read = _refuse  # noqa: N815  # Spark's


class ConsumerOffsetsSource(LogSource):
    """Records of `__consumer_offsets`. Options and columns: docs/analytics.md."""

    format = "consumer_offsets"
    columns = SCHEMA
    topic = OFFSETS


class GroupEventsSource(LogSource):
    """Records of `__group_events`. Options and columns: docs/analytics.md."""

    format = "group_events"
    columns = events.SCHEMA
    topic = EVENTS


def register_sources(spark: "SparkSession") -> None:
    """Register both formats in this session."""
    for source in (ConsumerOffsetsSource, GroupEventsSource):
        spark.dataSource.register(source)
