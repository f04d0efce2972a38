"""Every API answers a request that is too long, in every version: at its top, or in each row."""

import asyncio
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import pytest

from groupkeeper.apis.table import TABLE
from groupkeeper.connections.connection_table import ConnectionState
from groupkeeper.connections.too_long import TooLong, most_bytes
from groupkeeper.coordinator.caller import Caller
from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.mapped import FREED_IN_A_SLICE, free
from groupkeeper.protocol.message import layout_of
from groupkeeper.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from groupkeeper.protocol.messages.list_groups import ListGroupsRequest
from groupkeeper.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from groupkeeper.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from groupkeeper.protocol.registry import APIS
from groupkeeper.protocol.types import ArrayOf, StructOf
from groupkeeper.refused_rows import NUMBERS_IN_A_SLICE, ROWS_IN_A_SLICE, rows_of
from groupkeeper.turns import Slices
from tests.support.fake_socket import HEARTBEAT, Bench
from tests.support.messages import random_message
from tests.support.oracle import oracle_body
from tests.support.served import Lines
from tests.support.slices import counted, whole

FAILED = ErrorCode.UNKNOWN_SERVER_ERROR
MOST = 10_000
SERVED = [row.key for row in TABLE if row.key is not ApiKey.PRODUCE]
NAMES = ("name", "topic", "group_id", "key", "transactional_id", "resource_name")
NUMBERS = ("partition_index", "partition")


@pytest.fixture
async def bench() -> Bench:
    bench = Bench()
    bench.limits.request_bytes = MOST
    bench.connection, bench.socket = bench.connect()
    bench.routes.update(dict.fromkeys(SERVED, Mock(side_effect=AssertionError("was asked"))))
    return bench


def with_more(frame: bytes, size: int) -> bytes:
    """A frame of this size: bytes behind a request are ignored."""
    frame = frame + bytes(size - len(frame))
    return (size - 4).to_bytes(4, "big") + frame[4:]


def errors_in(message: Any, version: int) -> Iterator[int]:
    """All that there are in an answer."""
    for field in layout_of(type(message)).fields:
        if field.name == "error_code" and field.in_version(version):
            yield message.error_code
        if isinstance(field.type, ArrayOf) and isinstance(field.type.item, StructOf):
            for each in getattr(message, field.name) or []:
                yield from errors_in(each, version)


def named_in(message: Any) -> list[Any]:
    """What the rows of a message are about: names, and numbers of partitions."""
    if isinstance(message, str | int):
        return [message]
    found: list[Any] = []
    for field in layout_of(type(message)).fields:
        value = getattr(message, field.name)
        if field.name in NAMES:
            found.append(value or "")
        elif field.name in NUMBERS:
            found.append(value)
    for field in layout_of(type(message)).fields:
        if isinstance(field.type, ArrayOf) and field.name.startswith("partition"):
            found += [named_in(each) for each in getattr(message, field.name)]
    return found


def rows_in(message: Any, version: int) -> list[list[Any]]:
    """The same for each row of the first array of a message that has one in the version."""
    for field in layout_of(type(message)).fields:
        is_array = isinstance(field.type, ArrayOf) and field.in_version(version)
        if is_array and (rows := getattr(message, field.name)):
            return [named_in(each) for each in rows]
    return []


def some_request(key: ApiKey, version: int) -> Any:
    """One with several rows, if there are rows in the version."""
    for seed in range(100):
        request = random_message(APIS[key].request_type, version, "plain", seed)
        if len(rows_in(request, version)) > 1:
            break
    return request


@pytest.mark.parametrize("key", SERVED, ids=lambda key: key.name)
async def test_every_api_answers(bench: Bench, key: ApiKey, lines: Lines) -> None:
    oldest, newest = APIS[key].served
    for version in range(oldest, newest + 1):
        await answers(bench, key, version, lines)


async def answers(bench: Bench, key: ApiKey, version: int, lines: Lines) -> None:
    request = some_request(key, version)
    bench.receive(with_more(bench.frame(version, request), 3 * MOST))
    for _ in range(1_000):
        if bench.connection.state is not ConnectionState.WORKING:
            break
        await asyncio.sleep(0)
    *_, (_, answer) = [*bench.answers()] or [(0, None)]
    assert answer is not None, (
        f"no answer to a {APIS[key].name} v{version} that is too long: a response without "
        "error_code at its top needs a row in ROWS of groupkeeper/refused_rows.py, or, if its "
        "arrays fit into none, a case in TooLong.handle of groupkeeper/connections/too_long.py"
    )
    errors = [*errors_in(answer, version)]
    assert errors and {*errors} == {FAILED}, version
    assert oracle_body(answer, version)
    asked, answered = rows_in(request, version), rows_in(answer, version)
    rows = rows_of(key, version)
    if rows is not None:
        assert len(asked) > 1
        if not rows.names:  # results are in the order of the request
            assert len(getattr(answer, rows.answered)) == len(asked)
            asked = answered = [[""]]
        if not isinstance(answered[0][-1], list):
            asked = [each[:1] for each in asked]  # no partitions in its answer
        assert answered == asked
    *_, line = lines()
    assert (line["limit"], line["most"]) == ("max_request_bytes", MOST)
    assert line["api"] == APIS[key].name
    assert bench.connection.state is ConnectionState.READING
    assert not bench.limits.requests.used
    assert not bench.limits.sliced.used and not bench.limits.sliced_long.used


async def test_a_name_that_is_null_is_empty_where_null_is_not_allowed(bench: Bench) -> None:
    topics = [MetadataRequestTopic(topic_id=bytes(15) + b"7", name=None)]
    bench.receive(with_more(bench.frame(10, MetadataRequest(topics=topics)), 2 * MOST))
    bench.receive(with_more(bench.frame(12, MetadataRequest(topics=topics)), 2 * MOST))
    found = [topic for _, answer in bench.answers() for topic in answer.topics]
    assert [each.name for each in found] == ["", None]
    assert {each.topic_id for each in found} == {topics[0].topic_id}


async def test_an_error_at_the_top_needs_no_request_that_can_be_read(bench: Bench) -> None:
    head = bench.frame(5, ListGroupsRequest())[4:-3]
    frame = head + b"\xff" * MOST
    bench.receive(len(frame).to_bytes(4, "big") + frame)
    [(_, answer)] = bench.answers()
    assert answer.error_code == FAILED


def test_how_long_a_request_may_be() -> None:
    handled, longest, rows = 4 << 20, 100 << 20, 16 << 20
    for key in SERVED:
        most, limit = most_bytes(key, handled, longest)
        assert (most, limit) in (
            (rows, "ROWS_BYTES (16777216 bytes)"),
            (longest, "socket.request.max.bytes"),
        )
    assert most_bytes(HEARTBEAT, handled, longest)[0] == longest
    assert most_bytes(ApiKey.PRODUCE, handled, longest)[0] == longest
    assert most_bytes(ApiKey.METADATA, handled, longest)[0] == rows
    assert most_bytes(ApiKey.METADATA, 64 << 20, longest)[0] == 64 << 20
    assert most_bytes(99, handled, longest)[0] == handled


# -- in slices -------------------------------------------------------------------------------------


def refused(key: ApiKey, version: int, request: Any) -> Slices[Any]:
    work = TooLong(key, version, 1).handle(request, Caller(version), Mock())
    assert not isinstance(work, APIS[key].response_type)
    return work


def test_what_is_in_a_row_and_not_answered_is_freed_in_slices() -> None:
    """A topic with very many configs is one row."""
    configs = [CreatableTopicConfig(name=f"config-{at}") for at in range(100 * ROWS_IN_A_SLICE)]
    topics = [CreatableTopic(name="a"), CreatableTopic(name="b", configs=configs)]
    request = CreateTopicsRequest(topics=topics)
    answer, slices = counted(refused(ApiKey.CREATE_TOPICS, 7, request))
    assert slices > 100 and configs == []
    assert [each.name for each in answer.topics] == ["a", "b"]


def test_numbers_are_freed_in_slices() -> None:
    numbers = list(range(100 * NUMBERS_IN_A_SLICE))
    topics = [OffsetFetchRequestTopics(name="a", partition_indexes=numbers)]
    groups = [OffsetFetchRequestGroup(group_id=each) for each in ("g", "h")]
    groups[0].topics = topics
    request = OffsetFetchRequest(groups=groups)
    answer, slices = counted(refused(ApiKey.OFFSET_FETCH, 8, request))
    assert slices > 100 and numbers == []
    assert [each.group_id for each in answer.groups] == ["g", "h"]


def test_numbers_that_are_answered_are_taken_in_slices() -> None:
    topics = [OffsetFetchRequestTopics(name="a", partition_indexes=list(range(50_000)))]
    request = OffsetFetchRequest(group_id="g", topics=topics)
    answer, slices = counted(refused(ApiKey.OFFSET_FETCH, 1, request))
    assert slices > 50_000 / ROWS_IN_A_SLICE / 1.5
    [topic] = answer.topics
    assert [each.partition_index for each in topic.partitions] == [*range(50_000)]


def test_names_are_freed_in_slices() -> None:
    names = [f"t{at}" for at in range(50_000)]
    request = MetadataRequest(topics=[MetadataRequestTopic(name=each) for each in names])
    answer = whole(refused(ApiKey.METADATA, 9, request))
    assert [each.name for each in answer.topics] == names
    _, slices = counted(free(answer))
    assert slices == 50_000 / FREED_IN_A_SLICE
    assert len(answer.topics.columns[1]) == 0
