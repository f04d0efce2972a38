"""Folds logs: what `PartitionHistory` makes of the segments of one partition."""

from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from groupkeeper.analytics.pipeline.feed import (
    commit_runs,
    group_records,
    in_order,
    runs,
    spans,
    spans_of,
)
from groupkeeper.analytics.reading import parse, parse_split
from groupkeeper.analytics.reading.plan import Split, plan
from groupkeeper.analytics.schemas import TABLES
from groupkeeper.history.partition import Fed, PartitionHistory
from groupkeeper.history.rows import ALL, KnownOffsets, Rows

Cut = Callable[[PartitionHistory], PartitionHistory]


def parsed(data: bytes) -> pa.Table:
    """The rows of a log, its bytes given."""
    split = Split("log", 0, 0, len(data), last=True)
    return pa.Table.from_batches(parse(data, split))


def read(folder: Path) -> dict[int, pa.Table]:
    """The rows of all segments in a folder, by partition."""
    found: dict[int, list[pa.RecordBatch]] = {}
    for chunk in plan([folder]).chunks:
        for split in chunk:
            found.setdefault(split.partition, []).extend(parse_split(split))
    return {number: pa.Table.from_batches(batches) for number, batches in found.items()}


def fed(table: pa.Table) -> list[Fed]:
    """What a fold is given of these rows, in order."""
    return [*in_order(group_records(table), runs(commit_runs(table)), spans(spans_of(table)))]


def rows_of(
    feed: Iterable[Fed],
    known: KnownOffsets = ALL,
    cut: Cut | None = None,
    left_out: Collection[str] = (),
) -> Rows:
    """All rows, the open ones behind the others; `cut` may replace the fold before each batch."""
    fold, rows, batch = PartitionHistory(0, known, left_out=left_out), {}, None
    for each in feed:
        now = getattr(each, "batch", each)
        if cut is not None and now != batch:
            extend(rows, fold.take())
            fold = cut(fold)
        batch = now
        fold.add(each)
    extend(rows, fold.take())
    extend(rows, fold.open())
    return rows


def extend(rows: dict[str, list[Any]], more: Rows) -> None:
    """Add rows to those that are there, with all columns."""
    for name, each in more.items():
        columns = dict.fromkeys(TABLES[name].schema.names)
        rows.setdefault(name, []).extend(columns | row for row in each)
