"""A local session of Spark with the sources, for tests. The caller stops it."""

from typing import TYPE_CHECKING

from groupkeeper.analytics import register
from groupkeeper.analytics.session import builder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def open_session(name: str, master: str | None = None) -> "SparkSession":
    """One that starts fast."""
    session = builder(name, master, short=True).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    register(session)
    return session
