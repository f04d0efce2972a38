"""A local session of Spark with the sources, for tests. The caller stops it."""

from typing import TYPE_CHECKING, Final

from groupkeeper.analytics import register
from groupkeeper.analytics.session import builder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A small log is read before Java's optimising compiler and code generation pay off.
_SHORT: Final = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
}


def open_session(name: str, master: str | None = None) -> "SparkSession":
    """One that starts fast."""
    given = builder(name)
    if master is not None:
        given = given.master(master)
    for key, value in _SHORT.items():
        given = given.config(key, value)
    session = given.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    register(session)
    return session
