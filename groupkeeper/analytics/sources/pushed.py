"""Filters that Spark hands to a data source (4.1 and later), as what to select.

A selection may have more rows than the filters: Spark applies all of them again.
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

from groupkeeper.analytics.reading.select import EVERYTHING, Selection

_SETS: Final = ("group", "partition", "key_type")
_LATEST: Final = 2**62
_EPOCH: Final = datetime.fromtimestamp(0, UTC)


def selection_of(filters: Iterable[Filter]) -> Selection:
    """What all filters together ask for, as far as a selection can say it."""
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
    if name in ("timestamp_ms", "time"):
        return _times(given, _milliseconds(getattr(given, "value", None)))
    if name == "offset":
        return _offsets(given, getattr(given, "value", None))
    return EVERYTHING


def _only(name: str, values: frozenset[Any]) -> Selection:
    match name:
        case "group":
            return Selection(groups=values)
        case "partition":
            return Selection(partitions=values)
    return Selection(key_types=values)


def _times(given: Filter, value: int | None) -> Selection:
    """`value` is rounded down to milliseconds."""
    if value is None or not -_LATEST < value < _LATEST:
        return EVERYTHING
    match given:
        case EqualTo() | EqualNullSafe():
            return Selection(since=value, until=value + 1)
        case GreaterThan() | GreaterThanOrEqual():
            return Selection(since=value)
        case LessThan() | LessThanOrEqual():
            return Selection(until=value + 1)
    return EVERYTHING


def _offsets(given: Filter, value: Any) -> Selection:
    values = [each for each in (value if isinstance(given, In) else (value,)) if each is not None]
    if not values or not all(-_LATEST < each < _LATEST for each in values):
        return EVERYTHING
    match given:
        case In():
            return Selection(first=min(values), end=max(values) + 1)
        case EqualTo() | EqualNullSafe():
            return Selection(first=value, end=value + 1)
        case GreaterThan() | GreaterThanOrEqual():
            return Selection(first=value)
        case LessThan() | LessThanOrEqual():
            return Selection(end=value + 1)
    return EVERYTHING


def _milliseconds(value: Any) -> int | None:  # of any column's type
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        return (moment - _EPOCH) // timedelta(milliseconds=1)
    return value if isinstance(value, int) else None
