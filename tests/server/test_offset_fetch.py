"""OffsetFetch in its older shape, made from the newer one."""

import pytest

from groupkeeper.server.offset_fetch import flat_reply, one_per_group
from protocol.errors import ErrorCode
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
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
    [part] = one_per_group(ASKED, 7)
    [group] = part.groups
    assert group.topics is not None
    asked = {topic.name: topic.partition_indexes for topic in group.topics}
    assert (group.group_id, asked) == ("g", {"orders": [0, 1], "payments": [2]})


def test_no_topics_ask_for_all_of_them() -> None:
    [part] = one_per_group(flat_fetch_request("g"), 2)
    assert part.groups[0].topics is None


def test_a_newer_request_is_one_per_group_in_order() -> None:
    parts = one_per_group(fetch_request("b", "a", "b"), 8)
    assert [[group.group_id for group in part.groups] for part in parts] == [["b"], ["a"], ["b"]]


@pytest.mark.parametrize("version", [7, 8])
def test_the_wish_for_stable_offsets_goes_along(version: int) -> None:
    request = OffsetFetchRequest(group_id="g", groups=fetch_request("g").groups)
    request.require_stable = True
    assert all(part.require_stable for part in one_per_group(request, version))


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
