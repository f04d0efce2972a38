"""What happens between two slices of a large request counts when it is answered."""

from collections.abc import Generator
from typing import Any

import pytest

from groupkeeper.apis.gather import PART_PARTITIONS
from groupkeeper.apis.table import Dependencies, handlers
from groupkeeper.coordinator.caller import Caller
from groupkeeper.node import Node
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.list_groups import ListGroupsRequest
from tests.support.requests import codes_of, commit_request, create_request, delete_topic_request
from tests.support.served import Client, Served, groups_apart

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class Token:
    """Where an answer goes."""

    def __init__(self) -> None:
        self.answered: list[Any] = []

    def answer(self, response: Any) -> None:
        self.answered.append(response)


class Sliced:
    """A request that is driven by hand, slice by slice."""

    def __init__(self, served: Served, key: int, version: int, request: Any) -> None:
        server = served.server
        node = Node(0, server.address)
        parts = Dependencies(server.group_partitions, server.topics, node, server.topics.settings)
        handler: Any = handlers(parts)[key]
        self._served, self._token = served, Token()
        self._slices: Generator[None, None, Any] = handler(request, Caller(version), self._token)

    def run(self, slices: int = 10_000) -> None:
        """So many, or all there are."""

        async def some() -> None:
            for _ in range(slices):
                try:
                    next(self._slices)
                except StopIteration as end:
                    if end.value is not None:
                        self._token.answer(end.value)
                    return

        self._served.run(some())

    def answer(self) -> Any:
        """All that is left, and the answer."""
        self.run()
        self._served.until(lambda: bool(self._token.answered))
        [response] = self._token.answered
        return response


@pytest.fixture
def client(served: Served) -> Client:
    return served.client()


def create(client: Client, name: str, partitions: int) -> None:
    created = client.call(4, create_request(name, partitions=partitions))
    assert created.topics[0].error_code == 0


def delete(client: Client, name: str) -> None:
    assert client.call(6, delete_topic_request(name)).responses[0].error_code == 0


# -- commits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("again", [False, True], ids=["deleted", "made again"])
def test_a_commit_does_not_bring_back_offsets_of_a_topic_deleted_meanwhile(
    served: Served, client: Client, again: bool
) -> None:
    large = 3 * PART_PARTITIONS
    create(client, "large", large)
    places = {("orders", 0): 77, **{("large", n): n for n in range(large)}}
    commit = Sliced(served, 8, 8, commit_request(places))
    commit.run(2)
    delete(client, "orders")
    if again:
        create(client, "orders", 6)
    codes = codes_of(commit.answer())
    expected = {place: n for place, n in places.items() if place[0] == "large"}
    assert codes == {place: 0 if place in expected else UNKNOWN for place in places}
    assert client.fetched() == expected


# -- lists -----------------------------------------------------------------------------------------


def test_a_list_is_an_error_and_not_short_when_a_partition_becomes_active_meanwhile(
    served: Served, client: Client
) -> None:
    groups = groups_apart(len(served.server.group_partitions), 4)
    for group_id in groups:
        assert client.commit(1, group_id) == 0
    served.fail(groups[0])
    listing = Sliced(served, 16, 4, ListGroupsRequest())
    listing.run(len(served.server.group_partitions))
    served.settled()
    answer = listing.answer()
    assert (answer.error_code, answer.groups) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])
    again = Sliced(served, 16, 4, ListGroupsRequest()).answer()
    assert {group.group_id for group in again.groups} == set(groups)
