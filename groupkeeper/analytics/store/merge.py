"""Makes the files of tables from what the workers of a run have left: one of a table and day, and
one of its rows that a later run replaces. Small ones of earlier runs are joined with it.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyarrow import dataset, parquet

from groupkeeper.analytics.errors import reading
from groupkeeper.analytics.history.schemas import TABLES
from groupkeeper.analytics.pipeline.output import OPEN, Passed
from groupkeeper.analytics.reading.columns import SCHEMA
from groupkeeper.analytics.store.days import DAY, DAYS, NO_DAY, RECORDS, with_day
from groupkeeper.analytics.store.durable import Files

MOST_FILES: Final = 32
"""With more small files in a day, the next run that finds something joins them."""
SMALL_BYTES: Final = 8 * 1024 * 1024
_ROWS: Final = 100_000
"""A row group has at least as many, but for the last ones of a file."""
_OPEN_FILES: Final = 200
_SCHEMAS: Final = {name: table.schema for name, table in TABLES.items()} | {RECORDS: SCHEMA}
_BY_DAY: Final = pa.field(DAY, pa.date32())

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
    for name in _SCHEMAS:
        found: dict[str, list[Source]] = {run: [], OPEN: []}
        found[run] += [path for path in joined if path.startswith(f"{name}/")]
        for source in sorted(Path(made, name).glob("*.arrow")):
            found[OPEN if source.name.startswith(OPEN) else run].append(source)
        for prefix, sources in found.items():
            _write(files, f"{target}/{name}", prefix, sources)
    if not old:
        _write_empty(files, target, run)
    return [*joined, *filter(_is_open, old)]


def _is_open(path: str) -> bool:
    return path.rpartition("/")[2].startswith(OPEN)


def _write(files: Files, target: str, prefix: str, sources: Sequence[Source]) -> None:
    """A file a day."""
    name = target.rpartition("/")[2]
    dataset.write_dataset(
        (with_day(batch, DAYS[name]) for each in sources for batch in _batches(files, each)),
        target,
        schema=_SCHEMAS[name].append(_BY_DAY),
        filesystem=files.system,
        format="parquet",
        partitioning=dataset.partitioning(pa.schema([_BY_DAY]), flavor="hive"),
        basename_template=f"{prefix}-{{i}}.parquet",
        file_options=dataset.ParquetFileFormat().make_write_options(compression="zstd"),
        preserve_order=True,
        max_partitions=2**31 - 1,
        max_open_files=_OPEN_FILES,
        min_rows_per_group=_ROWS,
        max_rows_per_group=10 * _ROWS,
        existing_data_behavior="overwrite_or_ignore",
        create_dir=files.has_folders,
    )


def _batches(files: Files, source: Source) -> Iterator[pa.RecordBatch]:
    if isinstance(source, Path):
        yield from Passed(str(source)).batches()
        return
    with reading(files.place / source), files.system.open_input_file(source) as file:
        yield from parquet.ParquetFile(file).iter_batches(_ROWS)


def _write_empty(files: Files, target: str, run: str) -> None:
    """A file without rows for each table that has no other one that stays: readers find all tables.
    Its day is one that another table has, so that nobody meets a day without rows.
    """
    paths = [path.removeprefix(f"{target}/").split("/") for path in files.sizes(target)]
    day = min((day for _, day, _ in paths), default=f"{DAY}={NO_DAY}")
    for name in TABLES.keys() - {name for name, _, file in paths if not _is_open(file)}:
        sink = pa.BufferOutputStream()
        parquet.write_table(TABLES[name].schema.empty_table(), sink)
        files.write(f"{target}/{name}/{day}/{run}-0.parquet", bytes(sink.getvalue()))
