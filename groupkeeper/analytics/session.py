"""A local Spark session that finds its Java and Python, listens on loopback only and logs nothing.

On a cluster, users have a session of their own and call `groupkeeper.analytics.register`.
"""

import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, requires
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

import groupkeeper
from groupkeeper.analytics.errors import AnalyticsError
from groupkeeper.analytics.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LIBRARIES: Final = ("pyspark", "pyarrow", "pandas", "numba")
# A small log is read before Java's optimising compiler and code generation pay off.
_SHORT: Final = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
}
_LOOPBACK: Final = "127.0.0.1"
_STDERR: Final = 2


def check_libraries() -> None:
    """AnalyticsError if one of LIBRARIES is not installed."""
    missing = [name for name in LIBRARIES if find_spec(name) is None]
    if missing:
        raise AnalyticsError(f"analyze needs {', '.join(missing)}: {_install_command()}")


def _install_command() -> str:
    """Installs the libraries of the extra `analytics` by their own names: that works in a clone,
    and for a wheel that comes from no index.
    """
    try:
        declared = requires("groupkeeper") or []
    except PackageNotFoundError:  # run from a folder, not installed
        declared = []
    found = [each.partition(";") for each in declared]
    wanted = [
        name.strip() for name, _, extra in found if re.search(r"""["']analytics["']""", extra)
    ]
    python = shlex.quote(sys.executable)
    return f"{python} -m pip install {shlex.join(wanted or LIBRARIES)}"


def local_session(name: str = "groupkeeper-analyze", *, short: bool = False) -> "SparkSession":
    """The active session, or a new one on all cores of this machine, with the source
    `consumer_offsets` registered. The caller stops it.

    `short`: optimise for a fast start instead of throughput. Raises AnalyticsError if Java is
    missing or Spark does not start.
    """
    from pyspark.sql import SparkSession

    from groupkeeper.analytics.source import ConsumerOffsetsSource

    session = SparkSession.getActiveSession() or _start(name, short)
    session.dataSource.register(ConsumerOffsetsSource)
    return session


def _start(name: str, short: bool) -> "SparkSession":
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    cores = os.cpu_count() or 1
    _set_environment(find_java())
    builder = SparkSession.builder.master(f"local[{cores}]").appName(name)
    for key, value in _settings(cores, short).items():
        builder = builder.config(key, value)
    with _quiet_start() as said:
        try:
            session: SparkSession = builder.getOrCreate()
        except (PySparkException, OSError) as error:
            raise AnalyticsError(f"Spark does not start: {_last_line(said) or error}") from error
    session.sparkContext.setLogLevel("ERROR")
    return session


def _set_environment(java_home: Path) -> None:
    """Workers must run this Python and find our packages, even if only a script's path has them."""
    os.environ["JAVA_HOME"] = str(java_home)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = _LOOPBACK
    root = str(Path(groupkeeper.__file__).parent.parent)
    known = os.environ.get("PYTHONPATH", "")
    if root not in known.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (root, known)))


def _settings(cores: int, short: bool) -> dict[str, str]:
    return (_SHORT if short else {}) | {
        "spark.driver.host": _LOOPBACK,
        "spark.driver.bindAddress": _LOOPBACK,
        "spark.driver.memory": os.environ.get("SPARK_DRIVER_MEMORY", "2g"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.catalogImplementation": "in-memory",
    }


@contextmanager
def _quiet_start() -> Iterator[IO[bytes]]:
    """Redirect the standard error of the Java process to a file: it logs there before it reads any
    setting.

    Yields the file. This process's own standard error is restored at the end.
    """
    with tempfile.TemporaryFile() as said:
        sys.stderr.flush()
        ours = os.dup(_STDERR)
        os.dup2(said.fileno(), _STDERR)
        try:
            yield said
        finally:
            os.dup2(ours, _STDERR)
            os.close(ours)


def _last_line(said: IO[bytes]) -> str:
    said.seek(0)
    lines = said.read().decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
