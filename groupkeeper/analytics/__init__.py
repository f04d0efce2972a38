"""Reads `__consumer_offsets` and `__group_events` with PySpark, from Groupkeeper's logs or copies
of a Kafka broker's. The server does not use it.

    from groupkeeper.analytics import register

    register(spark)
    spark.read.format("consumer_offsets").load("groupkeeper-data")

Needs the extra `analytics`. Importing this package does not import pyspark.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: "SparkSession") -> None:
    """Register the formats `consumer_offsets` and `group_events` in this session.

    In local mode, unless configured otherwise, Spark's Python workers then run this interpreter:
    the default `python3` on the PATH lacks the libraries if a virtual environment is not activated.
    Raises ImportError, with the command to install them, if libraries are missing.
    """
    from groupkeeper.analytics.libraries import SOURCES, check_libraries

    check_libraries(SOURCES)
    from groupkeeper.analytics.session import run_this_python
    from groupkeeper.analytics.sources.formats import register_sources

    run_this_python(spark)
    register_sources(spark)
