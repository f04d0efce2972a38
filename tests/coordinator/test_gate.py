"""The reply gate: nothing leaves before what was written before it is durable."""

from typing import Any

import pytest

from tests.support.scene import Call, Scene, in_state


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
    assert [to for to, _ in scene.partition.written(first.mark)] == calls
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
    released = [to for to, _ in scene.partition.written(first.mark)]
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
        answered = [to for to, _ in scene.partition.written(unwritten.mark)]
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
