"""What the folds of `groupkeeper.analytics.history` need of many records, as rows for the second
stage: runs of commits, spans of leader epochs, and where records were lost.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from groupkeeper.analytics.history.feed import run_rows, spans_of
from groupkeeper.analytics.history.schemas import INT, LONG
from groupkeeper.analytics.pipeline.output import slices
from groupkeeper.analytics.reading.problems import Problem, is_damage
from groupkeeper.history.coverage import Span
from groupkeeper.history.records import CommitRun

SPANS: Final = pa.schema(
    [
        ("first_offset", LONG),
        ("last_offset", LONG),
        ("whole_from", LONG),
        ("whole_ms", LONG),
        ("leader_epoch", INT),
        ("first_ms", LONG),
        ("last_ms", LONG),
        ("records", LONG),
    ]
)
"""Fields of Span."""
_ROWS: Final = 20_000


def span_rows(records: pa.Table) -> pa.Table:
    """Rows of SPANS of records in the order of the log."""
    found = spans_of(records)
    columns = zip(*found, strict=True) if found else ([] for _ in SPANS)
    arrays = [pa.array(each, field.type) for each, field in zip(columns, SPANS, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SPANS)


def runs(rows: pa.Table) -> Iterator[CommitRun]:
    """The runs of rows of RUNS, by their first offset."""
    for few in slices(rows.sort_by("first_offset"), _ROWS):
        yield from run_rows(few)


def spans(rows: pa.Table) -> Iterator[Span]:
    """The spans of rows of SPANS, by their first offset."""
    for few in slices(rows.sort_by("first_offset"), _ROWS):
        yield from map(Span._make, zip(*(each.to_pylist() for each in few.columns), strict=True))


class Gaps:
    """Where records of one split were lost."""

    def __init__(self) -> None:
        self._places: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = []
        """Positions and first offsets of batches with records."""
        self._damaged: list[int] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Rows of the parser, in the order of the file; those about damage may come later."""
        offsets = batch.column("offset")
        records = offsets.is_valid().to_numpy(zero_copy_only=False)
        positions = batch.column("batch_position").fill_null(-1).to_numpy()
        if not records.all():
            texts = batch.column("problem").filter(pa.array(~records)).to_pylist()
            told = zip(texts, positions[~records].tolist(), strict=True)
            self._damaged += [position for text, position in told if _is_lost(text)]
        found = positions[records]
        if len(found):
            starts = np.flatnonzero(np.r_[True, np.diff(found) != 0])
            numbers = offsets.drop_null().to_numpy()
            self._places.append(np.stack((found[starts], numbers[starts])))

    def lost_until(self) -> list[int]:
        """Offsets of the first records behind what was lost."""
        if not self._damaged or not self._places:
            return []
        positions, offsets = np.concatenate(self._places, axis=1)
        at = np.searchsorted(positions, sorted(self._damaged))
        return sorted({int(offsets[each]) for each in at if each < len(offsets)})


def _is_lost(problem: str) -> bool:
    if problem.startswith(Problem.REMOVED.text):
        return True
    return is_damage(problem) and problem != Problem.BAD_EPOCH.text
