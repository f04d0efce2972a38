"""Makes the files of tables from what the workers of a run have left: one of a table and day, and
one of its rows that a later run replaces. Small ones of earlier runs are joined with it.
"""

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyarrow import parquet

from groupkeeper.analytics.errors import reading
from groupkeeper.analytics.history.schemas import TABLES
from groupkeeper.analytics.pipeline.output import OPEN, Passed
from groupkeeper.analytics.reading.columns import SCHEMA
from groupkeeper.analytics.store.durable import Files
from groupkeeper.analytics.store.tables import DAY, DAYS, NO_DAY, RECORDS, by_day

MOST_FILES: Final = 32
"""With more small files in a day, the next run that finds something joins them."""
SMALL_BYTES: Final = 8 * 1024 * 1024
_ROWS: Final = 200_000
"""So many rows of a table wait for being written; those of a day become a row group."""
_SCHEMAS: Final = {name: table.schema for name, table in TABLES.items()} | {RECORDS: SCHEMA}

Source = Path | str
"""A file of a worker, or one of the folder of tables."""


def write_tables(
    made: Path, files: Files, target: str, run: str, old: Mapping[str, int]
) -> list[str]:
    """Write what is under `made` to the folder `target`. `old`: files of tables, and their bytes.
    Returns which of them are replaced by that. Raises AnalyticsError.
    """
    small: defaultdict[str, list[str]] = defaultdict(list)
    for path, size in old.items():
        if size < SMALL_BYTES and not _is_open(path):
            small[path.rpartition("/")[0]].append(path)
    joined = [path for some in small.values() if len(some) > MOST_FILES for path in some]
    sources: defaultdict[tuple[str, str], list[Source]] = defaultdict(list)
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


def _write(files: Files, target: str, of: tuple[tuple[str, str], Sequence[Source]]) -> None:
    """A file a day. Few large row groups are read faster than many small ones."""
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


def _batches(files: Files, source: Source) -> Iterator[pa.RecordBatch]:
    if isinstance(source, Path):
        yield from Passed(str(source)).batches()
        return
    with reading(files.place / source), files.system.open_input_file(source) as file:
        yield from parquet.ParquetFile(file).iter_batches()


def _write_empty(files: Files, target: str, run: str) -> None:
    """A file without rows for each table that has no other one that stays: readers find all tables.
    Its day is one that another table has, so that nobody meets a day without rows.
    """
    paths = [path.removeprefix(f"{target}/").split("/") for path in files.sizes(target)]
    day = min((day for _, day, _ in paths), default=f"{DAY}={NO_DAY}")
    for name in TABLES.keys() - {name for name, _, file in paths if file != f"{OPEN}.parquet"}:
        sink = pa.BufferOutputStream()
        parquet.write_table(TABLES[name].schema.empty_table(), sink)
        files.write(f"{target}/{name}/{day}/{run}.parquet", bytes(sink.getvalue()))
