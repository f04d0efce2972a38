"""The short cut for commits that repeat: it does what a commit does, and ends with any change."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest

from groupkeeper.coordinator.caller import Caller
from groupkeeper.coordinator.facts import OffsetsCommitted
from groupkeeper.coordinator.steady_commit import SteadyCommit, is_valid
from groupkeeper.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.support.scene import GROUP, Call, Scene, in_state

PLACES = (("t", 0), ("t", 5), ("u", 1))


def asked(scene: Scene, offset: int, metadata: str = "", **fields: Any) -> OffsetCommitRequest:
    """Of fred, for all of `PLACES`."""
    fred = scene.person("fred")
    topics = [
        OffsetCommitRequestTopic(
            name=name,
            partitions=[
                OffsetCommitRequestPartition(
                    partition_index=index,
                    committed_offset=offset,
                    committed_leader_epoch=3,
                    committed_metadata=metadata,
                )
                for topic, index in PLACES
                if topic == name
            ],
        )
        for name in ("t", "u")
    ]
    who = {"member_id": fred.member_id, "generation_id_or_member_epoch": fred.generation}
    return OffsetCommitRequest(group_id=GROUP, topics=topics, **who | fields)


def short_cut(scene: Scene, version: int = 9, **fields: Any) -> SteadyCommit | None:
    """Of a commit that was just accepted."""
    request = asked(scene, 7, **fields)
    call = scene.ask("fred", request, version)
    assert call.outcome == "NONE"
    caller = Caller(version, scene.peer("fred"))
    return scene.partition.steady_commit(request, call.response, caller)


def again(scene: Scene, steady: SteadyCommit, *offsets: int) -> Call:
    """Repeat it."""
    assert is_valid(steady)
    call = Call("fred", "OffsetCommit", 8, 9)
    scene.open.append(call)
    at = scene.now, scene.wall
    given = [offset.to_bytes(8, "big") for offset in offsets]
    scene._settle(scene.partition.commit_again(steady, given, call, at))
    return call


def known(scene: Scene) -> dict[str, Any]:
    """All that a commit changes."""
    fred = asdict(scene.group.members["fred-1"]) | {"peer": None}
    return {
        "log": scene.log,
        "facts": scene.noted(OffsetsCommitted),
        "trace": scene.trace,
        "offsets": scene.group.offsets,
        "due": scene.partition.deadlines.due,
        "fred": fred,
    }


@pytest.mark.parametrize("metadata", ["", "where I was"])
def test_it_does_what_a_commit_does(metadata: str) -> None:
    scenes = []
    for is_short in (False, True):
        scene = in_state("Stable")
        steady = short_cut(scene, metadata=metadata)
        for offset in (8, 9):
            scene.advance(500)
            scene.heartbeat("fred")
            scene.advance(500)
            if is_short:
                assert steady is not None
                call = again(scene, steady, offset, offset, offset)
            else:
                call = scene.ask("fred", asked(scene, offset, metadata), 9)
            assert call.outcome == "NONE"
        scenes.append(known(scene))
    assert scenes[0] == scenes[1]


def test_its_records_count_in_the_size_of_a_batch() -> None:
    sizes = []
    for is_short in (False, True):
        scene = in_state("Stable")
        steady = short_cut(scene)
        scene.hold = True
        if is_short:
            assert steady is not None
            again(scene, steady, 8, 8, 8)
        else:
            scene.ask("fred", asked(scene, 8), 9)
        unwritten = scene.partition.take()
        assert unwritten is not None
        sizes.append((unwritten.size, unwritten.records))
    assert sizes[0] == sizes[1]


def test_the_member_is_known_by_the_connection_that_commits() -> None:
    scene = in_state("Stable")
    steady = short_cut(scene)
    assert steady is not None
    commits = scene.peer("fred")
    scene.hang_up("fred")
    scene.heartbeat("fred")
    assert scene.group.members["fred-1"].peer is scene.peer("fred") is not commits
    again(scene, steady, 8, 8, 8)
    assert scene.group.members["fred-1"].peer is commits


def test_offsets_that_were_deleted_are_there_again() -> None:
    scene = in_state("Stable")
    steady = short_cut(scene)
    assert steady is not None
    scene.forget_topics("t")
    again(scene, steady, 1, 2, 3)
    assert [scene.offset(*place) for place in PLACES] == [1, 2, 3]


CHANGES: dict[str, Callable[[Scene], object]] = {
    "a rebalance": lambda scene: scene.leave("TIM"),
    "a restart": lambda scene: scene.restart("SAM"),
    "an expired session": lambda scene: scene.advance(10_000),
    "the removal of the member": lambda scene: scene.leave("fred"),
    "the end of the partition": lambda scene: scene.partition.close(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_it_ends_with_any_change(change: Callable[[Scene], object]) -> None:
    scene = in_state("Stable")
    steady = short_cut(scene)
    assert steady is not None and is_valid(steady)
    change(scene)
    assert not is_valid(steady)


def test_after_a_load_there_is_none_until_all_members_were_heard_of() -> None:
    scene = in_state("Stable")
    scene.crash()
    steady = short_cut(scene)
    assert steady is not None
    assert not is_valid(steady)
    for name in ("lea", "SAM", "TIM"):
        scene.heartbeat(name)
    assert is_valid(steady)


def test_there_is_none_with_a_retention_of_its_own() -> None:
    scene = in_state("Stable")
    assert short_cut(scene, 4, retention_time_ms=-1) is not None
    assert short_cut(scene, 4, retention_time_ms=60_000) is None


def test_there_is_none_in_another_state_or_for_strangers() -> None:
    scene = in_state("PreparingRebalance")
    fred = scene.person("fred")
    fred.generation = scene.group.generation
    assert short_cut(scene) is None
    empty = in_state("Empty")
    nobody = {"member_id": "", "generation_id_or_member_epoch": -1}
    assert short_cut(empty, **nobody) is None
