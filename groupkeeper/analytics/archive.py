"""Writes this package as one zip file, for the workers of a Spark cluster.

    python -m groupkeeper.analytics.archive groupkeeper.zip
    spark-submit --py-files groupkeeper.zip job.py

Workers also need pyarrow and numba.
"""

import argparse
from glob import glob
from pathlib import Path
from typing import Final
from zipfile import ZIP_DEFLATED, ZipFile

import groupkeeper

ROOT: Final = Path(groupkeeper.__file__).parent
_PACKED: Final = (".py", ".css", ".js", ".sql")


def main() -> None:
    """Write the zip file named by the argument. Exits with 2 if it cannot be written."""
    options = argparse.ArgumentParser(
        prog="python -m groupkeeper.analytics.archive", description=__doc__.partition("\n")[0]
    )
    options.add_argument("target", help="the zip file, for --py-files of spark-submit")
    target = Path(options.parse_args().target)
    try:
        with ZipFile(target, "w", ZIP_DEFLATED, strict_timestamps=False) as archive:
            for name in sorted(glob("**", root_dir=ROOT, recursive=True)):  # also through links
                if name.endswith(_PACKED):
                    archive.write(ROOT / name, f"groupkeeper/{name}")
    except OSError as error:
        options.error(f"cannot write {target}: {error.strerror}")


if __name__ == "__main__":
    main()
