"""Limits the printed tables to a choice of rows, and exports them as JSON lines or CSV files."""

import csv
import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from groupkeeper.analytics.command.request import Choice

PrintedTables = dict[str, pa.Table]

_TIMES: Final = {"groups": "last_change", "generations": "time", "offsets": "commit_time"}
"""Table to the column that `since` applies to."""
_ROWS: Final = 10_000
"""Maximum number of rows that are Python objects at a time."""
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""First characters of text that spreadsheets take for a formula."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def chosen(choice: Choice, tables: PrintedTables) -> PrintedTables:
    """Apply `since` and `top` of the choice; groups are already selected when the log is read."""
    if choice.since_ms is not None:
        tables = _since(tables, choice.since_ms)
    if choice.top is not None:
        tables = _of_busiest(tables, choice.top)
    return tables


def _since(tables: PrintedTables, since_ms: int) -> PrintedTables:
    """Keep groups with a change or commit since then, their members, and later generations and
    commits.
    """
    later = {}
    for name, time in _TIMES.items():
        column = tables[name].column(time)
        start = pa.scalar(since_ms, column.type)
        later[name] = tables[name].filter(pc.greater_equal(column, start))
    names = [later[name].column("group") for name in ("groups", "offsets")]
    chunks = [chunk.cast(pa.string()) for each in names for chunk in each.chunks]
    touched = pa.chunked_array(chunks, pa.string()).combine_chunks()
    return tables | later | {name: rows_of(tables[name], touched) for name in ("groups", "members")}


def rows_of(table: pa.Table, groups: pa.Array) -> pa.Table:
    """Return the rows of these groups."""
    return table.filter(pc.is_in(table.column("group"), groups.cast(pa.string())))


def _of_busiest(tables: PrintedTables, top: int) -> PrintedTables:
    """Keep the rows of the `top` groups with the most generations, then with the latest change, and
    put `groups` in this order. A generation with several rows counts once.
    """
    reached = tables["generations"].filter(pc.greater(tables["generations"]["generation"], 0))
    counted = reached.group_by("group").aggregate([("generation", "count_distinct")])
    counts = {row["group"]: row["generation_count_distinct"] for row in counted.to_pylist()}
    names = tables["groups"].column("group").to_pylist()
    times = tables["groups"].column("last_change").cast(pa.int64()).to_pylist()
    order = sorted(
        range(len(names)), key=lambda at: (-counts.get(names[at], 0), -(times[at] or 0), names[at])
    )
    groups = tables["groups"].take(pa.array(order[:top], pa.int64()))
    wanted = groups.column("group").combine_chunks()
    return {name: rows_of(each, wanted) for name, each in tables.items()} | {"groups": groups}


def print_json(tables: PrintedTables) -> None:
    """Print one object per row, with the name of its table; times in ISO 8601, UTC."""
    for name, table in tables.items():
        for row in _rows(table):
            sys.stdout.write(_json({"table": name, **row}) + "\n")


def write_csv(tables: PrintedTables, folder: Path) -> None:
    """Write `<table>.csv` with a header line; lists as JSON, times in ISO 8601, null as empty."""
    for name, table in tables.items():
        with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(table.column_names)
            writer.writerows([_cell(value) for value in row.values()] for row in _rows(table))


def _rows(table: pa.Table) -> Iterator[dict[str, object]]:
    """Yield rows with times as ISO 8601, to the millisecond."""
    for at, each in enumerate(table.schema):
        if pa.types.is_timestamp(each.type):
            numbers = table.column(at).cast(pa.int64())
            texts = pa.array(map(iso, numbers.to_pylist()), pa.string())
            table = table.set_column(at, each.name, texts)
    for start in range(0, len(table), _ROWS):
        yield from table.slice(start, _ROWS).to_pylist()


def iso(milliseconds: int | None) -> str | None:
    """Return epoch milliseconds as ISO 8601."""
    if milliseconds is None:
        return None
    moment = _EPOCH + timedelta(milliseconds=milliseconds)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{milliseconds % 1000:03d}Z"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _cell(value: object) -> object:
    """Return the value of a cell. A quote is put before text that looks like a formula: names are
    chosen by clients.
    """
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return _json(value) if isinstance(value, bool | list) else value
