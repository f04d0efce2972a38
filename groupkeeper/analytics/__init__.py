"""Reading `__consumer_offsets` with PySpark: our own log or a copy of a Kafka broker's. Not part of
the server, which runs without any of it.

    from groupkeeper.analytics import register

    register(spark)  # not needed for a session that was active at the import
    spark.read.format("consumer_offsets").load("groupkeeper-data")

Needs the extra `analytics`. Importing this package imports pyspark only if it is there and already
in use.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from groupkeeper.analytics.source import ConsumerOffsetsSource

__all__ = ["ConsumerOffsetsSource", "analyze", "register"]


def register(spark: "SparkSession") -> None:
    """Make `spark.read.format("consumer_offsets")` work in this session."""
    from groupkeeper.analytics.source import ConsumerOffsetsSource

    spark.dataSource.register(ConsumerOffsetsSource)


def analyze(paths: list[Path], out: Path | None = None) -> int:
    """
    Print what the logs under `paths` say, and write it to `out` as Parquet. Returns an exit code:
    0, or 2 with one line said.
    """
    from groupkeeper.analytics.report import analyze as run

    return run(paths, out)


def __getattr__(name: str) -> object:
    if name == "ConsumerOffsetsSource":
        from groupkeeper.analytics.source import ConsumerOffsetsSource

        return ConsumerOffsetsSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _register_with_active_session() -> None:
    """In workers too this module is imported, and there is no session there."""
    sql = sys.modules.get("pyspark.sql")
    session = sql.SparkSession.getActiveSession() if sql is not None else None
    if session is not None:
        register(session)


_register_with_active_session()
