"""SyncGroup: who waits for whom, what the plan may say, and who is too late."""

from typing import Any

from groupkeeper.coordinator.facts import RebalanceCompleted
from groupkeeper.protocol.group_events import CauseCode
from tests.support.cases import each
from tests.support.scene import Scene, in_state

STATES = ("Dead", "Empty", "PreparingRebalance", "CompletingRebalance", "Stable")
IDS, GEN, FENCED = "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "FENCED_INSTANCE_ID"
MIXED, AGAIN, NO_GROUP = "INCONSISTENT_GROUP_PROTOCOL", "REBALANCE_IN_PROGRESS", "INVALID_GROUP_ID"
TABLE: list[tuple[dict[str, Any], str]] = [
    ({}, f"{IDS} {IDS} {AGAIN} parked NONE"),
    ({"protocol_type": None}, f"{MIXED} {MIXED} {MIXED} {MIXED} {MIXED}"),
    ({"protocol_name": None}, f"{MIXED} {MIXED} {MIXED} {MIXED} {MIXED}"),
    ({"protocol_name": None, "version": 4}, f"{IDS} {IDS} {AGAIN} parked NONE"),
    ({"group_id": ""}, f"{NO_GROUP} {NO_GROUP} {NO_GROUP} {NO_GROUP} {NO_GROUP}"),
    ({"member_id": "x", "generation_id": 99}, f"{IDS} {IDS} {IDS} {IDS} {IDS}"),
    ({"group_instance_id": "SAM", "generation_id": 99}, f"{IDS} {IDS} {FENCED} {FENCED} {FENCED}"),
    ({"generation_id": 99, "protocol_name": "other"}, f"{IDS} {IDS} {GEN} {GEN} {GEN}"),
    ({"protocol_name": "other"}, f"{IDS} {IDS} {MIXED} {MIXED} {MIXED}"),
    ({"protocol_type": "other"}, f"{IDS} {IDS} {MIXED} {MIXED} {MIXED}"),
]


def current(scene: Scene, name: str = "fred") -> int:
    """Make the person speak of the group's generation, whatever it heard."""
    generation = scene.group.generation if scene.state != "Dead" else 1
    scene.person(name).generation = generation
    return generation


@each(
    (state, other, outcome)
    for other, row in TABLE
    for state, outcome in zip(STATES, row.split(), strict=True)
)
def test_order_of_checks(state: str, other: dict[str, Any], expected: str) -> None:
    scene = in_state(state)
    current(scene)
    assert scene.sync("fred", **other).outcome == expected


def test_nobody_is_shown_an_assignment_before_it_is_durable() -> None:
    scene = in_state("CompletingRebalance")
    early = scene.sync("fred")
    scene.hold = True
    late = [scene.sync("lea", {}), scene.sync("SAM"), early]
    assert all(call.parked for call in late)
    scene.flush()
    assert {call.outcome for call in late} == {"NONE"}


def test_a_rebalance_that_begins_while_the_plan_is_being_written_changes_no_answer() -> None:
    """Kafka would say 27 here; so does our next heartbeat."""
    scene = in_state("CompletingRebalance")
    waiting = scene.sync("fred")
    scene.hold = True
    scene.sync("lea", {"fred": b"share"})
    scene.leave("TIM")
    scene.flush()
    assert waiting.response.assignment == b"share"
    assert scene.heartbeat("fred").outcome == AGAIN


def test_a_plan_too_large_to_write_is_refused_to_all_and_the_round_starts_again() -> None:
    scene = in_state("CompletingRebalance", message_max_bytes=2_000)
    waiting = scene.sync("fred")
    leader = scene.sync("lea", {"fred": bytes(5_000)})
    assert leader.outcome == waiting.outcome == "UNKNOWN_SERVER_ERROR"
    assert leader.response.protocol_name is None
    assert scene.state == "PreparingRebalance"
    assert scene.cause.code == CauseCode.ASSIGNMENT_LOST


def test_the_end_of_the_round_is_noted_with_its_duration() -> None:
    scene = Scene()
    scene.join("lea")
    scene.advance(3_500)
    scene.sync("lea", {})
    (fact,) = scene.noted(RebalanceCompleted)
    assert (fact.members, fact.duration_ms, fact.state) == (1, 3_500, "Stable")
