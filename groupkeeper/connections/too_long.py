"""Requests about groups that are longer than their API allows: read, and refused in its own form.

A connection that is closed tells its client nothing: it sends the same commit again, for ever. So
such a request is decoded in slices like any long one, and its handler is not asked.
Source: Kafka, which takes up to `socket.request.max.bytes` and then fails to append a record that
is over `max.message.bytes` (UNKNOWN_SERVER_ERROR).
"""

from array import array
from typing import Any, Final

from groupkeeper.coordinator.apis import refuse
from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo, Response
from groupkeeper.observe.limit_lines import limit_reached
from groupkeeper.observe.logs import Logger
from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.mapped import mapped
from groupkeeper.protocol.message import layout_of
from groupkeeper.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from groupkeeper.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from groupkeeper.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from groupkeeper.turns import Slices

REFUSED_BYTES: Final = 16 * 1024 * 1024
"""The longest request that is read to be refused. One of these sizes is decoded at a time, with at
most half a million items; what is longer closes its connection."""
REFUSED_APIS: Final = frozenset(
    key.value
    for key in (
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.LEAVE_GROUP,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_DELETE,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.DELETE_GROUPS,
    )
)
"""Their refusal costs no more than the request: its rows are made while they are encoded."""

ROWS_IN_A_SLICE: Final = 1_000

_ERROR: Final = ErrorCode.UNKNOWN_SERVER_ERROR
_log = Logger("connection")


class TooLong:
    """A handler that refuses."""

    def __init__(self, most: int) -> None:
        """`most`: bytes that a request may have."""
        self._most = most

    # Any: a request of `REFUSED_APIS`.
    def handle(
        self, request: Any, caller: Caller, reply_to: ReplyTo
    ) -> Response | Slices[Response]:
        """UNKNOWN_SERVER_ERROR, as Kafka answers a record that is too large."""
        api = layout_of(type(request)).name.removesuffix("Request")
        limit_reached(_log, "REQUEST_BYTES", self._most, api, caller)
        if isinstance(request, OffsetCommitRequest):
            return _committed(request)
        if isinstance(request, DescribeGroupsRequest):
            return DescribeGroupsResponse(groups=mapped(_described, request.groups))
        if isinstance(request, DeleteGroupsRequest):
            return DeleteGroupsResponse(results=mapped(_deleted, request.groups_names))
        return refuse(request, caller, _ERROR)


def _committed(request: OffsetCommitRequest) -> Slices[OffsetCommitResponse]:
    """The error for each row. The request's rows are freed in slices: all at once take long."""
    names: list[str] = []
    ends, indexes = array("q"), array("i")
    topics = request.topics
    topics.reverse()
    taken = 0
    while topics:
        for topic in topics[-ROWS_IN_A_SLICE:][::-1]:
            rows = topic.partitions
            rows.reverse()
            while rows:
                some = rows[: -ROWS_IN_A_SLICE - 1 : -1]
                indexes.extend(each.partition_index for each in some)
                del rows[-ROWS_IN_A_SLICE:]
                taken += len(some)
                if taken >= ROWS_IN_A_SLICE:
                    taken = 0
                    yield
            names.append(topic.name)
            ends.append(len(indexes))
        del topics[-ROWS_IN_A_SLICE:]
        yield

    def topic_at(at: int) -> OffsetCommitResponseTopic:
        some = indexes[ends[at - 1] if at else 0 : ends[at]]
        return OffsetCommitResponseTopic(name=names[at], partitions=mapped(_row, some))

    return OffsetCommitResponse(topics=mapped(topic_at, range(len(names))))


def _row(index: int) -> OffsetCommitResponsePartition:
    return OffsetCommitResponsePartition(partition_index=index, error_code=_ERROR)


def _described(group_id: str) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=_ERROR)


def _deleted(group_id: str) -> DeletableGroupResult:
    return DeletableGroupResult(group_id=group_id, error_code=_ERROR)
