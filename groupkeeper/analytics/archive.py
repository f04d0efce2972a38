"""Writes this package as one zip file, for the workers of a Spark cluster.

    python -m groupkeeper.analytics.archive groupkeeper.zip
    spark-submit --py-files groupkeeper.zip job.py

Workers also need pyarrow and numba.
"""

import os
import sys
from glob import glob
from pathlib import Path
from typing import Final
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import groupkeeper
from groupkeeper.analytics.errors import AnalyticsError

ROOT: Final = Path(groupkeeper.__file__).parent
_PACKED: Final = (".py", ".css", ".js", ".sql")
_TIME: Final = (1980, 1, 1, 0, 0, 0)
"""Constant, so that equal files make equal archives."""


def write_archive(target: Path) -> None:
    """Write the zip file atomically. Raises AnalyticsError."""
    attempt = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with ZipFile(attempt, "w", ZIP_DEFLATED) as archive:
            for name in sorted(glob("**", root_dir=ROOT, recursive=True)):  # also through links
                if name.endswith(_PACKED):
                    entry = ZipInfo(f"groupkeeper/{name}", _TIME)
                    entry.compress_type = ZIP_DEFLATED
                    archive.writestr(entry, (ROOT / name).read_bytes())
        os.replace(attempt, target)
    except OSError as error:
        attempt.unlink(missing_ok=True)
        raise AnalyticsError(f"cannot write {target}: {error.strerror}") from error


def main(arguments: list[str]) -> int:
    """Return the exit code: 2, after one line on stderr, if the file cannot be written."""
    if arguments in (["-h"], ["--help"]):
        print(__doc__.rstrip())  # noqa: T201  # the command's help
        return 0
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print(__doc__, file=sys.stderr)  # noqa: T201  # the command's help
        return 2
    try:
        write_archive(Path(arguments[0]))
    except AnalyticsError as error:
        print(f"groupkeeper: {error}", file=sys.stderr)  # noqa: T201  # the command's error line
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
