"""The Spark session of a command: that of spark-submit, one on a given master, or a local one,
which finds its Java and Python, listens on loopback only and logs nothing.

Notebooks have a session of their own and call `groupkeeper.analytics.register`.
"""

import atexit
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

import groupkeeper
from groupkeeper.analytics.archive import write_archive
from groupkeeper.analytics.errors import AnalyticsError, SparkFailed
from groupkeeper.analytics.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A small log is read before Java's optimising compiler and code generation pay off.
_SHORT: Final = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
}
_EXCEPTION: Final = re.compile(r"(: |Caused by: )?[\w.$]*(Error|Exception): ")
_LOOPBACK: Final = "127.0.0.1"
_STDERR: Final = 2
_PYTHON: Final = "PYSPARK_PYTHON"
"""What a context's workers run, as it was when the context was made; else `_DEFAULT_PYTHON`."""
_DEFAULT_PYTHON: Final = "python3"
_GATEWAY: Final = "PYSPARK_GATEWAY_PORT"
"""Set by spark-submit, whose Java process has the settings, the master included."""


def is_submitted() -> bool:
    """Whether this process runs under spark-submit."""
    return _GATEWAY in os.environ


def open_session(
    name: str = "groupkeeper-analyze", *, short: bool = False, master: str | None = None
) -> "SparkSession":
    """The active session, or a new one with the sources registered. The caller
    stops it.

    It runs on `master` (Spark's URL, or local[N]); without one where spark-submit says, or else on
    all cores of this machine. `short`: optimise for a fast start instead of throughput. Raises
    AnalyticsError if Java is missing or Spark does not start.
    """
    from pyspark.sql import SparkSession

    from groupkeeper.analytics.sources.formats import register_sources

    session = SparkSession.getActiveSession()
    if session is None:
        session = _start(master, name, short)
        if master is not None and not is_local(master):
            _send_package(session)
    register_sources(session)
    return session


@contextmanager
def failures_as_one_line() -> Iterator[None]:
    """Raise SparkFailed, with the line that says why, for what Spark and Java raise."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError, OSError) as error:
        raise SparkFailed(f"Spark failed: {_reason(str(error))}") from error


def _reason(text: str) -> str:
    """The most telling line: the last one of a Python traceback, or the first one of Java's."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if _EXCEPTION.match(line)]
    return (named or lines or ["no reason given"])[-1 if named else 0].lstrip(": ")


def _start(master: str | None, name: str, short: bool) -> "SparkSession":
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    submitted = is_submitted()
    if master is None and not submitted:
        master = f"local[{os.cpu_count() or 1}]"
    if not submitted:
        _set_environment(find_java(), is_local=is_local(master))
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    for key, value in settings_for(master, short=short, submitted=submitted).items():
        builder = builder.config(key, value)
    with _quiet_start() as said:
        try:
            session: SparkSession = builder.getOrCreate()
        except (PySparkException, OSError) as error:
            raise AnalyticsError(f"Spark does not start: {_last_line(said) or error}") from error
    session.sparkContext.setLogLevel("ERROR")
    return session


def _send_package(session: "SparkSession") -> None:
    """To the workers of a cluster, which need not have it installed. With spark-submit it is in the
    archive that the user names.
    """
    folder = tempfile.mkdtemp(prefix="groupkeeper-")
    # Spark serves the file from where it is, for as long as the session lasts.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    archive = Path(folder, "groupkeeper.zip")
    write_archive(archive)
    session.sparkContext.addPyFile(str(archive))


def is_local(master: str | None) -> bool:
    return master is not None and master.startswith("local") and "cluster" not in master


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


def settings_for(master: str | None, *, short: bool, submitted: bool) -> dict[str, str]:
    """Spark's settings. Those of spark-submit and of a cluster's configuration are left alone."""
    settings = {"spark.sql.session.timeZone": "UTC", "spark.ui.showConsoleProgress": "false"}
    if submitted:
        return settings
    settings |= {
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
