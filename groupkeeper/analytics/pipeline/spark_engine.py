"""The engine on Spark: plans, places and repeats the work, locally or on a cluster."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from threading import Event, Thread
from typing import TYPE_CHECKING, Final, TypeVar

import pyarrow as pa

from groupkeeper.analytics.session import failures_as_one_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Item = TypeVar("Item")
Result = TypeVar("Result")

_POLL_S: Final = 0.5


class SparkEngine:
    """One task per item. Workers must be able to read the paths of the items."""

    def __init__(
        self, session: "SparkSession", told: Callable[[int, int], None] = lambda done, of: None
    ) -> None:
        """`told` is called meanwhile, from a thread, with the number of tasks done and of all."""
        self._session = session
        self._told = told

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """See Engine. All results are there when the last one is."""
        from pyspark.serializers import CloudPickleSerializer

        if not items:
            return
        count = len(items)
        # One number per partition makes one task per item.
        numbers = self._session.range(0, count, 1, numPartitions=count)
        call = partial(_call, function, tuple(items))
        with failures_as_one_line(), self._followed(count):
            rows = numbers.mapInArrow(call, "result binary").collect()
        unpickle = CloudPickleSerializer().loads
        yield from (unpickle(bytes(row["result"])) for row in rows)

    @contextmanager
    def _followed(self, count: int) -> Iterator[None]:
        """`collect` gives nothing before the last task has ended."""
        over = Event()
        thread = Thread(target=self._follow, args=(count, over), daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _follow(self, count: int, over: Event) -> None:
        tracker = self._session.sparkContext.statusTracker()
        with suppress(Exception):  # how far it is may stay unknown; what failed, collect raises
            while not over.wait(_POLL_S):
                stages = map(tracker.getStageInfo, tracker.getActiveStageIds())
                for each in stages:
                    if each is not None and each.numTasks == count:  # not one of the session's own
                        self._told(each.numCompletedTasks, count)


def _call(
    function: Callable[[Item], Result], items: tuple[Item, ...], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """For mapInArrow: takes numbers of items."""
    from pyspark.serializers import CloudPickleSerializer

    from groupkeeper.analytics.sources.workers import set_loaded_aside

    for batch in batches:
        for number in batch.column("id").to_pylist():
            made = CloudPickleSerializer().dumps(function(items[number]))
            yield pa.RecordBatch.from_pydict({"result": pa.array([made], pa.binary())})
    set_loaded_aside()
