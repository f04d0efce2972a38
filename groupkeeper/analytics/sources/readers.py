"""Readers of the logs for Spark: chunks of the plan are Spark's partitions, and the parser's Arrow
batches are their rows.

The Python processes of Spark say errors in one line, and collect little garbage. What becomes of
rows about damage is said by the option `mode`.
"""

import gc
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceReader, InputPartition

from groupkeeper.analytics.errors import AnalyticsError
from groupkeeper.analytics.reading import parse_split
from groupkeeper.analytics.reading.columns import EVENT_COLUMNS, SCHEMA
from groupkeeper.analytics.reading.plan import EVERYTHING, Chunk, plan
from groupkeeper.analytics.reading.problems import is_damage
from groupkeeper.analytics.reading.segments import EVENTS, OFFSETS
from groupkeeper.analytics.sources import decoded, events
from groupkeeper.analytics.sources.options import Mode, Options

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
        needed = list(dict.fromkeys([*names, *NEEDED]))
        return treated(self._rows(read, needed), mode, names, place)

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


_done: list[bool] = []


@contextmanager
def said_in_one_line() -> Iterator[None]:
    """Spark plans in a Python process of its own, and shows its tracebacks to the user."""
    try:
        yield
    except AnalyticsError:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise


def set_loaded_aside() -> None:
    """In a worker of Spark, and once: let collections pass over what is there by now, which is
    mostly the objects of numba and pyarrow.

    Spark's daemon collects garbage after each task. Without this a collection looks at 130,000
    objects, which takes as long as parsing 10 MB.
    """
    if _done or TaskContext.get() is None:
        return
    _done.append(True)
    gc.freeze()


NEEDED: Final = ("partition", "batch_position", "offset", "problem", "problem_bytes")
"""Columns that the modes but `rows` look at."""

_log: Final = logging.getLogger(__name__)


def treated(
    batches: Iterable[pa.RecordBatch], mode: Mode, names: list[str], place: str
) -> Iterator[pa.RecordBatch]:
    """Batches with NEEDED and the columns `names` -> those columns. `place` is the file.

    `drop` leaves out all rows with a problem, and logs how many there were; `fail` raises
    AnalyticsError at the first one that tells of damage, and leaves out the others.
    """
    rows = size = 0
    for batch in batches:
        is_sound = pc.is_null(batch.column("problem"))
        dropped = batch.filter(pc.invert(is_sound)) if pc.any(pc.invert(is_sound)).as_py() else None
        if dropped is not None:
            told = dropped.select(NEEDED).to_pylist()
            if mode == "fail":
                _fail(told, place)
            damaged = [row for row in told if is_damage(row["problem"])]
            rows += len(damaged)
            size += sum(row["problem_bytes"] or 0 for row in damaged)
            batch = batch.filter(is_sound)  # noqa: PLW2901  # what is left of it
        if batch.num_rows:
            yield batch.select(names)
    if rows:
        _log.warning("%s: dropped %d damaged places or records, %d bytes", place, rows, size)


def _fail(rows: list[dict[str, object]], place: str) -> None:
    for row in rows:
        if is_damage(str(row["problem"])):
            at = "position {batch_position}" if row["offset"] is None else "offset {offset}"
            raise AnalyticsError(
                f"{place}, partition {row['partition']}, {at.format(**row)}: {row['problem']} "
                "(mode=rows tells all that is damaged, mode=drop leaves it out)"
            )
