"""The group's own arithmetic: states, elections, subscriptions."""

from dataclasses import dataclass

import pytest

from groupkeeper.coordinator.caller import Caller
from groupkeeper.coordinator.election import accepts, elect, would_elect
from groupkeeper.coordinator.group import TRANSITIONS, Group, GroupState
from groupkeeper.coordinator.join_call import JoinCall
from groupkeeper.coordinator.member import Member
from groupkeeper.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tests.support.scene import Call, Scene, in_state, topics

EMPTY, PREPARING, COMPLETING, STABLE, DEAD = GroupState


def test_the_states_have_the_names_of_describe_groups() -> None:
    names = ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"]
    assert [str(state) for state in GroupState] == names


@pytest.mark.parametrize("after", GroupState)
@pytest.mark.parametrize("before", GroupState)
def test_only_kafkas_transitions_are_possible(before: GroupState, after: GroupState) -> None:
    predecessors = {
        EMPTY: {PREPARING},
        PREPARING: {EMPTY, COMPLETING, STABLE},
        COMPLETING: {PREPARING},
        STABLE: {COMPLETING},
        DEAD: {EMPTY, PREPARING, COMPLETING, STABLE},
    }
    assert (after in TRANSITIONS[before]) == (before in predecessors[after])


def test_any_other_transition_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        Group("g", 0).become(STABLE, 1)


def test_every_transition_stamps_the_time() -> None:
    scene = Scene()
    scene.form("alice")
    stamp = scene.group.state_timestamp_ms
    assert stamp == scene.wall
    scene.advance(5_000)
    scene.leave("alice")
    assert scene.group.state_timestamp_ms == stamp + 5_000


def test_the_subscription_is_what_any_member_wants() -> None:
    scene = Scene()
    for name in ("a", "b"):
        scene.join(name, protocols={"range": topics(name, "both")})
    scene.advance(6_000)
    assert scene.group.subscription == frozenset({"a", "b", "both"})


def test_the_subscription_is_that_of_the_elected_protocol() -> None:
    scene = Scene()
    scene.join("a", protocols={"range": topics("r"), "roundrobin": topics("rr")})
    scene.join("b", protocols={"roundrobin": topics("rr")})
    scene.advance(6_000)
    assert scene.group.subscription == frozenset({"rr"})


def test_without_members_nothing_is_subscribed() -> None:
    assert in_state("Empty").group.subscription == frozenset()


def test_what_cannot_be_read_is_unknown() -> None:
    scene = Scene()
    scene.form("a", protocols={"range": b"\xff"})
    assert scene.group.subscription is None
    assert scene.group.subscribes("anything")


def test_other_protocol_types_have_no_subscription() -> None:
    scene = Scene()
    scene.form("a", type="connect")
    assert scene.group.subscription is None


def test_everything_that_could_change_a_heartbeats_answer_is_counted() -> None:
    scene = in_state("Stable")
    seen = [scene.group.changes]
    for change in ("lea", "fred", "SAM"):
        scene.leave(change)
        seen.append(scene.group.changes)
    assert seen == sorted(set(seen))


# -- elections among very many names ---------------------------------------------------------------

MANY = 20_000


@dataclass
class Patience:
    """Ends a test whose names are compared more often than it allows."""

    comparisons: int = 0

    def names(self, prefix: str) -> list[JoinGroupRequestProtocol]:
        patience = self

        class Name(str):
            __slots__ = ()
            __hash__ = str.__hash__

            def __eq__(self, other: object) -> bool:
                patience.comparisons += 1
                assert patience.comparisons < 20 * MANY, "more than linear in the names"
                return str.__eq__(self, other)

        return [JoinGroupRequestProtocol(name=Name(f"{prefix}{i}")) for i in range(MANY)]


def test_an_election_among_very_many_names_is_linear() -> None:
    patience, group = Patience(), Group("g", 0)
    group.add(Member("a", None, "", "", 1, 1, patience.names("c")))
    group.add(Member("b", None, "", "", 1, 1, patience.names("junk") + patience.names("c")))
    assert elect(group) == "c0"
    member = group.members["a"]
    assert would_elect(group, member, patience.names("c")[::-1]) == f"c{MANY - 1}"
    assert accepts(group, "", patience.names("junk") + patience.names("c")) is False


def test_names_that_come_twice_are_found_in_linear_time() -> None:
    patience = Patience()
    twice = patience.names("c") + patience.names("c")
    call = JoinCall(JoinGroupRequest(protocols=twice), Caller(9), Call("ann", "JoinGroup", 11, 9))
    assert call.protocols == twice[:MANY]
