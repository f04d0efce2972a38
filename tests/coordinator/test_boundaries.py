"""Requests whose fields are at the ends of their ranges: whatever a client may send is answered.

A step that raises costs the whole partition, so that no request may do it which the decoder lets
through. Every request here takes the way through the codec, and every reply, too.
"""

import random
from typing import Any

import pytest

from groupkeeper.coordinator.records import group_key
from groupkeeper.protocol.message import layout_of
from groupkeeper.protocol.messages.offset_fetch import OffsetFetchRequest
from groupkeeper.protocol.record_batch import encode_batch
from groupkeeper.protocol.records.consumer_offsets import (
    GroupMetadataValue,
    MemberMetadata,
    decode_offset_value,
    encode_value,
)
from tests.support.cases import each
from tests.support.group_requests import CLIENT_REQUESTS
from tests.support.messages import BOUNDARIES, random_message
from tests.support.scene import FOUR, GROUP, REBALANCE, WALL, Scene, in_state, topics

INT64_MAX = 2**63 - 1
INT32_MAX = 2**31 - 1
INT32_MIN = -(2**31)
GENERATION_AFTER = {
    INT32_MAX: INT32_MIN,
    INT32_MAX - 1: INT32_MAX,
    INT32_MIN: INT32_MIN + 1,
    -2: -1,
    -1: 0,
}
ENDS = tuple(GENERATION_AFTER)
LONGEST = "c" * 32_767
STATES = ("Dead", "Empty", "PreparingRebalance", "CompletingRebalance", "Stable")


def plausible(scene: Scene, chance: random.Random) -> dict[str, Any]:
    """What gets a request past the first checks."""
    person = scene.person(chance.choice([*FOUR, "new"]))
    return {
        "group_id": GROUP,
        "member_id": person.member_id,
        "group_instance_id": person.says.get("instance"),
        "generation_id": person.generation,
        "generation_id_or_member_epoch": chance.choice([-1, person.generation]),
        "session_timeout_ms": 10_000,
        "protocol_type": "consumer",
        "protocol_name": person.protocol or "range",
    }


def extreme_request(scene: Scene, chance: random.Random) -> tuple[Any, int]:
    """A request and its version: some of its fields are plausible, all others at an end."""
    cls = chance.choice(CLIENT_REQUESTS)
    oldest, newest = layout_of(cls).versions
    if cls is OffsetFetchRequest:
        oldest = 8  # older ones reach the core in this form
    version = chance.randint(oldest, newest)
    request: Any = random_message(cls, version, "extreme", chance.randrange(2**32))
    for name, value in plausible(scene, chance).items():
        wanted = hasattr(request, name) and chance.random() < 0.8
        if wanted and (value is not None or name == "group_instance_id"):
            setattr(request, name, value)
    return request, version


@each((state, seed) for state in STATES for seed in range(24))
def test_no_decodable_request_makes_a_step_raise(state: str, seed: int) -> None:
    chance = random.Random(f"{state} {seed}")
    scene = in_state(state, message_max_bytes=10_000_000)
    scene.long_ids = True
    for _ in range(12):
        request, version = extreme_request(scene, chance)
        scene.ask(chance.choice([*FOUR, *BOUNDARIES[1:]]), request, version)
        scene.advance(chance.choice([0, 3_000, 10_000]))
    scene.crash()  # and all that was written can be read


def foreign(generation: int, *members: str) -> Scene:
    """A group of a log that another program wrote, whose numbers are at an end of their range."""
    stored = GroupMetadataValue(
        protocol_type="consumer",
        protocol="range" if members else None,
        generation=generation,
        leader=members[0] if members else None,
        current_state_timestamp=INT64_MAX,
        members=[
            MemberMetadata(
                member_id=member,
                client_id=member,
                client_host="/here",
                rebalance_timeout=generation,
                session_timeout=generation,
                subscription=topics("t"),
            )
            for member in members
        ],
    )
    scene = Scene()
    scene.load(encode_batch(0, 0, WALL, [(group_key(GROUP), encode_value(stored, 3))]))
    return scene


@pytest.mark.parametrize("generation", ENDS)
def test_a_generation_is_followed_by_the_one_that_java_counts(generation: int) -> None:
    scene = foreign(generation)
    scene.form("lea")
    following = GENERATION_AFTER[generation]
    assert scene.person("lea").generation == following
    assert scene.heartbeat("lea").outcome == scene.commit("lea").outcome == "NONE"
    scene.crash()
    assert (scene.state, scene.group.generation) == ("Stable", following)
    assert scene.heartbeat("lea").outcome == "NONE"
    scene.leave("lea")
    assert scene.state == "Empty"


@pytest.mark.parametrize("generation", ENDS)
def test_members_of_a_foreign_log_go_on_with_numbers_at_the_ends(generation: int) -> None:
    scene = foreign(generation, "lea", "fred")
    for name in ("lea", "fred"):
        scene.person(name).member_id, scene.person(name).generation = name, generation
    assert scene.heartbeat("fred").outcome in ("NONE", "UNKNOWN_MEMBER_ID")  # if its time is over
    scene.leave("fred")
    scene.restart("new")
    scene.advance(REBALANCE)
    scene.leave("new")
    scene.crash()


@pytest.mark.parametrize("generation", ENDS)
def test_the_last_member_of_a_foreign_log_leaves(generation: int) -> None:
    scene = foreign(generation, "lea")
    scene.person("lea").member_id = "lea"
    scene.leave("lea")
    assert (scene.state, scene.group.generation) == ("Empty", GENERATION_AFTER[generation])
    scene.crash()
    assert scene.group.generation == GENERATION_AFTER[generation]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("generation", ENDS)
def test_no_request_to_a_group_of_a_foreign_log_makes_a_step_raise(
    generation: int, seed: int
) -> None:
    chance = random.Random(f"{generation} {seed}")
    scene = foreign(generation, *FOUR)
    for name in FOUR:
        scene.person(name).member_id, scene.person(name).generation = name, generation
    for _ in range(12):
        request, version = extreme_request(scene, chance)
        scene.ask(chance.choice(FOUR), request, version)
        scene.advance(chance.choice([0, 3_000, 10_000]))
    scene.crash()


@pytest.mark.parametrize("name", ["c" * 32_767, "日" * 10_922, "\N{GRINNING FACE}" * 8_191])
def test_an_id_of_any_legal_length_makes_a_member(name: str) -> None:
    for instance in (None, name):
        scene = Scene()
        scene.long_ids = True
        scene.join(name, instance=instance)
        scene.advance(3_000)
        assert scene.sync(name, {name: b"all"}).outcome == "NONE"
        made = scene.person(name).member_id
        assert len(made.encode()) in range(255 - 3 + 37, 255 + 37 + 1)
        assert made[-37:] == "-00000000-0000-0000-0000-000000000001" or not instance
        assert made[:-37] == name[: len(made) - 37]
        scene.crash()
        assert scene.heartbeat(name).outcome == "NONE"
        assert scene.describe().members[0].client_id == name


def test_a_client_id_within_the_limit_is_kept_whole() -> None:
    scene = Scene()
    scene.long_ids = True
    for name in ("app", "c" * 255):
        assert scene.knock(name).response.member_id.startswith(f"{name}-0")


@pytest.mark.parametrize(
    ("retention", "expires"),
    [
        (INT64_MAX, INT64_MAX),
        (INT64_MAX - WALL, INT64_MAX),
        (1, WALL + 1_001),
        (-1, -1),
        (-2, WALL + 998),
        (-INT64_MAX - 1, WALL + 1_000 - INT64_MAX - 1),
    ],
)
def test_a_retention_ends_with_time_itself(retention: int, expires: int) -> None:
    scene = Scene()
    assert scene.commit("admin", version=4, retention_time_ms=retention).outcome == "NONE"
    stored = scene.group.offsets["t"][0]
    assert decode_offset_value(stored).expire_timestamp == expires
    scene.advance(700_000)
    assert (scene.state == "Dead") == (-1 != expires < scene.wall)


@pytest.mark.parametrize("stamp", [INT64_MAX, 0, -2, -INT64_MAX - 1])
def test_a_commit_may_bring_any_timestamp(stamp: int) -> None:
    scene = Scene()
    assert scene.commit("admin", version=1, timestamp=stamp).outcome == "NONE"
    scene.crash()
    assert scene.offset() == 7
    scene.advance(700_000)
    assert (scene.state == "Dead") == (stamp <= 0), "counted from where it says"


@pytest.mark.parametrize("rebalance", [INT32_MAX, INT32_MAX - 1])
def test_the_longest_rebalance_timeout_does_not_ring_early(rebalance: int) -> None:
    scene = Scene(max_session_timeout_ms=INT32_MAX)
    scene.form("ann", "bea", session=INT32_MAX, rebalance=rebalance)
    waiting = scene.join("ann", protocols={"range": b"other"})
    scene.advance(rebalance - 1)
    assert waiting.parked
    scene.advance(1)
    assert waiting.outcome == "NONE"
    assert len(scene.group.members) == 1


@pytest.mark.parametrize("rebalance", [-1, -INT32_MAX - 1])
def test_a_negative_rebalance_timeout_is_none_at_all(rebalance: int) -> None:
    scene = Scene(initial_rebalance_delay_ms=0)
    assert scene.join("ann", rebalance=rebalance).outcome == "NONE"
    assert scene.sync("ann").outcome == "NONE"
    scene.crash()
    assert scene.state == "Stable"


@pytest.mark.parametrize("session", [0, -1, -INT32_MAX - 1, INT32_MAX])
def test_a_session_timeout_out_of_range_is_refused(session: int) -> None:
    scene = Scene()
    assert scene.knock("ann", session=session).outcome == "INVALID_SESSION_TIMEOUT"
    assert scene.groups() == {}
