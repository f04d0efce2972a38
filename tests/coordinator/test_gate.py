"""The reply gate: nothing leaves before what was written before it is durable."""

from typing import Any

import pytest

from groupkeeper.coordinator.facts import (
    Fact,
    GroupCreated,
    GroupDeleted,
    MemberFenced,
    NotedFact,
    OffsetsCommitted,
    OffsetsRemoved,
    OffsetsReset,
    RebalanceCompleted,
)
from groupkeeper.coordinator.gate import Unwritten
from tests.support.scene import WALL, Call, Scene, in_state


def test_a_reply_given_while_nothing_is_on_its_way_leaves_at_once() -> None:
    assert not in_state("Stable").heartbeat("lea").parked


READS: dict[str, Any] = {
    "DescribeGroups": lambda scene: scene.try_describe(),
    "ListGroups": lambda scene: scene.try_groups(),
    "OffsetFetch": lambda scene: scene.try_fetch(),
    "Heartbeat": lambda scene: scene.heartbeat("lea"),
    "SyncGroup": lambda scene: scene.sync("lea"),
    "JoinGroup": lambda scene: scene.join("fred"),
    "refusals": lambda scene: scene.heartbeat("x", member_id="x"),
}


@pytest.mark.parametrize("read", READS)
def test_nothing_that_is_not_durable_is_ever_shown(read: str) -> None:
    scene = in_state("Stable")
    scene.hold = True
    scene.commit("lea", 99)
    call: Call = READS[read](scene)
    assert call.parked
    scene.flush()
    assert not call.parked


def test_what_was_never_durable_is_not_there_after_a_crash() -> None:
    scene = Scene(hold=True)
    scene.commit("admin", 99)
    scene.crash()
    scene.hold = False
    assert scene.offset() == -1


def test_replies_leave_in_the_order_of_their_rounds() -> None:
    scene = Scene(hold=True)
    calls = [scene.commit("admin", n) for n in range(3)]
    first = scene.partition.take()
    assert first is not None
    later = scene.commit("admin", 3)
    replies, _ = scene.partition.written(first, scene.at)
    assert [to for to, _ in replies] == calls
    assert later.parked


def test_a_round_holds_what_was_written_while_the_last_was_under_way() -> None:
    scene = Scene(hold=True)
    scene.commit("admin")
    first = scene.partition.take()
    scene.commit("admin", partitions=(0, 1))
    second = scene.partition.take()
    assert first is not None
    assert second is not None
    assert [len(first.records), len(second.records)] == [1, 2]
    assert scene.partition.take() is None


def test_a_reply_that_wrote_nothing_waits_only_for_what_came_before_it() -> None:
    scene = Scene(hold=True)
    scene.commit("admin")
    first = scene.partition.take()
    fetch = scene.try_fetch()
    scene.commit("admin")
    assert first is not None
    replies, _ = scene.partition.written(first, scene.at)
    released = [to for to, _ in replies]
    assert fetch in released
    assert len(released) == 2


def test_the_driver_is_told_whether_there_is_anything_to_write() -> None:
    scene = Scene(hold=True)
    assert not scene.partition.has_unwritten
    scene.commit("admin")
    assert scene.partition.has_unwritten
    scene.partition.take()
    assert not scene.partition.has_unwritten


def test_a_batch_ends_before_the_step_that_would_make_it_too_large() -> None:
    scene = Scene(hold=True, message_max_bytes=1_000)
    calls = [scene.commit("admin", n, partitions=range(5)) for n in range(4)]
    batches = []
    while (unwritten := scene.partition.take()) is not None:
        batches.append(len(unwritten.records))
        replies, _ = scene.partition.written(unwritten, scene.at)
        answered = [to for to, _ in replies]
        assert answered == calls[: len(answered)]
        del calls[: len(answered)]
    assert batches == [10, 10]
    assert calls == []


def test_a_step_is_never_torn() -> None:
    scene = Scene(hold=True, message_max_bytes=1_000)
    scene.commit("admin", 1, partitions=range(3))
    scene.commit("admin", 2, partitions=range(13))
    for expected in (3, 13):
        unwritten = scene.partition.take()
        assert unwritten is not None and len(unwritten.records) == expected


# -- marks -----------------------------------------------------------------------------------------


def taken(scene: Scene, name: str = "admin") -> Unwritten:
    """A commit on its way to the log."""
    scene.commit(name)
    unwritten = scene.partition.take()
    assert unwritten is not None
    return unwritten


def test_a_batch_cannot_be_passed_over() -> None:
    scene = Scene(hold=True)
    lost, later = taken(scene), taken(scene)
    with pytest.raises(AssertionError):
        scene.partition.written(later, scene.at)
    assert scene.partition.gate.durable == 0
    scene.partition.written(lost, scene.at)
    scene.partition.written(later, scene.at)
    assert scene.partition.gate.clear


def test_a_batch_is_written_once() -> None:
    scene = Scene(hold=True)
    first = taken(scene)
    scene.partition.written(first, scene.at)
    with pytest.raises(AssertionError):
        scene.partition.written(first, scene.at)


def test_what_was_on_its_way_when_the_log_failed_is_not_written_any_more() -> None:
    scene = Scene(hold=True)
    first = taken(scene)
    partition = scene.partition
    partition.close()
    with pytest.raises(AssertionError):
        partition.written(first, (0, 0))
    assert not partition.has_unwritten


# -- facts -----------------------------------------------------------------------------------------


def kinds(facts: list[NotedFact]) -> list[type[Fact]]:
    return [type(each.fact) for each in facts]


def test_a_fact_is_told_when_its_records_are_durable() -> None:
    scene = Scene(hold=True)
    scene.commit("admin")
    assert scene.noted(OffsetsCommitted) == []
    scene.flush()
    assert len(scene.noted(OffsetsCommitted)) == 1


def test_a_fact_without_records_is_told_at_once_when_nothing_is_on_its_way() -> None:
    scene = in_state("Stable")
    scene.hold = True
    scene.heartbeat("SAM", member_id="somebody else")
    assert len(scene.noted(MemberFenced)) == 1


def test_a_fact_without_records_is_told_with_what_is_before_it() -> None:
    scene = in_state("Stable")
    scene.hold = True
    scene.commit("lea")
    before = len(scene.facts)
    scene.heartbeat("SAM", member_id="somebody else")
    scene.commit("lea")
    assert scene.noted(MemberFenced) == []
    scene.flush_one()
    assert kinds(scene.facts[before:]) == [OffsetsCommitted, MemberFenced, OffsetsCommitted]


def test_a_fact_is_told_no_later_than_what_is_before_it() -> None:
    scene = in_state("Stable")
    scene.hold = True
    first = taken(scene, "lea")
    scene.heartbeat("SAM", member_id="somebody else")
    scene.commit("lea")
    _, facts = scene.partition.written(first, scene.at)
    assert kinds(facts)[-1] is MemberFenced


def refuse(scene: Scene) -> None:
    """A step with a fact and without records."""
    scene.heartbeat("SAM", member_id="somebody else")


def test_all_facts_up_to_a_batch_are_handed_out_with_it_in_order() -> None:
    scene = in_state("Stable")
    scene.commit("lea", topic="u", partitions=(0, 1))
    scene.partition.gate.take_facts()
    scene.hold = True
    scene.delete_offsets("u", 0)
    refuse(scene)
    scene.delete_offsets("u", 1)
    unwritten = scene.partition.take()
    assert unwritten is not None
    assert kinds(unwritten.facts) == [OffsetsRemoved, MemberFenced, OffsetsRemoved]
    _, told = scene.partition.written(unwritten, scene.at)
    assert told == unwritten.facts
    assert [each.with_records for each in told] == [True, False, True]


def test_commits_are_told_and_not_handed_out_one_by_one() -> None:
    scene = in_state("Stable")
    scene.partition.gate.take_facts()
    scene.hold = True
    scene.commit("lea")
    refuse(scene)
    unwritten = scene.partition.take()
    assert unwritten is not None
    assert kinds(unwritten.facts) == [MemberFenced]
    _, told = scene.partition.written(unwritten, scene.at)
    assert kinds(told) == [OffsetsCommitted, MemberFenced]


def test_facts_after_a_batch_are_handed_out_with_the_next_one() -> None:
    scene = in_state("Stable", message_max_bytes=2_000)
    scene.partition.gate.take_facts()
    scene.hold = True
    scene.commit("lea", 1, partitions=range(20))
    refuse(scene)
    scene.commit("lea", 2, partitions=range(20))
    refuse(scene)
    refuse(scene)
    handed_out = []
    while (unwritten := scene.partition.take()) is not None:
        handed_out.append(kinds(unwritten.facts))
    assert handed_out == [[MemberFenced], [MemberFenced, MemberFenced]]


def test_facts_without_records_are_handed_out_alone_once() -> None:
    scene = in_state("Stable")
    scene.partition.gate.take_facts()
    refuse(scene)
    assert scene.partition.gate.has_facts
    assert kinds(scene.partition.gate.take_facts()) == [MemberFenced]
    assert scene.partition.gate.take_facts() == []
    assert not scene.partition.gate.has_facts


def test_no_fact_is_handed_out_alone_before_the_records_before_it() -> None:
    scene = in_state("Stable")
    scene.partition.gate.take_facts()
    scene.hold = True
    first = taken(scene, "lea")
    refuse(scene)
    assert scene.partition.gate.take_facts() == [], "the commit may still fail"
    scene.partition.written(first, scene.at)
    assert kinds(scene.partition.gate.take_facts()) == [MemberFenced]


def test_facts_that_are_lost_with_their_records_are_not_handed_out() -> None:
    scene = in_state("Stable")
    scene.hold = True
    refuse(scene)
    scene.commit("lea")
    scene.partition.close()
    assert scene.partition.gate.take_facts() == []


def test_no_more_facts_wait_than_may_and_the_others_are_counted() -> None:
    scene = in_state("Stable")
    gate = scene.partition.gate
    scene.partition.gate.take_facts()
    gate.facts_most = 3
    for _ in range(5):
        refuse(scene)
    assert kinds(scene.partition.gate.take_facts()) == [MemberFenced] * 3
    assert gate.left_out == {"MemberFenced": 2}
    refuse(scene)
    assert kinds(scene.partition.gate.take_facts()) == [MemberFenced]


def test_facts_with_records_wait_however_many_facts_do() -> None:
    scene = Scene(hold=True)
    gate = scene.partition.gate
    gate.facts_most = 2
    for group in "abc":
        scene.commit("admin", group_id=group)
    scene.delete("a", "b", "c")
    refuse(scene)
    assert gate.left_out == {"RequestRefused": 1}
    written = scene.partition.take()
    assert written is not None
    for kind in (GroupCreated, OffsetsReset, OffsetsRemoved, GroupDeleted):
        assert kinds(written.facts).count(kind) == 3
    refuse(scene)
    scene.partition.written(written, scene.at)
    assert len(scene.partition.gate.take_facts()) == 1, "there is room again"


def test_no_fact_waits_if_none_is_stored() -> None:
    scene = in_state("Stable")
    gate = scene.partition.gate
    scene.partition.gate.take_facts()
    gate.facts_most = 0
    refuse(scene)
    assert not gate.has_facts
    assert not gate.left_out


def test_an_envelope_has_the_time_of_its_step_and_the_order_of_its_partition() -> None:
    scene = Scene(hold=True)
    began = scene.now
    for number in range(3):
        scene.commit("admin", number)
        scene.advance(100)
    scene.flush()
    facts = [each for each in scene.facts if type(each.fact) is OffsetsCommitted]
    assert [each.now for each in facts] == [began, began + 100, began + 200]
    assert [each.wall for each in facts] == [WALL + each.now for each in facts]
    assert [each.order for each in scene.facts] == list(range(len(scene.facts)))


def test_nobody_is_told_of_what_was_lost() -> None:
    scene = in_state("CompletingRebalance")
    before = len(scene.noted(RebalanceCompleted))
    scene.hold = True
    synced = scene.sync("lea")
    scene.heartbeat("SAM", member_id="somebody else")
    scene.fail()
    assert synced.outcome == "NOT_COORDINATOR"
    assert len(scene.noted(RebalanceCompleted)) == before
    assert scene.noted(MemberFenced) == []


def test_a_partition_that_is_loaded_again_counts_its_facts_anew() -> None:
    scene = Scene()
    scene.commit("admin")
    last = len(scene.facts)
    scene.crash()
    assert scene.facts[last].order == 0


def test_what_a_step_noted_is_handed_out_with_the_last_of_its_batches() -> None:
    scene = Scene(hold=True, message_max_bytes=1_000)
    for partition in range(40):
        scene.commit("admin", partitions=(partition,), group_id="g" * 300)
    scene.flush()
    deleted = scene.delete_offsets("t", *range(40), group="g" * 300)
    batches = []
    while deleted.parked:
        unwritten = scene.flush_one()
        assert unwritten is not None
        batches.append([type(noted.fact).__name__ for noted in unwritten.facts])
    assert scene.flush_one() is None
    assert len(batches) > 10
    assert batches[-1] == ["OffsetsRemoved"]
    assert not any(batches[:-1])
