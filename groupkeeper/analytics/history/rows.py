"""Rows of `groupkeeper.history` as Arrow tables."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from groupkeeper.analytics.history.schemas import TABLES
from groupkeeper.history.fields import LAST_MS


def table_of(name: str, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """An Arrow table with the schema of the table of that name.

    A column that a row leaves out is null. Texts and numbers come from logs that anybody may have
    written: half a surrogate pair is escaped, and a number that does not fit is null. Raises
    ValueError with one line if a row has a column that the table has not, or a value of another
    kind.
    """
    schema = TABLES[name].schema
    if strange := set().union(*rows).difference(schema.names):
        raise ValueError(f"a row of {name}: unknown columns {', '.join(sorted(strange))}")
    return pa.table([_column(name, field, rows) for field in schema], schema=schema)


def _column(name: str, field: pa.Field, rows: Sequence[Mapping[str, Any]]) -> pa.Array:
    column = field.name  # pyarrow makes a new text whenever it is asked
    values = [row.get(column) for row in rows]
    try:
        made = pa.array(values, field.type)
        if not pa.types.is_timestamp(field.type) or _are_times(made):
            return made
        values = [fitting(value, field.type) for value in values]
    except (pa.ArrowInvalid, OverflowError, UnicodeEncodeError):
        values = [fitting(value, field.type) for value in values]
    except (pa.ArrowTypeError, TypeError) as error:
        raise ValueError(f"column {column} of {name}: {error}") from None
    try:
        return pa.array(values, field.type)
    except (pa.ArrowException, TypeError) as error:
        raise ValueError(f"column {column} of {name}: {error}") from None


def _are_times(column: pa.Array) -> bool:
    """Whether all of them are in the years 1970 to 9999."""
    found = pc.min_max(column.cast(pa.int64())).as_py()
    return found["min"] is None or (found["min"] >= 0 and found["max"] <= LAST_MS)


def fitting(value: Any, kind: pa.DataType) -> Any:
    """The value as it can be stored, if it is of that kind."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, list):
        return [fitting(each, kind.value_type) for each in value]
    if isinstance(value, int) and not isinstance(value, bool):
        if pa.types.is_timestamp(kind):
            return value if 0 <= value <= LAST_MS else None
        limit = 1 << (kind.bit_width - 1)
        return value if -limit <= value < limit else None
    return value
