"""Converts the filters that Spark (4.1 and later) passes to a data source into a selection.

A selection may include more rows than the filters: Spark applies all filters again.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from groupkeeper.analytics.reading.plan import EVERYTHING, Selection

_SETS: Final = ("group", "partition", "key_type")
_LATEST: Final = 2**62
_EPOCH: Final = datetime.fromtimestamp(0, UTC)


def selection_of(filters: Iterable[Filter]) -> Selection:
    """Return the selection for all filters together, as far as a selection can express them."""
    selection = EVERYTHING
    for each in filters:
        selection = selection.within(_selected(each))
    return selection


def _selected(given: Filter) -> Selection:
    name = given.attribute[0] if len(getattr(given, "attribute", ())) == 1 else ""
    if name in _SETS and isinstance(given, EqualTo | EqualNullSafe | In):
        values = given.value if isinstance(given, In) else (given.value,)
        wanted = frozenset(value for value in values if value is not None)
        return _only(name, wanted) if wanted else EVERYTHING
    if name in ("timestamp_ms", "time", "offset"):
        low, high = _range(given)
        return (
            Selection(first=low, end=high) if name == "offset" else Selection(since=low, until=high)
        )
    return EVERYTHING


def _only(name: str, values: frozenset[Any]) -> Selection:
    match name:
        case "group":
            return Selection(groups=values)
        case "partition":
            return Selection(partitions=values)
    return Selection(key_types=values)


def _range(given: Filter) -> tuple[int | None, int | None]:
    """Return the range [low, high) of values that pass a filter; None is unbounded. Times are in
    milliseconds, rounded down.
    """
    value: Any = getattr(given, "value", None)
    values = [_number(each) for each in (value if isinstance(given, In) else (value,))]
    known = [each for each in values if each is not None]
    if not known or not all(-_LATEST < each < _LATEST for each in known):
        return None, None
    match given:
        case EqualTo() | EqualNullSafe() | In():
            return min(known), max(known) + 1
        case GreaterThan() | GreaterThanOrEqual():
            return known[0], None
        case LessThan() | LessThanOrEqual():
            return None, known[0] + 1
    return None, None


def _number(value: Any) -> int | None:  # of any column's type
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        return (moment - _EPOCH) // timedelta(milliseconds=1)
    return value if isinstance(value, int) else None
