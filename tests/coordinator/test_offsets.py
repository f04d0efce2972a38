"""OffsetCommit, OffsetFetch, OffsetDelete, and what a deleted topic takes with it."""

from typing import Any

import pytest

from groupkeeper.coordinator.facts import OffsetsRemoved
from groupkeeper.protocol.records.consumer_offsets import decode_offset_value
from tests.support.cases import each
from tests.support.scene import Scene, in_state

STATES = ("Dead", "Empty", "PreparingRebalance", "CompletingRebalance", "Stable")
IDS, GEN, FENCED = "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "FENCED_INSTANCE_ID"
AGAIN, NO_GROUP = "REBALANCE_IN_PROGRESS", "GROUP_ID_NOT_FOUND"
ADMIN = {"member_id": "", "generation_id_or_member_epoch": -1, "group_instance_id": None}
TABLE: list[tuple[str, dict[str, Any], str]] = [
    ("admin", ADMIN, f"NONE NONE {IDS} {IDS} {IDS}"),
    ("fred", {"generation_id_or_member_epoch": -1}, f"NONE NONE {GEN} {GEN} {GEN}"),
    ("fred", ADMIN | {"member_id": "x"}, f"NONE NONE {IDS} {IDS} {IDS}"),
    ("SAM", ADMIN | {"group_instance_id": "SAM"}, f"NONE NONE {FENCED} {FENCED} {FENCED}"),
    ("fred", {}, f"{NO_GROUP} {IDS} NONE {AGAIN} NONE"),
    ("SAM", {}, f"{NO_GROUP} {IDS} NONE {AGAIN} NONE"),
    ("fred", {"generation_id_or_member_epoch": 0}, f"{NO_GROUP} {IDS} {GEN} {GEN} {GEN}"),
    ("fred", {"member_id": "x"}, f"{NO_GROUP} {IDS} {IDS} {IDS} {IDS}"),
    ("fred", {"member_id": ""}, f"{NO_GROUP} {IDS} {IDS} {IDS} {IDS}"),
    ("SAM", {"member_id": "x"}, f"{NO_GROUP} {IDS} {FENCED} {FENCED} {FENCED}"),
    ("SAM", {"group_instance_id": "N"}, f"{NO_GROUP} {IDS} {IDS} {IDS} {IDS}"),
    ("fred", {"version": 8}, f"{GEN} {IDS} NONE {AGAIN} NONE"),
    ("fred", {"version": 1}, f"{GEN} {IDS} NONE {AGAIN} NONE"),
]


@each(
    (state, who, other, outcome)
    for who, other, row in TABLE
    for state, outcome in zip(STATES, row.split(), strict=True)
)
def test_who_may_commit_when(state: str, who: str, other: dict[str, Any], expected: str) -> None:
    scene = in_state(state)
    scene.person(who).generation = scene.group.generation if state != "Dead" else 1
    assert scene.commit(who, 42, **other).outcome == expected
    assert scene.offset() == (42 if expected == "NONE" else -1)


@pytest.mark.parametrize("version", [2, 3, 4])
def test_versions_2_to_4_may_bring_a_retention(version: int) -> None:
    scene = Scene()
    scene.commit("admin", version=version, retention_time_ms=500)
    assert decode_offset_value(scene.log[-1][1] or b"").expire_timestamp == scene.wall + 500


def test_a_commit_is_acknowledged_and_shown_only_when_durable() -> None:
    scene = Scene(hold=True)
    commit, fetch = scene.commit("admin"), scene.try_fetch()
    assert commit.parked
    assert fetch.parked
    scene.flush()
    assert (commit.outcome, fetch.outcome) == ("NONE", "NONE")


# -- OffsetDelete ----------------------------------------------------------------------------------


def test_deletions_are_counted() -> None:
    scene = Scene()
    scene.commit("admin", partitions=(0, 1))
    scene.delete_offsets("t", 0, 1, 2)
    (fact,) = scene.noted(OffsetsRemoved)
    assert (fact.offsets, fact.why, fact.partitions) == (2, "request", {"t": [0, 1]})


# -- deleted topics --------------------------------------------------------------------------------


def test_a_deleted_topic_takes_its_offsets_from_every_group() -> None:
    scene = Scene()
    for group in ("g", "h"):
        scene.commit("admin", group_id=group, partitions=(0, 1))
        scene.commit("admin", group_id=group, topic="kept")
    scene.forget_topics("t", "never there")
    assert (scene.offset("t"), scene.offset("kept")) == (-1, 7)
    scene.crash()
    assert [t.name for t in scene.fetch(None, group="h").topics] == ["kept"]


def test_a_topic_that_goes_while_its_partition_loads_is_forgotten() -> None:
    scene = Scene()
    scene.commit("admin")
    scene.commit("admin", topic="kept")
    scene.crash("t", "never there")
    assert (scene.offset("t"), scene.offset("kept")) == (-1, 7)
    scene.crash()
    assert (scene.offset("t"), scene.offset("kept")) == (-1, 7)


def test_nothing_is_answered_before_that_is_durable() -> None:
    scene = Scene()
    scene.commit("admin")
    scene.hold = True
    scene.crash("t")
    call = scene.try_fetch("t")
    assert call.parked
    scene.flush()
    assert call.response.groups[0].topics[0].partitions[0].committed_offset == -1


def test_a_topic_made_again_after_loading_may_be_committed_to() -> None:
    scene = Scene()
    scene.commit("admin")
    scene.crash("t")
    scene.commit("admin", 3)
    scene.crash()
    assert scene.offset("t") == 3
