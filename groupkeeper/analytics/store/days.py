"""The day of a row, by which tables are partitioned on disk."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from groupkeeper.analytics.history.schemas import TABLES
from groupkeeper.why.fields import LAST_MS

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


def with_day(rows: pa.RecordBatch, column: str) -> pa.RecordBatch:
    """With a column more; null where the time is."""
    times = rows.column(column).cast(pa.int64())
    is_known = pc.and_(pc.greater_equal(times, 0), pc.less_equal(times, LAST_MS))
    known = pc.if_else(is_known, times, pa.scalar(None, pa.int64()))
    return rows.append_column(DAY, known.cast(pa.timestamp("ms")).cast(pa.date32()))


def day_name(milliseconds: int) -> str:
    """The day of epoch milliseconds."""
    return datetime.fromtimestamp(milliseconds // 1000, UTC).date().isoformat()
