"""Requests that are over their limit are refused in their API's form."""

from collections.abc import Generator
from typing import Any
from unittest.mock import Mock

import pytest

from groupkeeper.connections.budget import LEAST_REQUEST_BYTES
from groupkeeper.connections.too_long import ROWS_BYTES, TooLong
from groupkeeper.coordinator.caller import Caller
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.message import Message
from groupkeeper.protocol.messages.describe_groups import DescribeGroupsRequest
from groupkeeper.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from groupkeeper.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from groupkeeper.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from groupkeeper.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from groupkeeper.refused_rows import ROWS_IN_A_SLICE
from tests.support.served import Lines, Served
from tests.support.slices import counted

TOO_MUCH = LEAST_REQUEST_BYTES + 200_000
FAILED = ErrorCode.UNKNOWN_SERVER_ERROR


def commit(size: int, rows: int = 1_000) -> OffsetCommitRequest:
    text = "ü" * (size // rows // 2)
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=at, committed_offset=1, committed_metadata=text
        )
        for at in range(rows)
    ]
    topics = [OffsetCommitRequestTopic(name="orders", partitions=partitions)]
    return OffsetCommitRequest(group_id="g", topics=topics)


def told(served: Served, version: int, request: Message, lines: Lines) -> Any:
    """The answer; the connection goes on, and one line names the limit."""
    client = served.client()
    answer = client.call(version, request)
    [line] = [each for each in lines() if each["event"] == "limit reached"]
    assert (line["limit"], line["most"]) == ("max_request_bytes", 4 * 1_048_588)
    assert line["api"] == type(request).__name__.removesuffix("Request")
    assert client.commit(7, "other") == 0
    served.check_accounts()
    return answer


@pytest.mark.parametrize("version", [2, 8, 9])
def test_every_row_of_a_commit_has_the_error(served: Served, version: int, lines: Lines) -> None:
    [topic] = told(served, version, commit(TOO_MUCH), lines).topics
    assert topic.name == "orders"
    assert [each.partition_index for each in topic.partitions] == [*range(1_000)]
    assert {each.error_code for each in topic.partitions} == {FAILED}
    assert served.client().fetched("g") == {}


@pytest.mark.parametrize("version", [3, 9])
def test_a_member_is_told(served: Served, version: int, lines: Lines) -> None:
    protocol = JoinGroupRequestProtocol(name="range", metadata=bytes(TOO_MUCH))
    request = JoinGroupRequest(
        group_id="g", session_timeout_ms=10_000, protocol_type="consumer", protocols=[protocol]
    )
    assert told(served, version, request, lines).error_code == FAILED
    assert served.members("g") == 0


def test_beyond_what_is_read_the_connection_is_closed(served: Served, lines: Lines) -> None:
    client = served.client()
    client.send(8, commit(ROWS_BYTES + 100_000))
    served.until(lambda: client.closed)
    [line] = lines()
    assert line["event"] == "connection refused"
    assert line["received"].startswith("OffsetCommit of 16")
    assert line["limit"] == f"ROWS_BYTES ({ROWS_BYTES} bytes)"


def test_other_apis_are_answered_too(served: Served, lines: Lines) -> None:
    """An admin client is told at once, and asks no second time."""
    names = [f"{at:03}" + "x" * 30_000 for at in range(TOO_MUCH // 30_000)]
    topics = [MetadataRequestTopic(name=each) for each in names]
    answer = told(served, 9, MetadataRequest(topics=topics), lines)
    assert [each.name for each in answer.topics] == names
    assert {each.error_code for each in answer.topics} == {FAILED}
    asked = [OffsetFetchRequestTopics(name=each, partition_indexes=[0]) for each in names]
    groups = [OffsetFetchRequestGroup(group_id=each, topics=asked) for each in ("g", "h")]
    answer = served.client().call(8, OffsetFetchRequest(groups=groups))
    assert [(each.group_id, each.error_code) for each in answer.groups] == [
        ("g", FAILED),
        ("h", FAILED),
    ]


def test_an_error_at_the_top_answers_whatever_is_not_over_kafkas_limit(
    served: Served, lines: Lines
) -> None:
    protocol = JoinGroupRequestProtocol(name="range", metadata=bytes(ROWS_BYTES + 100_000))
    request = JoinGroupRequest(
        group_id="g", session_timeout_ms=10_000, protocol_type="consumer", protocols=[protocol]
    )
    assert told(served, 9, request, lines).error_code == FAILED


def test_of_too_many_items_the_line_names_api_and_limit(served: Served, lines: Lines) -> None:
    client = served.client()
    client.send(5, DescribeGroupsRequest(groups=["g"] * 500_001))
    served.until(lambda: client.closed)
    [line] = lines()
    assert line["received"] == "DescribeGroups with more than 500000 items"
    assert line["limit"] == "500000 items"


def test_rows_of_a_commit_are_freed_in_slices_and_answered_in_order() -> None:
    topics = [
        OffsetCommitRequestTopic(
            name=name,
            partitions=[OffsetCommitRequestPartition(partition_index=at) for at in range(rows)],
        )
        for name, rows in (("a", 1), ("b", 10 * ROWS_IN_A_SLICE + 1), ("c", 0), ("d", 2))
    ]
    request = OffsetCommitRequest(group_id="g", topics=topics)
    work = TooLong(8, 8, 1).handle(request, Caller(8), Mock())
    assert isinstance(work, Generator)
    answer, slices = counted(work)
    assert slices > 10 and request.topics == []
    assert [
        (each.name, [row.partition_index for row in each.partitions]) for each in answer.topics
    ] == [("a", [0]), ("b", [*range(10 * ROWS_IN_A_SLICE + 1)]), ("c", []), ("d", [0, 1])]


def test_a_slice_takes_rows_of_many_topics_but_no_more_of_them() -> None:
    """A thousand topics of a few hundred rows were one callback of the event loop."""
    topics = [
        OffsetCommitRequestTopic(
            name=f"topic-{topic}",
            partitions=[OffsetCommitRequestPartition(partition_index=at) for at in range(400)],
        )
        for topic in range(100)
    ]
    work = TooLong(8, 8, 1).handle(OffsetCommitRequest(group_id="g", topics=topics), Mock(), Mock())
    assert isinstance(work, Generator)
    answer, slices = counted(work)
    assert slices > 100 * 400 / ROWS_IN_A_SLICE / 1.5
    assert [len(each.partitions) for each in answer.topics] == [400] * 100
