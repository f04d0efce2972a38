"""The table of APIs."""

from collections.abc import Callable
from typing import Any

import pytest

from groupkeeper.apis.table import TABLE, ApiRow, Dependencies, handlers, with_topics
from groupkeeper.coordinator.caller import Caller, ReplyTo
from groupkeeper.node import Node
from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.message import key_of, message, response_to
from groupkeeper.protocol.messages.api_versions import ApiVersionsRequest
from groupkeeper.protocol.registry import APIS, api_of
from groupkeeper.protocol.types import Int16, Int32, String
from groupkeeper.settings.table import Settings
from groupkeeper.topics.topics import Topics
from tests.support.group_requests import CLIENT_REQUESTS
from tests.support.served import Served


def parts(served: Served) -> Dependencies:
    server = served.server
    return Dependencies(server.group_partitions, server.topics, Node(0, server.address), Settings())


def test_every_api_of_the_registry_has_one_row(served: Served) -> None:
    assert sorted(row.key for row in TABLE) == sorted(APIS)
    assert handlers(parts(served)).keys() == set(APIS)


def test_every_group_api_of_the_core_has_a_row() -> None:
    assert {key_of(request) for request in CLIENT_REQUESTS} <= {row.key for row in TABLE}


def test_what_has_no_row_is_not_advertised(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = {ApiKey.INIT_PRODUCER_ID, ApiKey.ALTER_CONFIGS}
    rows = tuple(row for row in TABLE if row.key not in missing)
    monkeypatch.setattr("groupkeeper.apis.table.TABLE", rows)
    made = parts(served)
    assert not missing & handlers(made).keys()
    answer = made.api_versions.handle(ApiVersionsRequest(), Caller(0), None)
    assert {each.api_key for each in answer.api_keys} == handlers(made).keys()


# -- a new API -------------------------------------------------------------------------------------

COUNT_PARTITIONS: Any = 9_000


@message(key=COUNT_PARTITIONS, versions=(0, 0))
class CountPartitionsRequest:
    """An imaginary API."""

    topic: String = ""


@response_to(CountPartitionsRequest)
class CountPartitionsResponse:
    error_code: Int16 = 0
    count: Int32 = 0


class CountPartitionsHandler:
    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    def handle(
        self, request: CountPartitionsRequest, caller: Caller, reply_to: ReplyTo
    ) -> CountPartitionsResponse:
        count = self._topics.partition_count(request.topic)
        if count is None:
            return CountPartitionsResponse(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return CountPartitionsResponse(count=count)


def test_an_api_is_a_message_a_handler_and_a_row(
    monkeypatch: pytest.MonkeyPatch, serve: Callable[..., Served]
) -> None:
    monkeypatch.setitem(APIS, COUNT_PARTITIONS, api_of(CountPartitionsRequest))
    handler = with_topics(CountPartitionsHandler)
    row = ApiRow(COUNT_PARTITIONS, handler)
    monkeypatch.setattr("groupkeeper.apis.table.TABLE", (*TABLE, row))
    client = serve().client()
    assert client.call(0, CountPartitionsRequest(topic="orders")).count == 6
    assert client.call(0, CountPartitionsRequest(topic="none")).error_code == 3
    advertised = client.call(0, ApiVersionsRequest()).api_keys
    assert COUNT_PARTITIONS in {each.api_key for each in advertised}
