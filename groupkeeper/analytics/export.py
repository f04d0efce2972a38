"""What of the tables is wanted, and how they leave: JSON lines, or CSV files."""

import csv
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# ISO 8601 with a zone; sessions of ours are in UTC.
_INSTANT: Final = "yyyy-MM-dd'T'HH:mm:ss.SSSX"
_TIMES: Final = {"groups": "last_change", "generations": "time", "offsets": "commit_time"}

Tables = dict[str, "DataFrame"]


@dataclass(frozen=True, slots=True)
class Choice:
    """`groups`: only these, if any is named; `since_ms`: only what happened from then on (epoch
    milliseconds); `top`: only so many groups, those with the most generations.
    """

    groups: frozenset[str] = frozenset()
    since_ms: int | None = None
    top: int | None = None

    def of(self, tables: Tables) -> Tables:
        """The same tables with fewer rows. Those of other groups are left out where they are read:
        see `groupkeeper.analytics.reduce`.
        """
        if self.since_ms is not None:
            tables = _since(tables, self.since_ms)
        if self.top is not None:
            tables = _of_busiest(tables, self.top)
        return tables


@dataclass(frozen=True, slots=True)
class Request:
    """What is wanted of an analysis: Parquet files in the folder `out`, CSV files in the folder
    `csv`, lines of JSON instead of the report, and a choice of rows. `partition` is that of
    segments in no partition folder, `master` says where Spark runs.
    """

    out: Path | None = None
    csv: Path | None = None
    as_json: bool = False
    partition: int | None = None
    master: str | None = None
    choice: Choice = field(default_factory=Choice)


def _since(tables: Tables, since_ms: int) -> Tables:
    """Groups that have changed since, their members, and later generations and commits."""
    from pyspark.sql import functions as F  # noqa: N812  # its usual name

    start = F.timestamp_millis(F.lit(since_ms))
    later = {name: tables[name].where(F.col(time) >= start) for name, time in _TIMES.items()}
    touched = later["groups"].select("group")
    touched = touched.union(later["offsets"].select("group")).distinct()
    groups, members = (
        tables[name].join(touched, "group", "left_semi") for name in ("groups", "members")
    )
    ordered = members.orderBy("group", "client_id", "member_id")
    return tables | later | {"groups": groups.orderBy("group"), "members": ordered}


def _of_busiest(tables: Tables, top: int) -> Tables:
    """`groups` has them in this order, the one with the most generations first."""
    from pyspark.sql import functions as F  # noqa: N812  # its usual name

    counts = tables["generations"].groupBy("group").agg(F.count("*").alias("busy"))
    groups = tables["groups"].join(counts, "group", "left")
    groups = groups.orderBy(F.desc_nulls_last("busy"), "group").limit(top).drop("busy")
    names = [row["group"] for row in groups.select("group").collect()]
    few = {name: each.where(F.col("group").isin(names)) for name, each in tables.items()}
    return few | {"groups": groups}


def print_json(tables: Tables) -> None:
    """One object a line, with the name of its table; times in ISO 8601, UTC."""
    from pyspark.sql import functions as F  # noqa: N812  # its usual name

    how = {"ignoreNullFields": "false", "timestampFormat": _INSTANT}
    for name, table in tables.items():
        row = F.to_json(F.struct(F.lit(name).alias("table"), *map(_quoted, table.columns)), how)
        for line in table.select(row.alias("line")).toLocalIterator():
            sys.stdout.write(line["line"] + "\n")


def write_csv(tables: Tables, folder: Path) -> None:
    """`<table>.csv` with a heading line; lists as JSON, times in ISO 8601, null as nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(table.columns)
            writer.writerows(_lines(table))


def _lines(table: "DataFrame") -> Iterator[tuple[str | None, ...]]:
    kinds = dict(table.dtypes)
    cells = [_cell(name, kinds[name]).alias(name) for name in table.columns]
    for row in table.select(*cells).toLocalIterator():
        yield tuple(row)


def _cell(name: str, kind: str) -> "Column":
    from pyspark.sql import functions as F  # noqa: N812  # its usual name

    column = _quoted(name)
    if kind == "timestamp":
        return F.date_format(column, _INSTANT)
    return F.to_json(column) if kind.startswith("array") else column.cast("string")


def _quoted(name: str) -> "Column":
    from pyspark.sql import functions as F  # noqa: N812  # its usual name

    return F.col(f"`{name}`")
