"""Counts the errors of answers, by API. Answers without errors are the rest, and not counted.

An answer may have its own error, and one in each of its rows. The places of errors are derived from
the message classes, once.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import chain, islice
from operator import attrgetter
from typing import Any, Final

from groupkeeper.observe.metrics import AnswerErrors
from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.mapped import Bulk, Mapped
from groupkeeper.protocol.message import layout_of
from groupkeeper.protocol.types import ArrayOf, StructOf

ROWS_MOST: Final = 1_000
"""Maximum rows of a kind examined in an answer. If rows are generated during encoding, only one is
examined: a refusal has the same error in each."""

BULK_ROWS_MOST: Final = 100
"""The same for rows that are results for groups, which have rows themselves."""

_TABLES: Final[dict[int, tuple[str, str]]] = {
    ApiKey.OFFSET_COMMIT.value: ("topics", "partitions"),
    ApiKey.PRODUCE.value: ("responses", "partition_responses"),
    ApiKey.FETCH.value: ("responses", "partitions"),
}
"""The most frequent answers except heartbeats: their errors are in nested rows."""

# Any: messages of any class.
_Parts = Sequence[tuple[Callable[[Any], Any], "_Shape"]]
_Shape = tuple[bool, _Parts]
"""Whether messages of a class have their own error, and the parts that have errors."""


def count_errors(counts: AnswerErrors, key: int, response: Any) -> None:
    """Count the errors of an answer of this API, each distinct error once."""
    if key in _TABLES and _is_accepted(response, *_TABLES[key]):
        return
    cls: type = type(response)
    own, parts = _shape_of(cls)
    if not parts and not (own and response.error_code):
        return
    found: set[int] = set()
    if parts:
        _add_errors((response,), own, parts, found)
    else:
        found.add(int(response.error_code))
    if found:
        counts.answers[key] += 1
        for code in found:
            counts.by_code[key, code] += 1


def _is_accepted(response: Any, groups: str, rows: str) -> bool:
    """Return quickly whether an answer in `_TABLES` has no error."""
    left = ROWS_MOST
    if getattr(response, "error_code", 0) or len(getattr(response, groups)) > left:
        return False
    for group in getattr(response, groups):
        found = getattr(group, rows)
        left -= len(found)
        if left < 0:
            return False
        for row in found:
            if row.error_code:
                return False
    return True


@cache
def _shape_of(cls: type) -> _Shape:
    own, parts = False, list[tuple[Callable[[Any], Any], _Shape]]()
    for field in layout_of(cls).fields:
        own = own or field.name == "error_code"
        kind = field.type.item if isinstance(field.type, ArrayOf) else field.type
        if isinstance(kind, StructOf) and any(shape := _shape_of(kind.cls)):
            parts.append((attrgetter(field.name), shape))
    return own, parts


def _add_errors(messages: Sequence[Any], own: bool, parts: _Parts, found: set[int]) -> None:
    if own:
        found.update(int(each.error_code) for each in messages if each.error_code)
    for part, shape in parts:
        rows = chain.from_iterable(_rows(part(each)) for each in messages)
        _add_errors([*islice(rows, ROWS_MOST)], *shape, found)


def _rows(value: Any) -> Iterable[Any]:
    """Return the messages in a field: an array, a single one, or none."""
    if isinstance(value, Mapped):
        return (value[0],) if len(value) else ()
    if isinstance(value, Bulk):
        return islice(value, BULK_ROWS_MOST)
    if isinstance(value, list | tuple):
        return value
    return () if value is None else (value,)
