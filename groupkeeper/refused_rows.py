"""Builds error responses with the same error in each row, for APIs without a top-level error code.

Each row of the request becomes a row of the response with the same names. The request's rows are
processed and freed in slices, because doing that at once takes long.
Source: the `getErrorResponse` of Kafka's request classes.
"""

from array import array
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.mapped import bulk, mapped
from groupkeeper.protocol.message import FOREVER, Layout, Message, key_of, layout_of
from groupkeeper.protocol.registry import APIS
from groupkeeper.protocol.types import ArrayOf, StructOf
from groupkeeper.turns import Slices

ROWS_IN_A_SLICE: Final = 1_000
NUMBERS_IN_A_SLICE: Final = 16_384


class Inner(NamedTuple):
    """The rows within a row: partitions, identified by a number."""

    asked: str
    """Array in the request's row."""
    number_asked: str | None
    """Field with the number in the request's items; None if the items are plain numbers."""
    answered: str
    """Array in the response's row."""
    number: str
    """Field with the number in the response's items."""


class RowArrays(NamedTuple):
    """The array of a request, and the corresponding array of its response."""

    asked: str
    answered: str
    names: tuple[str, ...]
    """Fields that identify a row, with the same names in both. If the items of the request are
    strings, they are the value of the only field."""
    inner: Inner | None = None
    since: int = 0
    until: int = FOREVER


_NAME: Final = ("name",)
_RESOURCE: Final = ("resource_type", "resource_name")
_PARTITIONS: Final = Inner("partitions", "partition_index", "partitions", "partition_index")

ROWS: Final[Mapping[int, tuple[RowArrays, ...]]] = {
    ApiKey.OFFSET_COMMIT: (RowArrays("topics", "topics", _NAME, _PARTITIONS),),
    ApiKey.OFFSET_FETCH: (
        RowArrays(
            *("topics", "topics", _NAME),
            Inner("partition_indexes", None, "partitions", "partition_index"),
            until=1,
        ),
        RowArrays("groups", "groups", ("group_id",), since=8),
    ),
    ApiKey.DESCRIBE_GROUPS: (RowArrays("groups", "groups", ("group_id",)),),
    ApiKey.DELETE_GROUPS: (RowArrays("groups_names", "results", ("group_id",)),),
    ApiKey.FIND_COORDINATOR: (RowArrays("coordinator_keys", "coordinators", ("key",), since=4),),
    ApiKey.DESCRIBE_TRANSACTIONS: (
        RowArrays("transactional_ids", "transaction_states", ("transactional_id",)),
    ),
    ApiKey.METADATA: (RowArrays("topics", "topics", ("name", "topic_id")),),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (RowArrays("topics", "topics", _NAME),),
    ApiKey.FETCH: (
        RowArrays(
            *("topics", "responses", ("topic",)),
            Inner("partitions", "partition", "partitions", "partition_index"),
            until=6,
        ),
    ),
    ApiKey.LIST_OFFSETS: (RowArrays("topics", "topics", _NAME, _PARTITIONS),),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (
        RowArrays(
            *("topics", "topics", ("topic",)),
            Inner("partitions", "partition", "partitions", "partition"),
        ),
    ),
    ApiKey.CREATE_ACLS: (RowArrays("creations", "results", ()),),
    ApiKey.DELETE_ACLS: (RowArrays("filters", "filter_results", ()),),
    ApiKey.CREATE_TOPICS: (RowArrays("topics", "topics", _NAME),),
    ApiKey.CREATE_PARTITIONS: (RowArrays("topics", "results", _NAME),),
    ApiKey.DELETE_TOPICS: (
        RowArrays("topic_names", "responses", _NAME, until=5),
        RowArrays("topics", "responses", ("name", "topic_id"), since=6),
    ),
    ApiKey.DELETE_RECORDS: (RowArrays("topics", "topics", _NAME, _PARTITIONS),),
    ApiKey.DESCRIBE_CONFIGS: (RowArrays("resources", "results", _RESOURCE),),
    ApiKey.ALTER_CONFIGS: (RowArrays("resources", "responses", _RESOURCE),),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (RowArrays("resources", "responses", _RESOURCE),),
}
"""Arrays by API key and version. All other versions have a top-level error code."""


def rows_of(key: int, version: int) -> RowArrays | None:
    """Return the arrays with the errors of a version; None if the error is at the top level."""
    return next((each for each in ROWS.get(key, ()) if each.since <= version <= each.until), None)


# Any, here and below: messages of any class.
def refused_rows(
    key: int,
    version: int,
    rows: RowArrays,
    request: Any,
    error: ErrorCode,
    words: str | None = None,
) -> Slices[Any]:
    """Build a response with the error in each row, and in a top-level error code if there is one.
    The request is empty afterwards. `words`: the message of each row, if it has one.
    """
    response = APIS[key].response_type
    row = _item_of(response, rows.answered)
    fields = {each.name: each for each in layout_of(row).fields}
    nullable = [fields[each].nullable_in(version) for each in rows.names]
    asked = getattr(request, rows.asked) or []
    taken = _Taken(rows)
    yield from taken.take(asked)
    inner, numbers, ends = rows.inner, taken.numbers, taken.ends
    cell = None if inner is None else _item_of(row, inner.answered)

    def cell_of(number: int) -> Any:
        assert cell is not None and inner is not None
        return cell(**{inner.number: number, "error_code": error})

    told = {} if words is None or "error_message" not in fields else {"error_message": words}

    def row_of(at: int, ids: tuple[Any, ...]) -> Any:
        named = told | {
            name: "" if value is None and not may_be_null else value
            for name, value, may_be_null in zip(rows.names, ids, nullable, strict=True)
        }
        if inner is None:
            return row(**named, error_code=error)
        some = numbers[ends[at - 1] if at else 0 : ends[at]]
        return row(**named, **{inner.answered: mapped(cell_of, some)})

    found = mapped(row_of, range(len(taken.ids)), bulk(taken.ids))
    tops = [each for each in layout_of(response).fields if each.name == "error_code"]
    top = {each.name: error for each in tops if each.in_version(version)}
    return response(**top, **{rows.answered: found})


def _item_of(cls: type, array_name: str) -> type:
    """Return the class of the items of an array field."""
    [found] = [each.type for each in layout_of(cls).fields if each.name == array_name]
    assert isinstance(found, ArrayOf) and isinstance(found.item, StructOf)
    return found.item.cls


def refused(request: Any, version: int, error: ErrorCode) -> Slices[Message]:
    """Build the error response to a request of an API in `ROWS`; the request is emptied."""
    key = key_of(type(request))
    rows = rows_of(key, version)
    assert rows is not None, "the response has no error at its top"
    return refused_rows(key, version, rows, request, error)


def server_failed(request: Any, version: int) -> Message:
    """Build the response after a handler has failed, without slices."""
    slices = refused(request, version, ErrorCode.UNKNOWN_SERVER_ERROR)
    while True:
        try:
            next(slices)
        except StopIteration as end:
            response: Message = end.value
            return response


@cache
def _arrays_of(cls: type) -> tuple[str, ...]:
    """Return the names of a message's array fields; empty for strings and numbers."""
    layout: Layout | None = cls.__dict__.get("__layout__")
    fields = () if layout is None else layout.fields
    return tuple(each.name for each in fields if isinstance(each.type, ArrayOf))


class _Taken:
    """The names of the rows of a request, taken out of it in slices."""

    def __init__(self, rows: RowArrays) -> None:
        self._rows = rows
        self._left = ROWS_IN_A_SLICE
        self.ids: list[tuple[Any, ...]] = []
        self.numbers = array("i")
        """Numbers of the inner rows, concatenated over all rows."""
        self.ends = array("q")
        """End index in `numbers` of each row."""

    def take(self, asked: list[Any]) -> Slices[None]:
        """Move the names of the rows out of the request's array, and free the rest."""
        names, inner = self._rows.names, self._rows.inner
        asked.reverse()
        while asked:
            some = asked[: -ROWS_IN_A_SLICE - 1 : -1]
            del asked[-ROWS_IN_A_SLICE:]
            for row in some:
                is_text = isinstance(row, str)
                self.ids.append((row,) if is_text else tuple(getattr(row, each) for each in names))
                if inner is not None:
                    yield from self._take_numbers(getattr(row, inner.asked), inner.number_asked)
                    self.ends.append(len(self.numbers))
                yield from self._free_arrays(row)
                if self._is_slice(1):
                    yield

    def _take_numbers(self, items: list[Any], name: str | None) -> Slices[None]:
        items.reverse()
        while items:
            some = items[: -ROWS_IN_A_SLICE - 1 : -1]
            self.numbers.extend(some if name is None else (getattr(each, name) for each in some))
            del items[-ROWS_IN_A_SLICE:]
            if self._is_slice(len(some)):
                yield

    def _free_arrays(self, row: Any) -> Slices[None]:
        """Free the contents of a row's arrays."""
        cls: type = type(row)
        for name in _arrays_of(cls):
            items = getattr(row, name)
            if items:
                yield from self._free(items)

    def _free(self, items: list[Any]) -> Slices[None]:
        cls: type = type(items[0])
        nested = _arrays_of(cls)
        most = NUMBERS_IN_A_SLICE if isinstance(items[0], int) else ROWS_IN_A_SLICE
        while items:
            for each in items[-most:] if nested else ():
                yield from self._free_arrays(each)
            count = min(most, len(items))
            del items[-most:]
            if self._is_slice(count * ROWS_IN_A_SLICE // most):
                yield

    def _is_slice(self, rows: int) -> bool:
        """Count rows; return whether the slice is full."""
        self._left -= rows
        if self._left > 0:
            return False
        self._left = ROWS_IN_A_SLICE
        return True
