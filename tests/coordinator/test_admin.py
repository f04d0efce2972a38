"""DescribeGroups, ListGroups and DeleteGroups: what operators see and may do."""

from typing import Any

import pytest

from groupkeeper.coordinator.caller import Caller
from groupkeeper.coordinator.facts import GroupDeleted
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.describe_groups import DescribeGroupsRequest
from groupkeeper.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.support.scene import Call, Scene, in_state


@pytest.mark.parametrize("asked", [False, True])
def test_since_version_6_an_unknown_group_is_an_error(asked: bool) -> None:
    """KIP-1043. What may be done with it is not told, even when asked."""
    request = DescribeGroupsRequest(groups=["nobody"], include_authorized_operations=asked)
    group = Scene().ask("x", request, 6).response.groups[0]
    assert (group.error_code, group.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    assert group.error_message == "Group nobody not found."
    assert group.authorized_operations == -(2**31)


def test_an_id_that_fills_its_string_is_cut_in_the_message_around_it() -> None:
    request = DescribeGroupsRequest(groups=["ö" * 16_383])
    group = Scene().ask("x", request, 6).response.groups[0]
    assert len(group.error_message.encode()) == 32_766
    assert group.error_message.startswith("Group öö")


@pytest.mark.parametrize(("asked", "expected"), [(False, -(2**31)), (True, 3400)])
def test_authorized_operations_are_told_when_asked_for(asked: bool, expected: int) -> None:
    """Those that Kafka 4.1 tells where nobody is refused anything."""
    request = DescribeGroupsRequest(groups=["g"], include_authorized_operations=asked)
    for scene, version in ((in_state("Stable"), 6), (in_state("Empty"), 3), (Scene(), 5)):
        group = scene.ask("x", request, version).response.groups[0]
        assert group.authorized_operations == expected


# -- DeleteGroups ----------------------------------------------------------------------------------


def test_an_empty_group_is_deleted_with_all_its_offsets() -> None:
    scene = in_state("Empty")
    scene.commit("admin", partitions=(0, 1))
    assert scene.delete().outcome == "NONE"
    assert scene.state == "Dead"
    assert scene.noted(GroupDeleted)[0].why == "request"
    scene.crash()
    assert scene.groups() == {}
    assert scene.offset() == -1


def test_a_deletion_is_confirmed_when_durable() -> None:
    scene = in_state("Empty")
    scene.hold = True
    call = scene.delete()
    assert call.parked
    scene.crash()
    assert scene.state == "Empty"


# -- many groups in one request --------------------------------------------------------------------


def asked(scene: Scene, request: Any, version: int) -> Any:
    """The reply as the partition gives it: one step, and not through the codec."""
    reply_to = Call("anyone", type(request).__name__, 0, version)
    at = scene.now, scene.wall
    step = scene.partition.handle(request, Caller(version), reply_to, at)
    ((_, response),) = step.replies
    return response


def test_a_repeated_id_is_described_again_but_looked_up_once() -> None:
    scene = in_state("Stable")
    ids = ["g", "none", "g", *["g"] * 5_000]
    described = asked(scene, DescribeGroupsRequest(groups=ids), 5).groups
    assert [each.group_id for each in described] == ids
    assert len({id(each) for each in described}) == 2


def test_a_repeated_fetch_of_everything_is_looked_up_once() -> None:
    scene = Scene()
    scene.commit("admin", partitions=range(100))
    everything = [OffsetFetchRequestGroup(group_id=g, topics=None) for g in ["g", "none"] * 2_000]
    part = [OffsetFetchRequestTopics(name="t", partition_indexes=[1])]
    some = OffsetFetchRequestGroup(group_id="g", topics=part)
    fetched = asked(scene, OffsetFetchRequest(groups=[some, *everything, some]), 8).groups
    assert [each.group_id for each in fetched] == ["g", *["g", "none"] * 2_000, "g"]
    assert len({id(each) for each in fetched}) == 4
    assert len(fetched[1].topics[0].partitions) == 100
    assert len(fetched[-1].topics[0].partitions) == 1
