"""What the Python processes of Spark need: errors as one line, and little garbage collection."""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import TaskContext

from groupkeeper.analytics.errors import AnalyticsError

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
