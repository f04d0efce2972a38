"""Writes docs/analytics-tables.md from the schemas of the analysis; `--check` only compares."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from generated import run

from groupkeeper.analytics.schemas import TABLES, Table

PAGE = Path(__file__).with_name("analytics-tables.md")

HEAD = """\
# Tables of an analysis

*Generated from `groupkeeper/analytics/schemas.py` by `make docs`; edit there.*

What `groupkeeper analyze --out FOLDER` writes, for those who query it. Each table is a folder of
Parquet files, in one folder per day (`day=2026-11-22`, UTC). Times are timestamps with millisecond
precision in UTC; columns that end in `_ms` are durations in milliseconds.

`source` is `events` where the coordinator stored what happened, with `confidence` 1. From a plain
`__consumer_offsets` it is `log`: rows are inferred from group records and commits, `confidence`
says how sure that is, and they are complete from `known_from_offset` in `coverage` on.
"""

NAMES = {
    pa.string(): "string",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.timestamp("ms", tz="UTC"): "timestamp",
    pa.list_(pa.string()): "list of string",
    pa.list_(pa.int32()): "list of int",
}


def page() -> str:
    parts = [part for table in TABLES.values() for part in _table(table)]
    return HEAD + "\n".join(parts) + "\n"


def _table(table: Table) -> Iterator[str]:
    yield f"\n## {table.name}\n\n{table.about} Days are those of `{table.day_of}`.\n"
    yield "| column | type | meaning |\n|---|---|---|"
    for each in table.columns:
        yield f"| {each.name} | {NAMES[each.type]} | {each.about} |"


if __name__ == "__main__":
    sys.exit(run(PAGE, page))
