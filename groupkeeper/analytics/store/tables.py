"""Reads the tables of a folder: what questions are asked of."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyarrow import dataset

from groupkeeper.analytics.errors import AnalyticsError, reading
from groupkeeper.analytics.history.schemas import TABLES
from groupkeeper.analytics.store.days import DAY, NO_DAY, day_name
from groupkeeper.analytics.store.progress import NAME, Progress

LASTING: Final = frozenset({"ownership", "sessions", "epochs", "coverage"})
"""Tables whose rows begin at a day and may last: all their days are read."""


def read_tables(
    folder: Path, since_ms: int | None = None, names: Iterable[str] = tuple(TABLES)
) -> dict[str, pa.Table]:
    """See `read_days`, of a folder that `groupkeeper analyze --out` has written. Raises
    AnalyticsError if it is none, or if a run on it has been ended just before its end.
    """
    progress = Progress.read(folder)
    if progress is None:
        raise AnalyticsError(f"{folder} has no {NAME}: name a folder that analyze --out has made")
    if (folder / progress.staging).exists():
        raise AnalyticsError(
            f"an analysis of {folder} is just ending, or was ended: wait, or run it again"
        )
    return read_days(folder, since_ms, names)


def read_days(
    folder: Path, since_ms: int | None = None, names: Iterable[str] = tuple(TABLES)
) -> dict[str, pa.Table]:
    """Table -> its rows, with the columns of its schema, in a fixed order; empty if it has none.

    With `since_ms` (epoch milliseconds) only of days from that one on, of UTC, and those without a
    day: files of other days are not opened, but for tables of LASTING.
    """
    return {name: dataset_of(folder, name, since_ms).to_table() for name in names}


def dataset_of(folder: Path, name: str, since_ms: int | None = None) -> dataset.Dataset:
    """The same of one table, not read yet."""
    first = "" if since_ms is None or name in LASTING else day_name(max(since_ms, 0))
    paths = (folder / name).glob(f"{DAY}=*")
    days = {path: path.name.removeprefix(f"{DAY}=") for path in paths}
    wanted = [path for path, day in sorted(days.items()) if day == NO_DAY or day >= first]
    files = [str(file) for path in wanted for file in sorted(path.glob("*.parquet"))]
    schema = TABLES[name].schema
    if not files:
        return dataset.dataset(schema.empty_table())
    return dataset.dataset(files, schema, format="parquet")


@contextmanager
def read_inside(found: Iterable[dataset.Dataset]) -> Iterator[None]:
    """Raises AnalyticsError, which names the file, if one of what is read inside is broken."""
    try:
        yield
    except (ValueError, OSError):
        for rows in found:
            _check_files(rows)
        raise


def _check_files(rows: dataset.Dataset) -> None:
    for file in rows.get_fragments():
        with reading(getattr(file, "path", "")):
            for _ in file.to_batches(rows.schema):
                pass
