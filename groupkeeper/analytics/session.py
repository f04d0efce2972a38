"""Sessions of Spark that this process starts: a local one finds its Java and Python, and listens on
loopback only. Notebooks, spark-submit and clusters bring a session of their own.
"""

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import groupkeeper
from groupkeeper.analytics.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOPBACK: Final = "127.0.0.1"
_PYTHON: Final = "PYSPARK_PYTHON"
"""Of a context's workers, as it was when the context was made; else `_DEFAULT_PYTHON`."""
_DEFAULT_PYTHON: Final = "python3"
_GATEWAY: Final = "PYSPARK_GATEWAY_PORT"
"""Set by spark-submit, whose Java process has the settings, the master included."""


def builder(name: str) -> "SparkSession.Builder":
    """A builder of the session of a job. Under spark-submit nothing but its name is set; else it
    runs on all cores of this machine. Raises AnalyticsError if there is no Java.
    """
    from pyspark.sql import SparkSession

    found = SparkSession.builder.appName(name)
    if _GATEWAY in os.environ:
        return found
    _set_environment(find_java())
    cores = os.cpu_count() or 1
    settings = {
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": os.environ.get("SPARK_DRIVER_MEMORY", "2g"),
        "spark.ui.enabled": "false",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.driver.host": _LOOPBACK,
        "spark.driver.bindAddress": _LOOPBACK,
        "spark.sql.shuffle.partitions": str(cores),
    }
    for key, value in settings.items():
        found = found.config(key, value)
    return found.master(f"local[{cores}]")


def run_this_python(session: "SparkSession") -> None:
    """Let local workers of a session run this interpreter. PYSPARK_PYTHON, Spark's settings and
    another choice of the context go first; a cluster may not have this one.
    """
    context = getattr(session, "sparkContext", None) if _is_classic(session) else None
    if context is None or not re.match(r"local(?!-cluster)", context.master):
        return
    is_named = os.environ.get(_PYTHON) or context.getConf().get("spark.pyspark.python")
    if not is_named and context.pythonExec == _DEFAULT_PYTHON:
        context.pythonExec = sys.executable


def _is_classic(session: "SparkSession") -> bool:
    """Not one of Spark Connect, whose server runs the workers."""
    return "connect" not in type(session).__module__


def _set_environment(java_home: Path) -> None:
    """Workers must run this Python and find our packages, even if only a script's path has them."""
    os.environ["JAVA_HOME"] = str(java_home)
    os.environ["PYSPARK_DRIVER_PYTHON"] = os.environ[_PYTHON] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = _LOOPBACK
    root = str(Path(groupkeeper.__file__).parent.parent)
    known = os.environ.get("PYTHONPATH", "")
    if root not in known.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (root, known)))
