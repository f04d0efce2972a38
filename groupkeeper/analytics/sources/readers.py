"""Readers of the logs for Spark: chunks of the plan are Spark's partitions, and the parser's Arrow
batches are their rows.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from groupkeeper.analytics.reading.parse import EVENT_COLUMNS, SCHEMA, parse_split
from groupkeeper.analytics.reading.plan import Chunk, plan
from groupkeeper.analytics.reading.segments import EVENTS, OFFSETS
from groupkeeper.analytics.reading.select import EVERYTHING
from groupkeeper.analytics.sources import damage, decoded, events
from groupkeeper.analytics.sources.options import Options
from groupkeeper.analytics.sources.workers import said_in_one_line, set_loaded_aside

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

Read = Callable[[Sequence[str]], Iterator[pa.RecordBatch]]
"""Records with some columns of the parser."""


class LogReader(DataSourceReader):  # type: ignore[misc]  # pyspark is not typed here
    """`partitions` runs in the driver, `read` in the tasks."""

    topic: ClassVar[str]

    def __init__(self, options: Options, names: Sequence[str]) -> None:
        self.options = options
        self._names = list(names)
        self._pushed = EVERYTHING

    def partitions(self) -> list[InputPartition]:
        options = self.options
        with said_in_one_line():
            work = plan(
                options.paths,
                options.chunk_bytes,
                options.partition,
                self.topic,
                options.selection.within(self._pushed),
            )
        return [InputPartition(chunk) for chunk in work.chunks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        chunk: Chunk | None = partition.value
        with said_in_one_line():
            # Spark reads an empty plan once, with the partition None.
            for split in chunk or ():
                read = partial(parse_split, split)
                yield from self.rows(read, split.path)
        set_loaded_aside()

    def rows(self, read: Read, place: str) -> Iterator[pa.RecordBatch]:
        """What `read` gives, as the options say. `place` is named in errors."""
        mode, names = self.options.mode, self._names
        if mode == "rows":
            return self._rows(read, names)
        needed = list(dict.fromkeys([*names, *damage.NEEDED]))
        return damage.treated(self._rows(read, needed), mode, names, place)

    def _rows(self, read: Read, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError


class OffsetsReader(LogReader):
    """Rows as the parser makes them, or with the typed columns of groups."""

    topic = OFFSETS

    def _rows(self, read: Read, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return decoded.decode(read(SCHEMA.names), names) if self.options.decode else read(names)


class EventsReader(LogReader):
    """Rows with the JSON of each event as columns."""

    topic = EVENTS

    def _rows(self, read: Read, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return events.decode_events(read(EVENT_COLUMNS), names)


class _Filtered:
    """Reads less where Spark says what it filters for."""

    _pushed = EVERYTHING

    def pushFilters(self, filters: "list[Filter]") -> "Iterable[Filter]":  # noqa: N802  # Spark's
        """All of them are Spark's to apply still."""
        from groupkeeper.analytics.sources.pushed import selection_of

        self._pushed = selection_of(filters)
        return filters


class FilteredOffsetsReader(_Filtered, OffsetsReader):
    """For sessions that push filters down."""


class FilteredEventsReader(_Filtered, EventsReader):
    """For sessions that push filters down."""
