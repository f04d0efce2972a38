"""Errors of Spark's sources as one line."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from groupkeeper.analytics.errors import AnalyticsError


@contextmanager
def said_in_one_line() -> Iterator[None]:
    """Spark plans in a Python process of its own, and shows its tracebacks to the user."""
    try:
        yield
    except AnalyticsError:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise
