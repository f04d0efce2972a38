"""The group APIs over several partitions: split, asked, put together."""

from typing import Any

import pytest

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from groupkeeper.protocol.messages.delete_groups import DeleteGroupsRequest
from groupkeeper.protocol.messages.describe_groups import DescribeGroupsRequest
from groupkeeper.protocol.messages.list_groups import ListGroupsRequest
from groupkeeper.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.support.requests import (
    codes_of,
    commit_request,
    delete_topic_request,
    fetch_request,
    flat_fetch_request,
    offset_delete_request,
)
from tests.support.served import Client, Served, groups_apart, settle

PARTITIONS = 4
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.fixture
def client(served: Served) -> Client:
    return served.client()


@pytest.fixture
def apart() -> list[str]:
    """Four groups in as many partitions."""
    return groups_apart(PARTITIONS, 4)


def reload(served: Served, group_id: str) -> None:
    """Its partition is loading from now on, for some milliseconds."""
    served.fail(group_id)


def ask_at_once(client: Client, key: int, version: int, request: Any) -> Any:
    """Before a partition can finish loading."""
    client.deliver(client.frame(version, request))
    return client.take()


# -- OffsetFetch -----------------------------------------------------------------------------------


def test_groups_of_several_partitions_are_fetched_in_the_order_asked(
    client: Client, apart: list[str]
) -> None:
    for offset, group_id in enumerate(apart):
        client.commit(offset, group_id)
    asked = [apart[2], "nobody", apart[0], apart[2]]
    groups = client.call(8, fetch_request(*asked, topics={"orders": [0]})).groups
    assert [group.group_id for group in groups] == asked
    offsets = [group.topics[0].partitions[0].committed_offset for group in groups]
    assert offsets == [2, -1, 0, 2]


def test_one_group_that_cannot_answer_does_not_hide_the_others(
    served: Served, client: Client, apart: list[str]
) -> None:
    client.commit(7, apart[1])
    reload(served, apart[0])
    groups = ask_at_once(client, 9, 8, fetch_request(*apart[:2])).groups
    assert [group.error_code for group in groups] == [LOADING, 0]
    assert groups[1].topics[0].partitions[0].committed_offset == 7


def test_no_groups_are_no_offsets(client: Client) -> None:
    assert client.call(8, fetch_request()).groups == []


@pytest.mark.parametrize("version", range(1, 8))
def test_older_versions_have_one_group_in_the_message_itself(client: Client, version: int) -> None:
    client.commit(7)
    reply = client.call(version, flat_fetch_request("g", {"orders": [0, 1]}))
    offsets = [row.committed_offset for row in reply.topics[0].partitions]
    assert (reply.error_code, offsets) == (0, [7, -1])


def test_all_topics_can_be_asked_for_from_version_2(client: Client) -> None:
    client.commit(7)
    reply = client.call(2, flat_fetch_request("g"))
    assert codes_of(reply) == {("orders", 0): 0}


@pytest.mark.parametrize(("version", "top", "row"), [(1, 0, LOADING), (2, LOADING, None)])
def test_a_loading_partition_is_said_where_the_version_says_it(
    served: Served, client: Client, version: int, top: int, row: int | None
) -> None:
    reload(served, "g")
    reply = ask_at_once(client, 9, version, flat_fetch_request("g", {"orders": [0]}))
    assert reply.error_code == top
    assert codes_of(reply) == ({} if row is None else {("orders", 0): row})
    offsets = {each.committed_offset for topic in reply.topics for each in topic.partitions}
    assert offsets <= {-1}


def test_version_0_of_fetches_and_commits_meant_zookeeper(client: Client) -> None:
    fetched = client.call(0, flat_fetch_request("g", {"orders": [0]}))
    committed = client.call(0, commit_request({("orders", 0): 1}))
    mixed = client.call(0, commit_request({("orders", 0): 1, ("refunds", 0): 1}))
    unknown = client.call(0, commit_request({("refunds", 0): 1}))
    refused = {("orders", 0): ErrorCode.UNSUPPORTED_VERSION}
    assert codes_of(fetched) == codes_of(committed) == refused
    assert codes_of(mixed) == refused | {("refunds", 0): ErrorCode.UNSUPPORTED_VERSION}
    assert codes_of(unknown) == {("refunds", 0): UNKNOWN}
    assert client.fetched() == {}


# -- OffsetCommit ----------------------------------------------------------------------------------


def test_what_does_not_exist_is_refused_and_the_rest_is_committed(client: Client) -> None:
    places = {("refunds", 0): 1, ("orders", 6): 2, ("orders", 5): 3, ("payments", 0): 4}
    codes = codes_of(client.call(8, commit_request(places)))
    assert list(codes.items()) == [
        (("refunds", 0), UNKNOWN),
        (("orders", 6), UNKNOWN),
        (("orders", 5), 0),
        (("payments", 0), 0),
    ]
    assert client.fetched() == {("orders", 5): 3, ("payments", 0): 4}


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 0, 2), (2, 1, 0)])
def test_each_row_of_a_partition_that_is_committed_twice_has_its_own_result(
    client: Client, order: tuple[int, ...]
) -> None:
    long, short, missing = (
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=5, committed_metadata=text
        )
        for index, text in ((0, "x" * 5000), (0, ""), (99, ""))
    )
    rows = [(long, ErrorCode.OFFSET_METADATA_TOO_LARGE), (short, 0), (missing, UNKNOWN)]
    topic = OffsetCommitRequestTopic(name="orders", partitions=[rows[at][0] for at in order])
    answer = client.call(8, OffsetCommitRequest(group_id="g", topics=[topic]))
    codes = [each.error_code for each in answer.topics[0].partitions]
    assert codes == [rows[at][1] for at in order]
    assert client.fetched() == {("orders", 0): 5}


def test_a_new_partition_is_committed_to_at_once_and_after_a_restart(
    served: Served, client: Client
) -> None:
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name="orders", count=7, assignments=None)], timeout_ms=1000
    )
    client.send(3, request)
    assert client.take().results[0].error_code == 0
    assert codes_of(client.call(8, commit_request({("orders", 6): 2}))) == {("orders", 6): 0}
    served.restart()
    served.settled()
    assert served.client().fetched() == {("orders", 6): 2}


def test_the_groups_refusal_shows_beside_the_missing_topic(client: Client) -> None:
    places = {("refunds", 0): 1, ("orders", 0): 2}
    request = commit_request(places, member_id="stranger", generation=3)
    codes = codes_of(client.call(8, request))
    assert codes == {("refunds", 0): UNKNOWN, ("orders", 0): ErrorCode.ILLEGAL_GENERATION}


def test_with_nothing_left_the_group_is_not_asked(client: Client) -> None:
    request = commit_request({("refunds", 0): 1}, member_id="stranger", generation=3)
    assert codes_of(client.call(8, request)) == {("refunds", 0): UNKNOWN}
    assert client.call(8, commit_request({}, member_id="stranger")).topics == []


def test_with_nothing_left_the_session_goes_on_to_its_end(served: Served, client: Client) -> None:
    member_id, generation = settle(client)
    served.advance(9)
    request = commit_request({("refunds", 0): 1}, member_id=member_id, generation=generation)
    client.call(8, request)
    served.advance(1.1)
    assert served.members() == 0


def test_a_commit_keeps_its_member_alive(served: Served, client: Client) -> None:
    member_id, generation = settle(client)
    served.advance(9)
    assert client.commit(1, member_id=member_id, generation=generation) == 0
    served.advance(9)
    assert served.members() == 1


# -- OffsetDelete, and topics that go --------------------------------------------------------------


def test_offsets_are_deleted_where_their_topic_exists(client: Client) -> None:
    client.commit(7)
    places = [("refunds", 0), ("orders", 0), ("orders", 9)]
    reply = client.call(0, offset_delete_request(places))
    assert list(codes_of(reply).items()) == [
        (("refunds", 0), UNKNOWN),
        (("orders", 0), 0),
        (("orders", 9), UNKNOWN),
    ]
    assert client.fetched() == {}


def test_an_error_of_the_group_discards_the_rest_of_an_offset_delete(client: Client) -> None:
    reply = client.call(0, offset_delete_request([("refunds", 0)], "nobody"))
    assert (reply.error_code, reply.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, [])


def test_offsets_of_subscribed_topics_stay(client: Client) -> None:
    member_id, generation = settle(client)
    client.commit(7, member_id=member_id, generation=generation)
    reply = client.call(0, offset_delete_request([("orders", 0), ("payments", 0)]))
    assert codes_of(reply) == {
        ("orders", 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ("payments", 0): 0,
    }


@pytest.mark.parametrize("restart", [False, True])
def test_with_a_topic_go_its_offsets_in_every_partition(
    served: Served, client: Client, apart: list[str], restart: bool
) -> None:
    for group_id in apart:
        client.call(8, commit_request({("orders", 0): 1, ("payments", 0): 2}, group_id))
    assert client.call(6, delete_topic_request("orders")).responses[0].error_code == 0
    served.settled()
    if restart:
        served.cut_power()
        served.settled()
        client = served.client()
    assert [client.fetched(group_id) for group_id in apart] == [{("payments", 0): 2}] * 4


# -- Describe, List, Delete ------------------------------------------------------------------------


def test_groups_are_described_in_the_order_asked(client: Client, apart: list[str]) -> None:
    settle(client, apart[1])
    client.commit(1, apart[2])
    asked = [apart[2], apart[1], "nobody", apart[2]]
    groups = client.call(5, DescribeGroupsRequest(groups=asked)).groups
    assert [group.group_id for group in groups] == asked
    assert [group.group_state for group in groups] == ["Empty", "Stable", "Dead", "Empty"]


def test_what_may_be_done_is_told_to_who_asks(client: Client, apart: list[str]) -> None:
    request = DescribeGroupsRequest(groups=apart[:2], include_authorized_operations=True)
    operations = {g.authorized_operations for g in client.call(5, request).groups}
    assert len(operations) == 1
    assert operations.pop() > 0


def test_nothing_asked_is_nothing_described_or_deleted(client: Client) -> None:
    assert client.call(5, DescribeGroupsRequest()).groups == []
    assert client.call(2, DeleteGroupsRequest()).results == []


def test_groups_are_deleted_one_by_one_and_a_repeated_id_once(
    client: Client, apart: list[str]
) -> None:
    settle(client, apart[0])
    client.commit(1, apart[1])
    request = DeleteGroupsRequest(groups_names=[apart[1], apart[0], "nobody", apart[1]])
    results = client.call(2, request).results
    assert [(result.group_id, result.error_code) for result in results] == [
        (apart[1], 0),
        (apart[0], ErrorCode.NON_EMPTY_GROUP),
        ("nobody", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert client.fetched(apart[1]) == {}


def listed(client: Client, version: int = 5, **filters: list[str]) -> set[str]:
    reply = client.call(version, ListGroupsRequest(**filters))
    assert reply.error_code == 0
    return {group.group_id for group in reply.groups}


def test_groups_of_all_partitions_are_listed_and_filtered(client: Client, apart: list[str]) -> None:
    settle(client, apart[0])
    for group_id in apart[1:]:
        client.commit(1, group_id)
    assert listed(client) == listed(client, 0) == set(apart)
    assert listed(client, states_filter=["Stable"]) == {apart[0]}
    assert listed(client, types_filter=["classic"]) == set(apart)
    assert listed(client, types_filter=["consumer"]) == set()


def test_one_loading_partition_makes_the_list_an_error_and_not_short(
    served: Served, client: Client, apart: list[str]
) -> None:
    for group_id in apart:
        client.commit(1, group_id)
    reload(served, apart[3])
    reply = ask_at_once(client, 16, 4, ListGroupsRequest())
    assert (reply.error_code, reply.groups) == (LOADING, [])


def test_an_answer_over_several_partitions_waits_for_the_slowest(
    served: Served, client: Client, apart: list[str]
) -> None:
    committer = served.client()
    frames: dict[Client, bytes] = {committer: committer.commit_frame(7, apart[0])}
    frames[client] = client.frame(8, fetch_request(*apart, topics={"orders": [0]}))
    served.at_once(frames)
    assert client.frames == []
    served.check_accounts()
    [first, *_] = client.take().groups
    assert first.topics[0].partitions[0].committed_offset == 7


@pytest.mark.parametrize("times", [1, 3])
def test_many_groups_are_one_step_of_each_partition(
    served: Served, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    ids = [f"g{number}" for number in range(40)] * times
    calls = []
    for driver in served.server.group_partitions:
        call = driver.call
        monkeypatch.setattr(driver, "call", lambda *each, call=call: (calls.append(1), call(*each)))
    reply = served.client().call(5, DescribeGroupsRequest(groups=ids))
    assert [group.group_id for group in reply.groups] == ids
    assert len(calls) <= len(served.server.group_partitions)
