"""Reads `__consumer_offsets` and `__group_events` with PySpark: Groupkeeper's logs or copies of a
Kafka broker's. The server does not use it.

    from groupkeeper.analytics import register

    register(spark)  # not needed for a session that was active at the import
    spark.read.format("consumer_offsets").load("groupkeeper-data")

Needs the extra `analytics`. Importing this package does not import pyspark.
"""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: "SparkSession") -> None:
    """Make the formats `consumer_offsets` and `group_events` work in this session.

    Its Python workers run the interpreter that runs this, if Spark is local and nothing else says
    which one they run: Spark's default is `python3` of the PATH, which in a virtual environment
    that is not activated has none of the libraries. Raises ImportError, with the command that
    installs them, if some are missing.
    """
    from groupkeeper.analytics.libraries import SOURCES, check_libraries

    check_libraries(SOURCES)
    from groupkeeper.analytics.session import run_this_python
    from groupkeeper.analytics.sources.formats import register_sources

    run_this_python(spark)
    register_sources(spark)


def _register_with_active_session() -> None:
    """Does nothing in Spark's workers, which import this module and have no session."""
    sql = sys.modules.get("pyspark.sql")
    session = sql.SparkSession.getActiveSession() if sql is not None else None
    if session is not None:
        register(session)


_register_with_active_session()
