"""Which engine runs an analysis."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from groupkeeper.analytics import libraries, session
from groupkeeper.analytics.errors import AnalyticsError
from groupkeeper.analytics.request import Request

if TYPE_CHECKING:
    from groupkeeper.analytics.pipeline.engine import Engine

ONE_PROCESS_BELOW: Final = 48 * 1024 * 1024
"""Bytes of log that one process reads before others have started."""
_SHORT_BELOW: Final = 64 * 1024 * 1024


def is_spark(request: Request) -> bool:
    """`auto` is Spark where a master is named and under spark-submit, else this machine: Spark on
    one machine is never faster (docs/decisions/018). Raises AnalyticsError if the machine is to run
    what has a master.
    """
    if request.engine == "local" and request.master:
        raise AnalyticsError("--master says where Spark runs: leave it out, or --engine local")
    if request.engine != "auto":
        return request.engine == "spark"
    return request.master is not None or session.is_submitted()


@contextmanager
def open_engine(
    request: Request, size: int, told: Callable[[int, int], None]
) -> Iterator["Engine"]:
    """The engine for so many bytes, of a log or tables; one that gives all results at the end says
    meanwhile how many items of how many are done. Raises AnalyticsError if something is missing.
    """
    if is_spark(request):
        libraries.check_libraries(libraries.SPARK)
        with _spark(request, size, told) as engine:
            yield engine
        return
    from groupkeeper.analytics.pipeline.engine import LocalEngine

    is_small = size < ONE_PROCESS_BELOW and request.workers is None
    with LocalEngine(1 if is_small else request.workers) as engine:
        yield engine


@contextmanager
def _spark(request: Request, size: int, told: Callable[[int, int], None]) -> Iterator["Engine"]:
    """Ends the session, unless it was there before."""
    from pyspark.sql import SparkSession

    from groupkeeper.analytics.pipeline.spark_engine import SparkEngine

    borrowed = SparkSession.getActiveSession() is not None
    with session.failures_as_one_line():
        spark = session.open_session(short=size < _SHORT_BELOW, master=request.master)
        try:
            yield SparkEngine(spark, told)
        finally:
            if not borrowed:
                spark.stop()
