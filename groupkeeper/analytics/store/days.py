"""The day of a row, by which tables are partitioned on disk."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

import numpy as np
import pyarrow as pa

from groupkeeper.analytics.history.schemas import TABLES
from groupkeeper.history.fields import LAST_MS

DAY: Final = "day"
"""The partition column: `day=2026-11-22`, of UTC."""
NO_DAY: Final = "__HIVE_DEFAULT_PARTITION__"
"""Of rows without that time, as Hive, Spark, Arrow and DuckDB name it: they read null."""
RECORDS: Final = "records"
DAYS: Final[Mapping[str, str]] = {
    **{name: table.day_of for name, table in TABLES.items()},
    RECORDS: "timestamp_ms",
}
"""Table -> the column that says the day: a timestamp, or epoch milliseconds."""
_DAY_MS: Final = 86_400_000


def by_day(rows: pa.Table, column: str) -> Iterator[tuple[str, pa.Table]]:
    """The rows of each day, in their order."""
    times = rows.column(column).cast(pa.int64()).fill_null(-1).to_numpy()
    days = np.where((times >= 0) & (times <= LAST_MS), times // _DAY_MS, -1)
    for day in np.unique(days).tolist():
        is_it = days == day
        name = day_name(day * _DAY_MS) if day >= 0 else NO_DAY
        yield name, rows if is_it.all() else rows.filter(pa.array(is_it))


def day_name(milliseconds: int) -> str:
    """The day of epoch milliseconds."""
    return datetime.fromtimestamp(milliseconds // 1000, UTC).date().isoformat()
