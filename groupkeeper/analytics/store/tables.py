"""Reads the tables of a folder, by the day of their rows, and writes them from the files of
workers.

A file has the rows of one table and day; another one those that a later run replaces. Small files
of earlier runs are merged.
"""

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from pyarrow import dataset, fs, parquet

from groupkeeper.analytics.errors import reading
from groupkeeper.analytics.pipeline.output import OPEN, Passed
from groupkeeper.analytics.reading.columns import SCHEMA
from groupkeeper.analytics.reading.files import AnyPath, located
from groupkeeper.analytics.schemas import TABLES
from groupkeeper.analytics.store.durable import DurableFiles
from groupkeeper.history.fields import LAST_MS

DAY: Final = "day"
"""The partition column: `day=2026-11-22`, of UTC."""
NO_DAY: Final = "__HIVE_DEFAULT_PARTITION__"
"""Folder of rows without that time, as named by Hive, Spark, Arrow and DuckDB, which read null."""
RECORDS: Final = "records"
DAYS: Final[Mapping[str, str]] = {
    **{name: table.day_of for name, table in TABLES.items()},
    RECORDS: "timestamp_ms",
}
"""Table -> the column that determines the day: a timestamp, or epoch milliseconds."""
_DAY_MS: Final = 86_400_000
LASTING: Final = frozenset({"ownership", "sessions", "epochs", "coverage"})
"""Tables whose rows span days: all of their days are read."""


def dataset_of(folder: AnyPath, name: str, since_ms: int | None = None) -> dataset.Dataset:
    """Return the dataset of one table, in a fixed order; may be empty. `folder` holds tables, or
    files of workers.

    With `since_ms` (epoch milliseconds) only rows of that day (UTC) and later ones, and rows
    without a day; files of earlier days are not opened, except those of LASTING tables.
    """
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
    """If reading one of these datasets fails, raise AnalyticsError that names the file."""
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
    """Yield the rows of each day, in their order."""
    times = rows.column(column).cast(pa.int64()).fill_null(-1).to_numpy()
    days = np.where((times >= 0) & (times <= LAST_MS), times // _DAY_MS, -1)
    for day in np.unique(days).tolist():
        is_it = days == day
        name = day_name(day * _DAY_MS) if day >= 0 else NO_DAY
        yield name, rows if is_it.all() else rows.filter(pa.array(is_it))


def day_name(milliseconds: int) -> str:
    """Return the day of epoch milliseconds."""
    return datetime.fromtimestamp(milliseconds // 1000, UTC).date().isoformat()


MOST_FILES: Final = 32
"""With more small files in a day, the next run with new records merges them."""
SMALL_BYTES: Final = 8 * 1024 * 1024
_ROWS: Final = 200_000
"""Maximum number of rows of a table held before writing; those of a day become a row group."""
_SCHEMAS: Final = {name: table.schema for name, table in TABLES.items()} | {RECORDS: SCHEMA}

_Source = Path | str
"""A file of a worker, or a path in the folder of tables."""


def write_tables(
    made: Path, files: DurableFiles, target: str, run: str, old: Mapping[str, int]
) -> list[str]:
    """Write the rows under `made` to the folder `target`. `old`: files of tables -> bytes. Returns
    which of them are thereby replaced. Raises AnalyticsError.
    """
    small: defaultdict[str, list[str]] = defaultdict(list)
    for path, size in old.items():
        if size < SMALL_BYTES and not _is_open(path):
            small[path.rpartition("/")[0]].append(path)
    joined = [path for some in small.values() if len(some) > MOST_FILES for path in some]
    sources: defaultdict[tuple[str, str], list[_Source]] = defaultdict(list)
    for path in joined:
        sources[path.partition("/")[0], run].append(path)
    for source in sorted(made.glob("*/*.arrow")):
        prefix = OPEN if source.name.startswith(OPEN) else run
        sources[source.parent.name, prefix].append(source)
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for _ in threads.map(partial(_write, files, target), sources.items()):
            pass
    if not old:
        _write_empty(files, target, run)
    return [*joined, *filter(_is_open, old)]


def _is_open(path: str) -> bool:
    return path.endswith(f"/{OPEN}.parquet")


def _write(files: DurableFiles, target: str, of: tuple[tuple[str, str], Sequence[_Source]]) -> None:
    """Write one file per day. Few large row groups are faster to read than many small ones."""
    (name, prefix), sources = of
    writers: dict[str, parquet.ParquetWriter] = {}
    waiting: defaultdict[str, list[pa.Table]] = defaultdict(list)
    with ExitStack() as opened:

        def flush() -> None:
            for day, rows in waiting.items():
                if day not in writers:
                    path = f"{target}/{name}/{DAY}={day}/{prefix}.parquet"
                    to = opened.enter_context(files.writer(path))
                    writer = parquet.ParquetWriter(to, _SCHEMAS[name], compression="zstd")
                    writers[day] = opened.enter_context(writer)
                writers[day].write_table(pa.concat_tables(rows))
            waiting.clear()

        held = 0
        for batch in (batch for source in sources for batch in _batches(files, source)):
            for day, rows in by_day(pa.Table.from_batches([batch]), DAYS[name]):
                waiting[day].append(rows)
            held += len(batch)
            if held > _ROWS:
                flush()
                held = 0
        flush()


def _batches(files: DurableFiles, source: _Source) -> Iterator[pa.RecordBatch]:
    if isinstance(source, Path):
        yield from Passed(str(source)).batches()
        return
    with reading(files.place / source), files.system.open_input_file(source) as file:
        yield from parquet.ParquetFile(file).iter_batches()


def _write_empty(files: DurableFiles, target: str, run: str) -> None:
    """Write a file without rows for each table that has no lasting file, so that readers find all
    tables. Its day is one of another table, so that no day is without rows.
    """
    paths = [path.removeprefix(f"{target}/").split("/") for path in files.sizes(target)]
    day = min((day for _, day, _ in paths), default=f"{DAY}={NO_DAY}")
    for name in TABLES.keys() - {name for name, _, file in paths if file != f"{OPEN}.parquet"}:
        sink = pa.BufferOutputStream()
        parquet.write_table(TABLES[name].schema.empty_table(), sink)
        files.write(f"{target}/{name}/{day}/{run}.parquet", bytes(sink.getvalue()))
