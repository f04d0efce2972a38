"""Reads the logs of a topic as a stream, for `spark.readStream`.

An offset of the stream is the next log offset of each log, with the data to recognize the log:
`{"__consumer_offsets-7": {"offset": 1200, "epoch": 3, "crc": 2857740885, ...}}`.

Needs PySpark 4.2, which passes start and limit to a source.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    SupportsTriggerAvailableNow,
)

from groupkeeper.analytics.reading.follow import Bookmark, Bookmarks, Follower
from groupkeeper.analytics.reading.partition_log import Hint, PartitionFolders, find_logs
from groupkeeper.analytics.reading.plan import LARGEST_CHUNK, chunk_bytes_for, pack
from groupkeeper.analytics.reading.stretch import read_stretch
from groupkeeper.analytics.sources.options import Options, StreamOptions
from groupkeeper.analytics.sources.readers import said_in_one_line, set_loaded_aside

if TYPE_CHECKING:
    from groupkeeper.analytics.sources.readers import TopicLogReader

Offset = dict[str, dict[str, int | bool]]
"""Log name -> its bookmark, as JSON."""


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]  # pyspark is not typed here
    """Yields each record once. `read` runs in tasks, the rest in one process per query."""

    def __init__(
        self, reader: "TopicLogReader", format_name: str, options: Mapping[str, str]
    ) -> None:
        """`reader` has the checked options. Raises AnalyticsError."""
        self._reader = reader
        self._given = options
        self._format = format_name
        self._options = StreamOptions.of(options)
        self._targets: Bookmarks | None = None
        """Ends of the logs for a query that reads only what is available now."""
        self._follower = Follower(reader.topic, self._logs, fail_on_loss=self._options.fail_on_loss)

    def initialOffset(self) -> Offset:  # noqa: N802  # Spark's
        with said_in_one_line():
            return _to_json(self._follower.beginning(self._options.starting))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  # Spark's
        size = self._options.max_bytes
        return ReadMaxBytes(size) if size else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  # Spark's
        with said_in_one_line():
            self._targets = self._follower.ends()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802  # Spark's
        most = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        with said_in_one_line():
            return _to_json(self._follower.next(_of_json(start), most, self._targets))

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        with said_in_one_line():
            chunk_bytes = self._reader.options.chunk_bytes
            limit = chunk_bytes or LARGEST_CHUNK
            found = [*self._follower.stretches(_of_json(start), _of_json(end), limit)]
            limit = chunk_bytes or chunk_bytes_for(sum(each.size for each in found))
            return [InputPartition(chunk) for chunk in pack(found, limit)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        fail_on_loss = self._options.fail_on_loss
        with said_in_one_line():
            for stretch in partition.value:
                read = partial(read_stretch, stretch, fail_on_loss=fail_on_loss)
                yield from self._reader.rows(read)
        set_loaded_aside()

    def _logs(self) -> Mapping[str, PartitionFolders]:
        """Find the logs that exist now; the matches of a pattern may have changed."""
        return find_logs(Options.of(self._given, self._format).paths, self._reader.topic)


def _to_json(progress: Bookmarks) -> Offset:
    return {
        name: {"offset": mark.offset, "epoch": mark.epoch, "crc": mark.crc}
        | mark.hint._asdict()
        | ({"gone": True} if mark.is_gone else {})
        for name, mark in progress.items()
    }


def _of_json(offset: Offset) -> Bookmarks:
    return {
        name: Bookmark(
            mark["offset"],
            mark["epoch"],
            mark["crc"],
            bool(mark.get("gone")),
            Hint(mark.get("inode", 0), mark.get("position", 0)),
        )
        for name, mark in offset.items()
    }
