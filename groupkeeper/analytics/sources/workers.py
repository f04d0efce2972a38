"""Python workers of Spark."""

import gc

from pyspark import TaskContext

_done: list[bool] = []


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
