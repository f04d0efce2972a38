"""The tables of a folder, by the day of their rows, and how questions read them."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

import numpy as np
import pyarrow as pa
from pyarrow import dataset, fs

from groupkeeper.analytics.errors import AnalyticsError, reading
from groupkeeper.analytics.history.schemas import TABLES
from groupkeeper.analytics.reading.files import Place, located
from groupkeeper.analytics.store.durable import Files
from groupkeeper.analytics.store.progress import NAME, read
from groupkeeper.history.fields import LAST_MS

DAY: Final = "day"
"""The partition column: `day=2026-11-22`, of UTC."""
NO_DAY: Final = "__HIVE_DEFAULT_PARTITION__"
"""Of rows without that time, as Hive, Spark, Arrow and DuckDB name it: they read null."""
RECORDS: Final = "records"
DAYS: Final[Mapping[str, str]] = {
    **{name: table.day_of for name, table in TABLES.items()},
    RECORDS: "timestamp_ms",
}
"""Table -> the column that says the day: a timestamp, or epoch milliseconds."""
_DAY_MS: Final = 86_400_000
LASTING: Final = frozenset({"ownership", "sessions", "epochs", "coverage"})
"""Tables whose rows begin at a day and may last: all their days are read."""


def read_tables(
    folder: Place, since_ms: int | None = None, names: Iterable[str] = tuple(TABLES)
) -> dict[str, pa.Table]:
    """See `read_days`, of a folder that `groupkeeper analyze --out` has written. Raises
    AnalyticsError if it is none, or if a run on it has been ended just before its end.
    """
    files = Files(folder)
    found = read(files)
    if found is None:
        raise AnalyticsError(f"{folder} has no {NAME}: name a folder that analyze --out has made")
    if files.sizes(found[0].staged):
        raise AnalyticsError(
            f"an analysis of {folder} is just ending, or was ended: wait, or run it again"
        )
    return read_days(folder, since_ms, names)


def read_days(
    folder: Place, since_ms: int | None = None, names: Iterable[str] = tuple(TABLES)
) -> dict[str, pa.Table]:
    """Table -> its rows, with the columns of its schema, in a fixed order; empty if it has none.

    With `since_ms` (epoch milliseconds) only of days from that one on, of UTC, and those without a
    day: files of other days are not opened, but for tables of LASTING.
    """
    return {name: dataset_of(folder, name, since_ms).to_table() for name in names}


def dataset_of(folder: Place, name: str, since_ms: int | None = None) -> dataset.Dataset:
    """The same of one table, not read yet. `folder` is one of tables, or of what workers left."""
    system, root = located(folder)
    chosen = fs.FileSelector(f"{root}/{name}", allow_not_found=True, recursive=True)
    paths = sorted(each.path for each in system.get_file_info(chosen) if each.is_file)
    if since_ms is not None and name not in LASTING:
        first = day_name(max(since_ms, 0))
        days = {path: path.rpartition(f"/{DAY}=")[2].partition("/")[0] for path in paths}
        paths = [path for path, day in days.items() if day in ("", NO_DAY) or day >= first]
    schema = TABLES[name].schema
    if not paths:
        return dataset.dataset(schema.empty_table())
    kind = "ipc" if paths[0].endswith(".arrow") else "parquet"
    return dataset.dataset(paths, schema, format=kind, filesystem=system)


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


def by_day(rows: pa.Table, column: str) -> Iterator[tuple[str, pa.Table]]:
    """The rows of each day, in their order."""
    times = rows.column(column).cast(pa.int64()).fill_null(-1).to_numpy()
    days = np.where((times >= 0) & (times <= LAST_MS), times // _DAY_MS, -1)
    for day in np.unique(days).tolist():
        is_it = days == day
        name = day_name(day * _DAY_MS) if day >= 0 else NO_DAY
        yield name, rows if is_it.all() else rows.filter(pa.array(is_it))


def day_name(milliseconds: int) -> str:
    """The day of epoch milliseconds."""
    return datetime.fromtimestamp(milliseconds // 1000, UTC).date().isoformat()
