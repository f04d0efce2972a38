"""What becomes of rows about damage, by the option `mode`."""

import logging
from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from groupkeeper.analytics.errors import AnalyticsError
from groupkeeper.analytics.reading.problems import is_damage
from groupkeeper.analytics.sources.options import Mode

NEEDED: Final = ("partition", "batch_position", "offset", "problem", "problem_bytes")
"""Columns that the modes but `rows` look at."""

_log: Final = logging.getLogger(__name__)


def treated(
    batches: Iterable[pa.RecordBatch], mode: Mode, names: list[str], place: str
) -> Iterator[pa.RecordBatch]:
    """Batches with NEEDED and the columns `names` -> those columns. `place` is the file.

    `drop` leaves out all rows with a problem, and logs how many there were; `fail` raises
    AnalyticsError at the first one that tells of damage, and leaves out the others.
    """
    rows = size = 0
    for batch in batches:
        is_sound = pc.is_null(batch.column("problem"))
        dropped = batch.filter(pc.invert(is_sound)) if pc.any(pc.invert(is_sound)).as_py() else None
        if dropped is not None:
            told = dropped.select(NEEDED).to_pylist()
            if mode == "fail":
                _fail(told, place)
            damaged = [row for row in told if is_damage(row["problem"])]
            rows += len(damaged)
            size += sum(row["problem_bytes"] or 0 for row in damaged)
            batch = batch.filter(is_sound)  # noqa: PLW2901  # what is left of it
        if batch.num_rows:
            yield batch.select(names)
    if rows:
        _log.warning("%s: dropped %d damaged places or records, %d bytes", place, rows, size)


def _fail(rows: list[dict[str, object]], place: str) -> None:
    for row in rows:
        if is_damage(str(row["problem"])):
            at = "position {batch_position}" if row["offset"] is None else "offset {offset}"
            raise AnalyticsError(
                f"{place}, partition {row['partition']}, {at.format(**row)}: {row['problem']} "
                "(mode=rows tells all that is damaged, mode=drop leaves it out)"
            )
