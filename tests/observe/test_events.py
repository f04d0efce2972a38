"""Facts as events: every type with every field of its table, from what requests cause."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from groupkeeper.coordinator.caller import Peer
from groupkeeper.coordinator.causes import Cause, Who
from groupkeeper.coordinator.facts import (
    Fact,
    GroupEmptied,
    GroupsLoaded,
    LimitReached,
    MemberRemoved,
    NotedFact,
    RebalanceCompleted,
)
from groupkeeper.coordinator.policy import GRACE, REMOTE_ASSIGNOR, RESERVE_ON, TARGET_SIZE
from groupkeeper.observe.assigned import READ_BYTES
from groupkeeper.observe.events import REASON_BYTES, TEXT_BYTES, event_of, type_of
from groupkeeper.protocol.embedded import Assignment, Subscription, TopicPartition
from groupkeeper.protocol.group_event_types import CAUSE, TYPES, WHO
from groupkeeper.protocol.group_events import SHORTENED, CauseCode, Event, decode, encode
from tests.support.codecs import encode_assignment, encode_subscription
from tests.support.scene import RANGE_RR, SESSION, Scene, topics

OF_OBSERVERS = {"rebalance_started": "group_type"}
"""Fields that only observers write."""
OF_THE_LOG = {
    "events_dropped",
    "coordinator_loaded",
    "coordinator_closed",
    "history_lost",
    "group_converted",
}
"""Types that are about the log itself, or stored by observers; no fact is one."""

FORMS: dict[str, Callable[[Any], bool]] = {
    "int": lambda value: type(value) is int,
    "string": lambda value: type(value) is str,
    "bool": lambda value: type(value) is bool,
    "object": lambda value: type(value) is dict,
    "list": lambda value: all(type(each) is dict for each in value),
    "list of string": lambda value: all(type(each) is str for each in value),
    "list of int": lambda value: all(type(each) is int for each in value),
    "list of int or null": lambda value: all(each is None or type(each) is int for each in value),
    "list of who": lambda value: all(each.keys() == WHO.keys() for each in value),
    "map of topic to list of int": lambda value: all(type(each) is list for each in value.values()),
    "who": lambda value: value.keys() == WHO.keys(),
    "cause": lambda value: value.keys() == CAUSE.keys(),
}


def fits(kind: str, value: Any) -> bool:
    if kind in FORMS:
        return FORMS[kind](value)
    return value is None or FORMS[kind.removesuffix(" or null")](value)


def assigned(**partitions: list[int]) -> bytes:
    """A consumer's assignment."""
    mine = [TopicPartition(topic=topic, partitions=some) for topic, some in partitions.items()]
    return encode_assignment(Assignment(version=1, assigned_partitions=mine))


def noted(fact: Fact) -> NotedFact:
    return NotedFact(7, 1_000, 1_700_000_000_000, False, fact)


def told(scene: Scene) -> list[Event]:
    """The events of all that happened, as they are read again."""
    events = [event for each in scene.facts if (event := event_of(each)) is not None]
    return [decode((event.group or "").encode(), encode(event)) for event in events]


def busy() -> Scene:
    """All that can happen to a group."""
    scene = Scene(offsets_retention_ms=3_600_000)
    scene.knock("ghost")
    scene.form("lea", "fred", "SAM", protocols=RANGE_RR)
    scene.commit("lea", partitions=(0, 1))
    scene.join("twin", instance="SAM", as_id="", protocols=RANGE_RR)
    scene.heartbeat("SAM")
    scene.heartbeat("lea", generation_id=9)
    scene.join("fred", protocols={"roundrobin": topics("t")} | RANGE_RR)
    scene.join("ann")
    scene.advance(SESSION * 10)
    scene.form("bea", "eve")
    scene.configure({GRACE: "1000", RESERVE_ON: "left"})
    scene.leave("eve")
    scene.stop(SESSION)
    scene.crash()
    scene.advance(SESSION * 10)
    scene.commit("admin", 3, partitions=(1, 2))
    scene.delete_offsets("t", 2)
    scene.advance(2 * 3_600_000)
    scene.knock("zoe")
    scene.leave("zoe")
    scene.advance(SESSION)
    return scene


def with_standby() -> Scene:
    """A group that may have one member with partitions, and another assignor in between."""
    scene = Scene()
    scene.form("bea")
    scene.configure({TARGET_SIZE: "1"})
    scene.force_rebalance()  # the group's assignor has no format of a consumer
    scene.join("bea")
    scene.sync("bea", {"bea": b"tasks"})
    for _ in range(2):  # after the first the policy holds again, for which there is a second one
        scene.force_rebalance()
        scene.join("bea")
        scene.sync("bea", {"bea": assigned(t=[0, 1])})
    assert scene.join("ann").outcome == "NONE"
    scene.sync("ann")
    scene.leave("bea")
    scene.partition_counts["t"] = 3
    scene.configure({REMOTE_ASSIGNOR: "uniform"})
    scene.advance(0)
    return scene


def test_every_type_is_produced_with_the_fields_of_its_table_and_no_other() -> None:
    events = told(busy()) + told(with_standby())
    assert {event.type for event in events} == TYPES.keys() - OF_THE_LOG
    for event in events:
        table = TYPES[event.type].fields
        own = table.keys() - {OF_OBSERVERS.get(event.type)}
        assert event.fields.keys() == own, event.type
        for name in own:
            kind, _ = table[name]
            assert fits(kind, event.fields[name]), (event.type, name, event.fields[name])


def test_an_event_has_the_time_and_place_of_its_fact() -> None:
    event = event_of(noted(GroupEmptied("g", 3, "Empty", 4, Cause(CauseCode.MEMBER_LEFT))))
    assert event is not None
    assert (event.at_ms, event.mono_ms) == (1_700_000_000_000, 1_000)
    assert (event.group, event.generation, event.state, event.round) == ("g", 3, "Empty", 4)
    assert (event.seq, event.epoch, event.node) == (-1, -1, -1), "the log adds these"


@pytest.mark.parametrize(
    "fact",
    [
        GroupsLoaded("", 0, "", 0, 1, 2, 3, 4),
        LimitReached("g", 0, "Dead", 0, "max_groups", 9, Who("m")),
    ],
)
def test_what_is_no_event_of_a_group_has_none(fact: Fact) -> None:
    assert event_of(noted(fact)) is None
    assert type_of(type(fact).__name__) == type(fact).__name__


def test_the_type_of_a_fact_is_known_by_its_name() -> None:
    assert type_of("MembersNotBack") == "not_back"


# -- parts ---------------------------------------------------------------------------------------


def cause_in(reason: str | None) -> dict[str, Any]:
    who = Who("m", None, "c", "/h", 9, "librdkafka", "2.3.0")
    cause = Cause(CauseCode.MEMBER_LEFT, who, reason, "shutdown", {"idle_ms": 3})
    event = event_of(noted(MemberRemoved("g", 1, "Stable", 0, who, cause)))
    assert event is not None
    found: dict[str, Any] = event.fields["cause"]
    return found


def test_a_cause_has_the_guess_and_its_evidence() -> None:
    found = cause_in("going home")
    assert (found["code"], found["reason"], found["reason_cut"]) == (
        "member_left",
        "going home",
        False,
    )
    assert (found["likely"], found["evidence"]) == ("shutdown", {"idle_ms": 3})
    assert found["who"]["software"] == {"name": "librdkafka", "version": "2.3.0"}


def test_who_has_logged_in_is_in_the_event_of_what_they_did() -> None:
    scene = Scene()
    scene.form("lea", "fred")
    scene.peers["admin"] = Peer("admin", "/h", principal="User:admin")
    scene.leave_as("admin", (scene.person("fred").member_id, None))
    [fact] = scene.noted(MemberRemoved)
    event = event_of(noted(fact))
    assert event is not None
    assert event.fields["cause"]["who"]["principal"] == "User:admin"
    assert event.fields["who"]["principal"] is None


@pytest.mark.parametrize("letter", ["x", "é", "€", "\ud800"])
def test_long_reasons_are_cut_and_said_to_be(letter: str) -> None:
    found = cause_in(letter * REASON_BYTES * 2)
    assert len(found["reason"].encode("utf-8", "surrogatepass")) <= REASON_BYTES
    assert found["reason_cut"] is True
    assert cause_in("x" * REASON_BYTES)["reason_cut"] is False
    assert (cause_in(None)["reason"], cause_in("")["reason"]) == (None, None)


def test_long_names_are_cut() -> None:
    who = Who("m" * 9_000, "i" * 9_000, "c" * 9_000, "/h", 9, "s" * 9_000, "v" * 9_000)
    fact = MemberRemoved("g", 1, "Stable", 0, who, Cause(CauseCode.MEMBER_LEFT))
    event = event_of(noted(fact))
    assert event is not None
    assert len(json.dumps(event.fields["who"])) < 6 * TEXT_BYTES


# -- assignments ---------------------------------------------------------------------------------


def completed(
    now: dict[str, bytes],
    before: dict[str, bytes],
    *,
    protocol: str = "range",
    protocol_type: str = "consumer",
    arrivals: dict[str, int] | None = None,
    metadata: dict[str, bytes] | None = None,
) -> dict[str, Any]:
    """The fields of a round of one second that ended with this plan."""
    fact = RebalanceCompleted(
        *("g", 3, "Stable", 2),
        members=len(now),
        duration_ms=1_000,
        leader_ms=10,
        protocol_type=protocol_type,
        protocol=protocol,
        assignments=[(member, None, data) for member, data in now.items()],
        previous=before,
        arrivals=arrivals or {},
        metadata=metadata or {},
    )
    event = event_of(noted(fact))
    assert event is not None
    return dict(decode(b"g", encode(event)).fields)


def test_an_assignment_is_read_from_the_consumers_bytes() -> None:
    found = completed({"a": assigned(t=[0, 1], u=[5]), "b": b""}, {})
    assert found["assignment"] == [
        {"member": "a", "instance": None, "partitions": {"t": [0, 1], "u": [5]}},
        {"member": "b", "instance": None, "partitions": {}},
    ]


@pytest.mark.parametrize(
    ("plan", "others"),
    [
        (b"\0\1 no assignment", {}),
        (assigned(t=[0]), {"protocol_type": "connect"}),
        (assigned(t=list(range(READ_BYTES // 4))), {}),
    ],
)
def test_other_bytes_are_not_looked_into(plan: bytes, others: dict[str, Any]) -> None:
    found = completed({"a": plan}, {}, **others)
    assert (found["assignment"], found["moved"], found["unassigned_ms"]) == (None, None, None)


def test_what_moved_is_not_known_if_the_last_plan_cannot_be_read() -> None:
    found = completed({"a": assigned(t=[0])}, {"a": b"\0\1 nothing"})
    assert found["assignment"] is not None
    assert (found["moved"], found["unassigned_ms"]) == (None, None)


def test_partitions_with_another_member_have_moved() -> None:
    now = {"a": assigned(t=[0, 1]), "b": assigned(t=[2, 3])}
    before = {"a": assigned(t=[0, 2]), "gone": assigned(t=[1]), "b": assigned(t=[3])}
    assert completed(now, before)["moved"] == 2
    assert completed(now, now)["moved"] == 0
    assert completed(now, {"a": assigned(t=[])})["moved"] == 4


def test_in_the_first_plan_nothing_has_moved() -> None:
    found = completed({"a": assigned(t=[0, 1])}, {})
    assert (found["moved"], found["unassigned_ms"]) == (None, None)
    assert found["assignment"] is not None


def test_a_partition_stands_still_from_its_members_rejoin_on() -> None:
    plan = {"a": assigned(t=[0]), "b": assigned(t=[1])}
    assert completed(plan, plan, arrivals={"a": 600, "b": 900})["unassigned_ms"] == 400
    gone = {"a": assigned(t=[0]), "gone": assigned(t=[1])}
    assert completed(plan, gone, arrivals={"a": 600, "b": 0})["unassigned_ms"] == 1_000


def owning(*partitions: int) -> bytes:
    """Metadata of a consumer that names these partitions as owned."""
    owned = [TopicPartition(topic="t", partitions=[*partitions])] if partitions else []
    return encode_subscription(Subscription(version=1, topics=["t"], owned_partitions=owned))


def test_if_members_keep_their_partitions_only_what_moves_stands_still() -> None:
    plan = {"a": assigned(t=[0]), "b": assigned(t=[1])}
    both = {"a": owning(0), "b": owning(1)}
    kept = completed(plan, plan, protocol="stream", metadata=both)
    assert (kept["moved"], kept["unassigned_ms"], kept["kept"]) == (0, 0, True)


@pytest.mark.parametrize(
    ("metadata", "others", "kept"),
    [
        ({}, {}, None),
        ({"a": owning()}, {"protocol": "cooperative-sticky"}, False),
        ({"a": owning(), "b": owning(1)}, {}, True),
        ({"idle": owning()}, {}, None),
        ({"a": b"\0"}, {}, None),
        ({"a": owning(*range(9_000))}, {}, None),
        ({"a": owning(0)}, {"protocol_type": "connect"}, None),
    ],
)
def test_members_that_name_partitions_as_owned_have_kept_them(
    metadata: dict[str, bytes], others: dict[str, Any], kept: bool | None
) -> None:
    plan = {"a": assigned(t=[0]), "b": assigned(t=[1]), "idle": assigned(t=[])}
    assert completed(plan, plan, metadata=metadata, **others)["kept"] is kept


def test_what_members_of_a_rebalance_kept_is_stored_with_its_protocol_type() -> None:
    scene = Scene()
    plan = {"lea": assigned(t=[0]), "fred": assigned(t=[1])}
    for owned in (owning(), owning(0)):
        scene.join("lea", protocols={"range": owned})
        scene.join("fred", protocols={"range": owned})
        if scene.state == "PreparingRebalance":
            scene.advance(scene.config.initial_rebalance_delay_ms * 2)
        scene.sync("lea", plan)
        scene.sync("fred")
    joined = [event for event in told(scene) if event.type == "rebalance_joined"]
    assert {event.fields["protocol_type"] for event in joined} == {"consumer"}
    over = [event for event in told(scene) if event.type == "rebalance_completed"]
    assert (over[0].fields["kept"], over[-1].fields["kept"]) == (None, True)


def test_the_first_of_two_cooperative_plans_does_not_say_that_nothing_moved() -> None:
    before, first = {"a": assigned(t=[0, 1])}, {"a": assigned(t=[0]), "b": b""}
    second = {"a": assigned(t=[0]), "b": assigned(t=[1])}
    assert completed(first, before, metadata={"a": owning(0, 1)})["moved"] is None
    assert completed(second, first, metadata={"a": owning(0)})["moved"] == 1
    assert completed(first, before, metadata={"a": owning()})["moved"] == 0


def test_of_a_huge_reset_the_first_partitions_are_named() -> None:
    scene = Scene()
    scene.commit("admin", partitions=range(3_000))
    [reset] = [event for event in told(scene) if event.type == "offsets_reset"]
    assert len(reset.fields["partitions"]) == 2_000
    assert reset.fields[SHORTENED] == {"partitions": 3_000, "from": 3_000, "to": 3_000}
