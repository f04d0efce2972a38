"""Readers of the logs for Spark: chunks of the plan become Spark's partitions, and the parser's
Arrow batches become rows.

Also keeps errors of Spark's Python processes to one line, and reduces their garbage collection. The
option `mode` selects the treatment of rows about damage.
"""

import gc
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceReader, InputPartition

from groupkeeper.analytics.errors import AnalyticsError
from groupkeeper.analytics.reading import parse_split
from groupkeeper.analytics.reading.columns import EVENT_COLUMNS
from groupkeeper.analytics.reading.placement import of_groups
from groupkeeper.analytics.reading.plan import Chunk, plan
from groupkeeper.analytics.reading.problems import is_damage
from groupkeeper.analytics.reading.segments import EVENTS, OFFSETS
from groupkeeper.analytics.sources import events
from groupkeeper.analytics.sources.options import Mode, Options

Read = Callable[[Sequence[str]], Iterator[pa.RecordBatch]]
"""Reads records with the given columns of the parser."""


class LogReader(DataSourceReader):  # type: ignore[misc]  # pyspark is not typed here
    """Base class of the readers. `partitions` runs in the driver, `read` in the tasks."""

    topic: ClassVar[str]

    def __init__(self, options: Options, names: Sequence[str]) -> None:
        self.options = options
        self._names = list(names)

    def partitions(self) -> list[InputPartition]:
        options = self.options
        with said_in_one_line():
            work = plan(
                options.paths, options.chunk_bytes, options.partition, self.topic, options.selection
            )
            if options.selection.group is not None:
                work = of_groups(work, [options.selection.group])
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
        """Yield the rows of `read` according to the options. `place` appears in errors."""
        mode, names = self.options.mode, self._names
        if mode == "rows":
            return self._rows(read, names)
        needed = list(dict.fromkeys([*names, *NEEDED]))
        return treated(self._rows(read, needed), mode, names, place)

    def _rows(self, read: Read, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError


class OffsetsReader(LogReader):
    """Rows of the parser."""

    topic = OFFSETS

    def _rows(self, read: Read, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return read(names)


class EventsReader(LogReader):
    """Rows with the JSON of each event as columns."""

    topic = EVENTS

    def _rows(self, read: Read, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return events.decode_events(read(EVENT_COLUMNS), names)


_done: list[bool] = []


@contextmanager
def said_in_one_line() -> Iterator[None]:
    """Suppress tracebacks of AnalyticsError, which Spark would show to the user."""
    try:
        yield
    except AnalyticsError:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise


def set_loaded_aside() -> None:
    """Exempt present objects, mostly of numba and pyarrow, from garbage collection; once per
    worker.

    Spark's daemon collects garbage after each task. Otherwise each collection visits 130,000
    objects, which takes as long as parsing 10 MB.
    """
    if _done or TaskContext.get() is None:
        return
    _done.append(True)
    gc.freeze()


NEEDED: Final = ("partition", "batch_position", "offset", "problem", "problem_bytes")
"""Columns required by all modes except `rows`."""

_log: Final = logging.getLogger(__name__)


def treated(
    batches: Iterable[pa.RecordBatch], mode: Mode, names: list[str], place: str
) -> Iterator[pa.RecordBatch]:
    """Convert batches with NEEDED and the columns `names` to those columns. `place` is the file.

    `drop` omits all rows with a problem and logs the number of damaged ones; `fail` raises
    AnalyticsError at the first damage, and omits harmless problems.
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
            batch = batch.filter(is_sound)  # noqa: PLW2901  # the remaining rows
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
                "(mode=rows reports all damage as rows, mode=drop omits it)"
            )
