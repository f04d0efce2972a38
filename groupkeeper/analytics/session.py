"""Sessions of Spark that this process starts: a local one finds its Java and Python, and listens on
loopback only. Notebooks, spark-submit and clusters bring a session of their own.
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import groupkeeper
from groupkeeper.analytics.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A small log is read before Java's optimising compiler and code generation pay off.
_SHORT: Final = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
}
_LOOPBACK: Final = "127.0.0.1"
_PYTHON: Final = "PYSPARK_PYTHON"
"""Of a context's workers, as it was when the context was made; else `_DEFAULT_PYTHON`."""
_DEFAULT_PYTHON: Final = "python3"
_GATEWAY: Final = "PYSPARK_GATEWAY_PORT"
"""Set by spark-submit, whose Java process has the settings, the master included."""


def builder(name: str, master: str | None = None, *, short: bool = False) -> "SparkSession.Builder":
    """A builder of the session of a job. Under spark-submit nothing but its name is set; else it
    runs on `master` (Spark's URL), or all cores of this machine. `short`: optimise a local session
    for a fast start instead of throughput. Raises AnalyticsError if there is no Java.
    """
    from pyspark.sql import SparkSession

    found = SparkSession.builder.appName(name)
    if _GATEWAY in os.environ:
        return found
    master = master or f"local[{os.cpu_count() or 1}]"
    _set_environment(find_java(), is_local=is_local(master))
    for key, value in settings_for(master, short=short).items():
        found = found.config(key, value)
    return found.master(master)


def is_local(master: str) -> bool:
    """Whether the workers are threads and processes of this machine."""
    return master.startswith("local") and "cluster" not in master


def run_this_python(session: "SparkSession") -> None:
    """Let local workers of a session run this interpreter. PYSPARK_PYTHON, Spark's settings and
    another choice of the context go first; a cluster may not have this one.
    """
    context = getattr(session, "sparkContext", None) if _is_classic(session) else None
    if context is None or not is_local(context.master):
        return
    is_named = os.environ.get(_PYTHON) or context.getConf().get("spark.pyspark.python")
    if not is_named and context.pythonExec == _DEFAULT_PYTHON:
        context.pythonExec = sys.executable


def _is_classic(session: "SparkSession") -> bool:
    """Not one of Spark Connect, whose server runs the workers."""
    return "connect" not in type(session).__module__


def _set_environment(java_home: Path, *, is_local: bool) -> None:
    """Local workers must run this Python and find our packages, even if only a script's path has
    them; those of a cluster run what they have, or what PYSPARK_PYTHON names.
    """
    os.environ["JAVA_HOME"] = str(java_home)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if not is_local:
        os.environ.setdefault(_PYTHON, sys.executable)
        return
    os.environ[_PYTHON] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = _LOOPBACK
    root = str(Path(groupkeeper.__file__).parent.parent)
    known = os.environ.get("PYTHONPATH", "")
    if root not in known.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (root, known)))


def settings_for(master: str, *, short: bool) -> dict[str, str]:
    """Spark's settings of a session that this process starts."""
    settings = {
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": os.environ.get("SPARK_DRIVER_MEMORY", "2g"),
        "spark.ui.enabled": "false",
        "spark.sql.catalogImplementation": "in-memory",
    }
    if is_local(master):
        settings |= (_SHORT if short else {}) | {
            "spark.driver.host": _LOOPBACK,
            "spark.driver.bindAddress": _LOOPBACK,
            "spark.sql.shuffle.partitions": str(os.cpu_count() or 1),
        }
    return settings
