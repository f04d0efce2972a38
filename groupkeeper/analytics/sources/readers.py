"""Readers of the logs for Spark: chunks of the plan become Spark's partitions, and the parser's
Arrow batches become rows.

Also keeps errors of Spark's Python processes to one line, and reduces their garbage collection.
"""

import gc
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceReader, InputPartition

from groupkeeper.analytics.errors import AnalyticsError
from groupkeeper.analytics.reading import parse_split
from groupkeeper.analytics.reading.columns import EVENT_COLUMNS
from groupkeeper.analytics.reading.placement import of_groups
from groupkeeper.analytics.reading.plan import Chunk, plan
from groupkeeper.analytics.reading.segments import EVENTS
from groupkeeper.analytics.sources import events
from groupkeeper.analytics.sources.options import Options

Read = Callable[[Sequence[str]], Iterator[pa.RecordBatch]]
"""Reads records with the given columns of the parser."""


class TopicLogReader(DataSourceReader):  # type: ignore[misc]  # pyspark is not typed here
    """Reads the columns `names` of one topic. `partitions` runs in the driver, `read` in tasks."""

    def __init__(self, topic: str, options: Options, names: Sequence[str]) -> None:
        self.topic = topic
        self.options = options
        self._names = list(names)

    def partitions(self) -> list[InputPartition]:
        options = self.options
        with said_in_one_line():
            work = plan(options.paths, options.chunk_bytes, self.topic, options.selection)
            if options.selection.group is not None:
                work = of_groups(work, [options.selection.group])
        return [InputPartition(chunk) for chunk in work.chunks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        chunk: Chunk | None = partition.value
        with said_in_one_line():
            # Spark reads an empty plan once, with the partition None.
            for split in chunk or ():
                yield from self.rows(partial(parse_split, split))
        set_loaded_aside()

    def rows(self, read: Read) -> Iterator[pa.RecordBatch]:
        """Yield the rows of `read`; of events with their JSON as columns."""
        if self.topic == EVENTS:
            return events.decode_events(read(EVENT_COLUMNS), self._names)
        return read(self._names)


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
