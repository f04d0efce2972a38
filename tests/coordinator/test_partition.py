"""A partition's life: loading, active, closed."""

from dataclasses import replace
from typing import Any

import pytest

from groupkeeper.coordinator import session_start
from groupkeeper.coordinator.caller import Caller
from groupkeeper.coordinator.deadlines import Timer, TimerKind
from groupkeeper.coordinator.facts import GroupsLoaded
from groupkeeper.coordinator.facts import RebalanceStarted as Started
from groupkeeper.coordinator.partition import TIMERS_PER_TURN, Partition, PartitionState
from groupkeeper.coordinator.records import group_key
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.group_events import CauseCode
from groupkeeper.protocol.messages.heartbeat import HeartbeatRequest
from groupkeeper.protocol.record_batch import encode_batch
from groupkeeper.protocol.records.consumer_offsets import (
    GroupMetadataValue,
    MemberMetadata,
    encode_value,
)
from tests.support.scene import CONFIG, FOUR, RANGE_RR, WALL, Call, Scene, first_error, in_state
from tests.support.slices import whole


def loading() -> Scene:
    scene = Scene()
    scene.partition = Partition(CONFIG, str)
    return scene


NAMES = ("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch")
ADMIN = ("OffsetDelete", "DescribeGroups", "ListGroups", "DeleteGroups")


def ask_everything(scene: Scene) -> dict[str, Any]:
    calls = [
        scene.knock("alice", as_id="alice-1"),
        scene.sync("alice"),
        scene.heartbeat("alice"),
        scene.leave("alice"),
        scene.commit("alice"),
        scene.try_fetch(),
        scene.delete_offsets(),
        scene.try_describe(),
        scene.try_groups(),
        scene.delete(),
    ]
    return {call.api: call.response for call in calls}


def test_while_loading_a_heartbeat_is_believed_and_all_else_put_off() -> None:
    replies = ask_everything(loading())
    assert tuple(replies) == NAMES + ADMIN
    codes = {api: first_error(reply) for api, reply in replies.items()}
    assert codes.pop("Heartbeat") == 0
    assert set(codes.values()) == {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    assert replies["JoinGroup"].member_id == ""
    assert replies["ListGroups"].groups == []


def test_a_closed_partition_is_not_the_coordinator() -> None:
    scene = Scene()
    scene.partition.close()
    replies = ask_everything(scene)
    assert {first_error(reply) for reply in replies.values()} == {ErrorCode.NOT_COORDINATOR}


def test_a_partition_that_closed_with_something_unwritten_still_answers() -> None:
    scene = Scene(hold=True)
    scene.commit("admin")
    scene.partition.close()
    scene.open.clear()
    assert scene.heartbeat("alice").outcome == "NOT_COORDINATOR"


@pytest.mark.parametrize("close", [False, True])
def test_errors_of_a_request_come_before_the_question_who_coordinates(close: bool) -> None:
    scene = loading()
    if close:
        scene.partition.close()
    assert scene.knock("a", group="").outcome == "INVALID_GROUP_ID"
    assert scene.knock("a", group="g", session=0).outcome == "INVALID_SESSION_TIMEOUT"
    assert scene.sync("a", protocol_name=None).outcome == "INCONSISTENT_GROUP_PROTOCOL"
    assert scene.heartbeat("a", group_id="").outcome == "INVALID_GROUP_ID"
    assert scene.leave_as("a", ("a", None), group="").outcome == "INVALID_GROUP_ID"
    assert scene.delete_offsets(group="").outcome == "INVALID_GROUP_ID"


# -- closing ---------------------------------------------------------------------------------------


def test_closing_in_the_join_phase_answers_every_parked_join_with_its_id() -> None:
    scene = in_state("PreparingRebalance")
    calls = [scene.join("lea"), scene.join("SAM")]
    scene.fail()
    assert {call.outcome for call in calls} == {"NOT_COORDINATOR"}
    assert [call.response.member_id for call in calls] == ["lea-1", "SAM-1"]


def test_closing_in_the_sync_phase_answers_every_parked_sync() -> None:
    scene = in_state("CompletingRebalance")
    calls = [scene.sync("fred"), scene.sync("SAM")]
    scene.fail()
    assert {call.outcome for call in calls} == {"NOT_COORDINATOR"}


@pytest.mark.parametrize("version", [5, 6, 7, 9])
def test_a_restart_that_could_not_be_written_never_happened(version: int) -> None:
    scene = in_state("Stable")
    scene.hold = True
    call = scene.restart("SAM", version=version)
    scene.fail()
    scene.hold = False
    assert call.outcome == "NOT_COORDINATOR"
    assert call.response.protocol_name == (None if version >= 7 else "")
    assert scene.heartbeat("SAM", member_id="SAM-1").outcome == "NONE"


def test_whatever_waits_in_the_gate_is_refused_in_its_own_shape() -> None:
    scene = in_state("Stable", max_session_timeout_ms=2**31 - 1)
    scene.hold = True
    scene.commit("lea")
    calls = [
        scene.heartbeat("lea"),
        scene.sync("fred"),
        scene.knock("new", protocols=RANGE_RR),
        scene.knock("new", version=6, as_id="x"),
        scene.commit("fred"),
        scene.try_fetch(),
        scene.delete_offsets("u"),
        scene.try_describe(),
        scene.try_groups(),
        scene.delete("x"),
        scene.leave("fred"),
    ]
    assert {call.outcome for call in calls} == {"parked"}
    scene.fail()
    assert {call.outcome for call in calls} == {"NOT_COORDINATOR"}


def test_after_a_failed_write_the_group_is_as_the_log_has_it() -> None:
    scene = in_state("CompletingRebalance")
    generation = scene.group.generation
    scene.hold = True
    scene.sync_all(*FOUR)
    scene.fail()
    scene.hold = False
    assert (scene.state, scene.group.generation) == ("Stable", generation - 1)
    assert scene.heartbeat("lea").outcome == "ILLEGAL_GENERATION"
    assert scene.heartbeat("lea", generation_id=generation - 1).outcome == "NONE"


def test_a_step_that_raised_loses_no_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whom it had answered before the bug is refused with all the others."""
    scene = in_state("CompletingRebalance")
    waiting = scene.sync("fred")
    monkeypatch.setattr("groupkeeper.coordinator.rebalance.complete_if_all_joined", None)
    with pytest.raises(TypeError):
        scene.leave("TIM")
    refused = {to: ErrorCode(first_error(reply)).name for to, reply in scene.partition.close()}
    assert refused == {waiting: "NOT_COORDINATOR"}


def test_a_closed_partition_has_no_deadlines() -> None:
    scene = in_state("Stable")
    scene.partition.close()
    assert scene.partition.next_deadline() is None
    assert scene.partition.advance(10**9, WALL).replies == []
    assert scene.partition.state is PartitionState.CLOSED


# -- loading ---------------------------------------------------------------------------------------


def test_the_leader_of_the_record_leads_on_wherever_it_stands_there() -> None:
    scene = Scene()
    scene.form("SAM", "fred")
    scene.restart("SAM")
    scene.restart("SAM")
    scene.crash()
    assert list(scene.group.members) == ["fred-1", "SAM-3"]
    assert scene.group.leader_id == "SAM-3"


def test_the_first_rejoin_with_several_protocols_counts_as_changed_after_a_load() -> None:
    """Only the elected one is in the record."""
    scene = in_state("Stable")
    scene.crash()
    assert scene.join("fred").outcome == "parked"


def test_a_loaded_group_above_the_limit_has_to_join_again() -> None:
    scene = Scene()
    scene.form("a", "b", "c")
    scene.config = replace(scene.config, max_size=2)
    scene.crash()
    assert scene.state == "PreparingRebalance"
    outcomes = [scene.join(name).outcome for name in "abc"]
    assert outcomes == ["parked", "parked", "GROUP_MAX_SIZE_REACHED"]
    assert list(scene.group.members) == ["a-1", "b-1"]
    assert scene.state == "CompletingRebalance"


def test_what_was_loaded_is_noted() -> None:
    scene = in_state("Stable")
    scene.commit("lea", partitions=(0, 1))
    scene.crash()
    fact = scene.noted(GroupsLoaded)[-1]
    assert (fact.groups, fact.members, fact.offsets) == (1, 4, 2)
    assert fact.records == len(scene.log)


def restored(stored: dict[str, int], max_size: int = CONFIG.max_size) -> Partition:
    """A partition before its sessions start: of each group, how many members its record has."""
    partition = Partition(replace(CONFIG, max_size=max_size), str)
    records = []
    for group_id, count in stored.items():
        members = [
            MemberMetadata(member_id=f"m{number}", session_timeout=10_000, rebalance_timeout=7)
            for number in range(count)
        ]
        value = GroupMetadataValue(protocol_type="consumer", protocol="range", members=members)
        records.append((group_key(group_id), encode_value(value, 3)))
    partition.replay(encode_batch(0, 0, WALL, records))
    whole(partition.restore())
    return partition


def started(partition: Partition) -> dict[str, list[int]]:
    """When the sessions end of the members that each group had, which start in slices a second
    apart.
    """
    members = {group_id: list(partition.groups[group_id].members) for group_id in "ab"}
    left, now = partition.group_ids(), 1_000
    while left:
        partition.start_sessions(left, now, WALL)
        assert partition.state is PartitionState.LOADING
        now += 1_000
    due = partition.deadlines.due
    return {
        group_id: [due[Timer(TimerKind.SESSION, group_id, each)] for each in ids]
        for group_id, ids in members.items()
    }


def test_sessions_start_in_slices_each_in_full_at_its_own_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session_start, "SESSIONS_IN_A_SLICE", 1)
    partition = restored({"a": 1, "b": 1})
    assert started(partition) == {"a": [12_000], "b": [11_000]}
    step = partition.activate(3_000, WALL)
    [fact] = [each for each in step.facts if isinstance(each, GroupsLoaded)]
    assert (fact.records, fact.groups, fact.members) == (2, 2, 2)


def test_the_members_of_one_group_start_in_slices_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_start, "SESSIONS_IN_A_SLICE", 2)
    partition = restored({"a": 1, "b": 5})
    assert started(partition) == {"a": [14_000], "b": [11_000, 11_000, 12_000, 12_000, 13_000]}
    unheard = partition.groups["b"].returning
    assert unheard is not None and len(unheard.unheard) == 5
    step = partition.activate(4_000, WALL)
    [fact] = [each for each in step.facts if isinstance(each, GroupsLoaded)]
    assert fact.members == 6


def test_a_group_that_is_too_large_now_rebalances_when_all_its_sessions_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session_start, "SESSIONS_IN_A_SLICE", 2)
    partition = restored({"a": 1, "b": 5}, max_size=4)
    left = partition.group_ids()
    states = []
    while left:
        partition.start_sessions(left, 1_000, WALL)
        states.append(partition.groups["b"].state)
    assert states == ["Stable", "Stable", "PreparingRebalance", "PreparingRebalance"]
    [fact] = [each for each in partition.activate(1_000, WALL).facts if isinstance(each, Started)]
    assert (fact.members, fact.cause.code) == (5, CauseCode.GROUP_SHRUNK)


# -- time ------------------------------------------------------------------------------------------


def test_one_turn_handles_a_limited_number_of_timers() -> None:
    scene = Scene()
    for number in range(TIMERS_PER_TURN + 1):
        scene.knock(f"n{number}", as_id="")
    scene.now += 10_000
    scene.partition.advance(scene.now, scene.wall)
    assert len(scene.group.pending) == 1
    assert scene.partition.next_deadline() == scene.now


def test_a_mass_expiry_waits_for_the_disk_after_each_piece() -> None:
    scene = Scene()
    groups = [f"g{number}" for number in range(TIMERS_PER_TURN)]
    for group_id in groups:
        scene.knock(f"member of {group_id}", group=group_id, instance="ann")
    scene.advance(scene.config.initial_rebalance_delay_ms)
    scene.now += 60_000
    scene.hold = True
    expired = scene.ring()
    assert expired.facts and scene.partition.next_deadline() is None
    assert not scene.ring().facts, "another piece, before the first one is durable"
    left = [each for each in groups if scene.partition.groups[each].members]
    assert 0 < len(left) < len(groups)
    scene.hold = False
    scene.flush()
    assert (scene.partition.next_deadline() or 0) <= scene.now, "due at once"
    scene.advance(0)
    assert not any(scene.partition.groups[each].members for each in groups)


def test_a_partition_without_groups_refuses_as_its_state_says() -> None:
    partition = Partition(CONFIG, str)
    assert partition.steady_beat(HeartbeatRequest(group_id="g")) is None
    reply_to = Call("anyone", "Heartbeat", 12, 4)
    [(_, reply)] = partition.handle(HeartbeatRequest(), Caller(4), reply_to, (0, 0)).replies
    assert first_error(reply) == ErrorCode.INVALID_GROUP_ID
