"""The table of APIs."""

from collections.abc import Callable
from typing import Any

import pytest

from groupkeeper.apis.table import (
    DESCRIBE_TOPIC,
    TABLE,
    Dependencies,
    Row,
    Subject,
    handlers,
    with_topics,
)
from groupkeeper.coordinator.apis import GROUP_APIS
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

FIELDS = {
    Subject.GROUP: {"group_id"},
    Subject.GROUPS: {"groups", "groups_names", "coordinator_keys"},
    Subject.TOPICS: {"topics", "topic_data", "topic_names"},
    Subject.RESOURCES: {"resources"},
}


def parts(served: Served) -> Dependencies:
    server = served.server
    return Dependencies(server.group_partitions, server.topics, Node(0, server.address), Settings())


def test_every_api_of_the_registry_has_one_row(served: Served) -> None:
    assert sorted(row.key for row in TABLE) == sorted(APIS)
    assert handlers(parts(served)).keys() == set(APIS)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.key.name)
def test_a_row_says_how_the_request_names_what_it_is_about(row: Row) -> None:
    fields = set(APIS[row.key].request_type.__slots__)
    wanted = FIELDS.get(row.subject)
    assert wanted is None or wanted & fields


def test_group_rows_agree_with_those_of_the_core() -> None:
    core = {key_of(request): GROUP_APIS[request] for request in CLIENT_REQUESTS}
    rows = {row.key: row for row in TABLE if row.key in core}
    assert rows.keys() == core.keys()
    assert {key for key, row in rows.items() if row.subject is Subject.GROUP} == {
        key for key, row in core.items() if row.for_one_group
    } - {ApiKey.OFFSET_FETCH}, "which is for one group up to version 7"


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
    row = Row(COUNT_PARTITIONS, Subject.TOPICS, (DESCRIBE_TOPIC,), handler)
    monkeypatch.setattr("groupkeeper.apis.table.TABLE", (*TABLE, row))
    client = serve().client()
    assert client.call(0, CountPartitionsRequest(topic="orders")).count == 6
    assert client.call(0, CountPartitionsRequest(topic="none")).error_code == 3
    advertised = client.call(0, ApiVersionsRequest()).api_keys
    assert COUNT_PARTITIONS in {each.api_key for each in advertised}
