"""The engine on Spark: plans, places and repeats the work, locally or on a cluster."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from groupkeeper.analytics.session import failures_as_one_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Item = TypeVar("Item")
Result = TypeVar("Result")


class SparkEngine:
    """One task per item. Workers must be able to read the paths of the items."""

    def __init__(self, session: "SparkSession") -> None:
        self._session = session

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """See Engine. All results are there when the last one is."""
        from pyspark.serializers import CloudPickleSerializer

        if not items:
            return
        count = len(items)
        # One number per partition makes one task per item.
        numbers = self._session.range(0, count, 1, numPartitions=count)
        call = partial(_call, function, tuple(items))
        with failures_as_one_line():
            rows = numbers.mapInArrow(call, "result binary").collect()
        unpickle = CloudPickleSerializer().loads
        yield from (unpickle(bytes(row["result"])) for row in rows)


def _call(
    function: Callable[[Item], Result], items: tuple[Item, ...], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """For mapInArrow: takes numbers of items."""
    from pyspark.serializers import CloudPickleSerializer

    for batch in batches:
        for number in batch.column("id").to_pylist():
            made = CloudPickleSerializer().dumps(function(items[number]))
            yield pa.RecordBatch.from_pydict({"result": pa.array([made], pa.binary())})
