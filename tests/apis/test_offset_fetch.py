"""OffsetFetch in its older shape, made from the newer one."""

import pytest

from groupkeeper.apis.offset_fetch import flat_reply, groups_asked
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from tests.support.requests import codes_of, fetch_request, flat_fetch_request

ASKED = flat_fetch_request("g", {"orders": [0, 1], "payments": [2]})
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def found() -> OffsetFetchResponseGroup:
    row = OffsetFetchResponsePartitions(
        partition_index=1, committed_offset=7, committed_leader_epoch=3, metadata="m"
    )
    return OffsetFetchResponseGroup(
        group_id="g", topics=[OffsetFetchResponseTopics(name="orders", partitions=[row])]
    )


def failed() -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(group_id="g", error_code=LOADING)


def test_an_older_request_is_one_group_with_its_topics() -> None:
    [group] = groups_asked(ASKED, 7)
    assert group.topics is not None
    asked = {topic.name: topic.partition_indexes for topic in group.topics}
    assert (group.group_id, asked) == ("g", {"orders": [0, 1], "payments": [2]})


def test_no_topics_ask_for_all_of_them() -> None:
    [group] = groups_asked(flat_fetch_request("g"), 2)
    assert group.topics is None


def test_a_newer_request_has_its_groups_in_order() -> None:
    asked = groups_asked(fetch_request("b", "a", "b"), 8)
    assert [group.group_id for group in asked] == ["b", "a", "b"]


def test_offsets_come_back_with_all_their_fields() -> None:
    reply = flat_reply(ASKED, 5, found())
    [topic] = reply.topics
    [row] = topic.partitions
    assert (topic.name, row.partition_index, row.committed_offset) == ("orders", 1, 7)
    assert (row.committed_leader_epoch, row.metadata, row.error_code) == (3, "m", 0)


@pytest.mark.parametrize("version", range(2, 8))
def test_from_version_2_an_error_is_at_the_top(version: int) -> None:
    assert flat_reply(ASKED, version, failed()) == OffsetFetchResponse(error_code=LOADING)


def test_in_version_1_an_error_is_on_every_partition_asked_for() -> None:
    reply = flat_reply(ASKED, 1, failed())
    assert reply.error_code == 0
    places = [("orders", 0), ("orders", 1), ("payments", 2)]
    assert codes_of(reply) == dict.fromkeys(places, LOADING)
    assert {row.committed_offset for topic in reply.topics for row in topic.partitions} == {-1}


def test_version_0_meant_zookeeper_and_is_refused_on_every_partition() -> None:
    assert set(codes_of(flat_reply(ASKED, 0, found())).values()) == {ErrorCode.UNSUPPORTED_VERSION}
