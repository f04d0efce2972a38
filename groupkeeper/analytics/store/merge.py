"""Joins small files of one table and day: runs that find little leave many."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyarrow import parquet

from groupkeeper.analytics.errors import reading
from groupkeeper.analytics.pipeline.output import finished_name
from groupkeeper.analytics.store.days import DAY

MOST_FILES: Final = 32
"""With more small files in a day, the next run that finds something joins them."""
SMALL_BYTES: Final = 8 * 1024 * 1024
_ROWS: Final = 100_000


def merge(folder: Path, staging: Path, run: int) -> list[str]:
    """Writes joined files as those of a run. Returns the files that they replace, as paths in the
    folder. Raises AnalyticsError.
    """
    replaced = []
    for day in folder.glob(f"*/{DAY}=*"):
        small = [path for path in sorted(day.glob("run-*")) if path.stat().st_size < SMALL_BYTES]
        if len(small) > MOST_FILES:
            place = staging / day.relative_to(folder)
            place.mkdir(parents=True, exist_ok=True)
            _join(small, place / f"{finished_name(run, 'merged')}.parquet")
            replaced += [str(path.relative_to(folder)) for path in small]
    return replaced


def _join(paths: Sequence[Path], target: Path) -> None:
    with reading(paths[0]):
        schema = parquet.read_schema(paths[0])
    waiting: list[pa.Table] = []
    with parquet.ParquetWriter(target, schema, compression="zstd") as writer:
        for path in paths:
            with reading(path):
                waiting.append(parquet.ParquetFile(path).read())
            if sum(map(len, waiting)) > _ROWS:
                writer.write_table(pa.concat_tables(waiting))
                waiting.clear()
        if waiting:
            writer.write_table(pa.concat_tables(waiting))
