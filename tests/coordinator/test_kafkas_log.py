"""A log that Apache Kafka wrote, replayed: we know what its broker knew at that moment.

Of a KIP-848 group (`next-generation`) the offsets are read and the members are not.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from groupkeeper.protocol.embedded import decode_assignment
from tests.support.scene import Scene

FIXTURE = Path(__file__).parent.parent / "fixtures" / "kafka-consumer-offsets"
EXPECTED = json.loads((FIXTURE / "expected.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def scenes() -> list[Scene]:
    """One for each partition."""
    return [loaded(folder) for folder in sorted(FIXTURE.glob("__consumer_offsets-*"))]


def loaded(folder: Path) -> Scene:
    scene = Scene()
    scene.load(*(segment.read_bytes() for segment in sorted(folder.glob("*.log"))))
    return scene


def home(scenes: list[Scene], group: str) -> Scene:
    return next((s for s in scenes if group in s.partition.groups), scenes[0])


@pytest.mark.parametrize("expected", EXPECTED["groups"], ids=lambda e: e["group"])
def test_groups_are_as_its_broker_described_them(
    scenes: list[Scene], expected: dict[str, Any]
) -> None:
    group = home(scenes, expected["group"]).describe(expected["group"])
    assert (group.group_state, group.protocol_type) == (
        expected["state"],
        expected["protocol_type"],
    )
    assert group.protocol_data == expected["protocol"]
    shown: list[dict[str, Any]] = [
        {
            "member_id": m.member_id,
            "group_instance_id": m.group_instance_id,
            "client_id": m.client_id,
            "client_host": m.client_host,
            "assignment": partitions(m.member_assignment),
        }
        for m in group.members
    ]
    assert sorted(shown, key=lambda m: m["member_id"]) == sorted(
        expected["members"], key=lambda m: m["member_id"]
    )


def partitions(assignment: bytes) -> dict[str, list[int]]:
    assigned = decode_assignment(assignment).assigned_partitions
    return {each.topic: sorted(each.partitions) for each in assigned}


@pytest.mark.parametrize("group", EXPECTED["unknown_groups"])
def test_what_was_deleted_is_dead(scenes: list[Scene], group: str) -> None:
    assert {scene.describe(group).group_state for scene in scenes} == {"Dead"}


def test_every_offset_is_there_and_no_other(scenes: list[Scene]) -> None:
    groups = [group for scene in scenes for group in scene.groups()]
    found = {
        (group, topic.name, each.partition_index): (each.committed_offset, each.metadata)
        for group in groups
        for topic in home(scenes, group).fetch(None, group=group).topics
        for each in topic.partitions
    }
    assert found == {
        (row["group"], row["topic"], row["partition"]): (row["offset"], row["metadata"])
        for row in EXPECTED["offsets"]
    }


def test_its_members_go_on_here_without_a_rebalance(scenes: list[Scene]) -> None:
    scene = home(scenes, "billing")
    group = scene.partition.groups["billing"]
    for member in group.members.values():
        call = scene.heartbeat(
            "x",
            group_id="billing",
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            generation_id=group.generation,
        )
        assert call.outcome == "NONE"
