"""When the clients of a replay send heartbeats, stop and leave: as those of the log did. Against
real clients: tests/policies/predicted.
"""

import json
from dataclasses import replace
from typing import Any

import pytest

from groupkeeper.analytics.what_if.behaviour import (
    Behaviour,
    behaviour_of,
    heartbeat_of,
    policies_of,
)
from groupkeeper.analytics.what_if.lives import Life, lives_of
from groupkeeper.analytics.what_if.replay import Outcome, ReplaySettings, replay
from groupkeeper.analytics.what_if.scenarios import AS_IT_WAS, GRACE_LEFT, SESSION, scenarios
from groupkeeper.coordinator.policy import LEFT, LOST, OFF, Policy
from tests.analytics.test_what_if import rebalance, session

S = 1_000
HOUR = 3_600 * S
EIGHT = Behaviour(partitions=8, initial_delay_ms=0, leader_ms=0, beats_anew=True)
KEPT = Policy(grace_ms=60 * S, reserve_on=frozenset({LOST, LEFT}))


def process(name: str, start: int = 0, end: int | None = None, **more: Any) -> Life:
    return Life(name, None, name, "h", start, end, **more)


def leaver(after: int) -> list[Life]:
    """`b` gets half of the partitions with the heartbeat of `a` at 12 s, and leaves later."""
    return [process("a"), process("b", 10 * S, 12 * S + after, leaves=True)]


def run(lives: list[Life], behaviour: Behaviour = EIGHT, policy: Policy | None = None) -> Outcome:
    return replay(lives, behaviour, ReplaySettings(policy=policy), HOUR)


# ---------------------------------------------------------------- heartbeats


@pytest.mark.parametrize(("after", "waits"), [(1_000, 2_000), (2_900, 100), (3_500, 2_500)])
def test_heartbeats_come_at_each_interval_from_an_assignment_on(after: int, waits: int) -> None:
    assert run(leaver(after)).unread_ms == 4 * waits


def test_who_was_just_told_its_assignment_waits_for_a_whole_interval() -> None:
    """`b` learns of the second rebalance with its first heartbeat."""
    behaviour = Behaviour(
        partitions=8, initial_delay_ms=0, leader_ms=0, beats_anew=True, is_cooperative=True
    )
    outcome = run([process("a"), process("b", 10 * S)], behaviour)
    assert (outcome.rounds, outcome.unread_ms) == (3, 4 * 3 * S)


def test_a_rebalance_tells_when_its_last_member_sent_a_heartbeat() -> None:
    """It comes again as often as before, so the heartbeats between are known, too."""
    lives = leaver(7_000)
    last = {"last_client_id": "a", "last_host": "h", "cause": "member_left"}
    known = lives_of([session("m", 0, client_id="a", host="h")], 0, HOUR)
    rows = [rebalance(10 * S, ended=12 * S), rebalance(19 * S, join_ms=2_060, **last)]
    heard = behaviour_of(rows, known, 3_000).heard
    assert heard == {"ah#0": [(12 * S, 21_060)]}
    behaviour = Behaviour(
        partitions=8, initial_delay_ms=0, leader_ms=0, beats_anew=True, heard={"a": heard["ah#0"]}
    )
    assert run(lives, behaviour).unread_ms == 4 * 2_060
    assert run(leaver(4_000), behaviour).unread_ms == 4 * 2_040
    assert run(lives).unread_ms == 4 * 2_000


def test_heartbeats_are_not_known_of_who_is_told_at_another_time() -> None:
    """Each assignment begins an interval: under a policy it comes earlier than it did."""
    behaviour = replace(EIGHT, heard={"a": [(12_400, 21_460)]})
    assert run(leaver(7_000), behaviour).unread_ms == 4 * 2_000
    kept = replace(behaviour, beats_anew=False)
    assert run(leaver(7_000), kept).unread_ms == 4 * 2_460


def test_a_newcomer_that_comes_last_has_sent_no_heartbeat() -> None:
    known = lives_of([session("m", 10_500, client_id="a", host="h")], 0, HOUR)
    last = {"last_client_id": "a", "last_host": "h"}
    assert behaviour_of([rebalance(10 * S, join_ms=500, **last)], known).heard == {}


@pytest.mark.parametrize(
    ("told", "interval"),
    [
        ([], 3_000),
        ([(10, 5_010)], 5_010),
        ([(10, 900), (12, 920), (3, 20_000)], 920),  # one had a pause
        ([(200, 20_000)], 3_000),  # in ten minutes
        ([(None, None), (0, 10)], 3_000),
    ],
)
def test_sessions_tell_how_often_heartbeats_come(
    told: list[tuple[int | None, int | None]], interval: int
) -> None:
    rows = [session("m", 0, 600 * S, heartbeats=beats, longest_gap_ms=gap) for beats, gap in told]
    assert heartbeat_of(rows, [rebalance(S, join_ms=1_700)]) == interval


def test_pauses_of_most_sessions_are_no_interval_if_members_rejoined_much_faster() -> None:
    paused = [session("m", 0, 600 * S, heartbeats=5, longest_gap_ms=20_000) for _ in range(3)]
    slow = [rebalance(S, join_ms=1_700, held_ms=15_000), rebalance(S, join_ms=19_000)]
    assert heartbeat_of(paused, slow) == 20_000
    assert heartbeat_of(paused, [rebalance(S, join_ms=1_700)]) == 3_000
    assert heartbeat_of(paused, [rebalance(S, join_ms=170)]) == 170


def test_a_gap_that_the_session_did_not_outlive_by_heartbeats_is_no_interval() -> None:
    quiet = session("m", 0, HOUR, heartbeats=9, longest_gap_ms=90_000, session_timeout_ms=60_000)
    assert heartbeat_of([quiet], []) == 3_000


def test_without_that_they_are_as_usual_unless_all_rejoined_much_faster() -> None:
    assert heartbeat_of([], [rebalance(S, join_ms=290), rebalance(S, join_ms=120)]) == 290
    assert heartbeat_of([], [rebalance(S, join_ms=900), rebalance(S, join_ms=120)]) == 900
    assert heartbeat_of([], [rebalance(S, join_ms=1_400), rebalance(S, join_ms=120)]) == 3_000
    assert heartbeat_of([], [rebalance(S, join_ms=400)]) == 3_000
    assert heartbeat_of([], []) == 3_000


def test_a_client_that_waits_for_its_heartbeat_is_not_busy() -> None:
    known = lives_of([session("m", 0)], 0, HOUR)
    last = {"last_client_id": "app", "last_host": "10.0.0.1"}
    for held_ms, is_busy in ((2_900, False), (4_100, True)):
        row = rebalance(9 * S, held_ms=held_ms, join_ms=held_ms, **last)
        assert bool(behaviour_of([row], known, 3_000).busy) is is_busy


def test_rebalances_refine_the_interval() -> None:
    """Those of few heartbeats: of many it is not certain how many they were."""
    known = lives_of([session("m", 0, client_id="a", host="h")], 0, HOUR)
    last = {"last_client_id": "a", "last_host": "h"}
    rows = [
        rebalance(10 * S, ended=12 * S),
        rebalance(19 * S, ended=21_100, join_ms=2_060, **last),  # three of 3,020 ms
        rebalance(26 * S, ended=28 * S, join_ms=1_130, **last),  # two of 3,015 ms
        rebalance(500 * S, ended=501 * S, join_ms=500, **last),
    ]
    assert behaviour_of(rows, known, 3_200).heartbeat_ms == 3_018
    assert behaviour_of(rows[:2], known, 4_000).heartbeat_ms == 4_000  # 9,060 is no multiple


@pytest.mark.parametrize(("from_join", "waits"), [(False, 1_000), (True, 2_000)])
def test_in_java_an_interval_begins_before_the_leader_has_assigned(
    from_join: bool, waits: int
) -> None:
    """That takes a second: all stop so long in both rebalances, and half of it until the second."""
    behaviour = Behaviour(
        partitions=8,
        initial_delay_ms=0,
        leader_ms=1_000,
        beats_anew=True,
        beats_from_join=from_join,
    )
    lives = [process("a"), process("b", 10_500, 16 * S, leaves=True)]
    assert run(lives, behaviour).unread_ms == 8 * S + 4 * waits + 8 * S


@pytest.mark.parametrize(
    ("told", "together"),
    [
        ([{}], True),  # nothing is known
        ([{"unowned_ms": 12 * 400}], True),
        ([{"unowned_ms": 12 * 900, "leader_ms": 500}], True),
        ([{"unowned_ms": 12 * 900}], False),
        ([{"unowned_ms": 12 * 900, "members": 2}], True),  # one of them came
        ([{"unowned_ms": 12 * 900, "cause": "window_over"}], True),  # they came one by one
        ([{"unowned_ms": 12 * 900, "is_cooperative": True}], True),
    ],
)
def test_heartbeats_come_together_if_members_rejoin_together(
    told: list[dict[str, Any]], together: bool
) -> None:
    rows = [rebalance(S, **each) for each in told]
    assert behaviour_of(rows, []).beats_anew is together


def test_clients_tell_whether_they_are_java() -> None:
    java, other = "apache-kafka-java 4.1.0", "librdkafka 2.16.0"
    for found, are_java in (([java, java, other], True), ([java, other], False), ([None], False)):
        rows = [rebalance(S, by_software=each) for each in found]
        assert behaviour_of(rows, []).beats_from_join is are_java


def test_a_leader_takes_as_long_as_it_did_at_that_time() -> None:
    rows = [
        rebalance(10 * S, ended=12_400, leader_ms=400),
        rebalance(100 * S, ended=103_010, leader_ms=10),
    ]
    behaviour = behaviour_of(rows, [])
    assert behaviour.leaders == ((12 * S, 400), (103 * S, 10))
    assert [behaviour.leader_takes(at * S) for at in (0, 13, 57, 58, 900)] == [
        400,
        400,
        400,
        10,
        10,
    ]
    assert Behaviour(leader_ms=7).leader_takes(0) == 7


# ---------------------------------------------------------------- ends


def test_a_process_ends_half_an_interval_after_its_last_heartbeat() -> None:
    lost = session("m1", 0, 100 * S, ended_by="session_expired", silent_ms=45 * S)
    [life] = lives_of([lost], 0, HOUR, heartbeat_ms=3_000)
    assert (life.end_ms, life.silent_ms) == (56_500, 1_500)
    outcome = run([process("b"), life])
    [kept_ms] = outcome.detections
    assert kept_ms == 43_500  # to the end of its session


def test_it_ended_before_the_client_was_back() -> None:
    lost = session("m1", 0, 100 * S, ended_by="session_expired", silent_ms=45 * S)
    first, _ = lives_of([lost, session("m2", 55_400)], 0, HOUR, heartbeat_ms=3_000)
    assert first.end_ms == 55_400


@pytest.mark.parametrize(("gap", "pauses"), [(5_900, []), (6_100, [(48_450, 53_050)])])
def test_a_pause_misses_a_heartbeat(gap: int, pauses: list[tuple[int, int]]) -> None:
    rows = [session("m1", 0, 100 * S, longest_gap_ms=gap)]
    assert lives_of(rows, 0, HOUR, heartbeat_ms=3_000)[0].pauses == pauses


def test_who_left_and_came_back_to_its_place_had_left() -> None:
    rows = [
        session("m1", 0, 20 * S, ended_by="replaced", silent_ms=8 * S, lost_by="member_left"),
        session("m2", 20 * S, began_as="replaced", old_member="m1", away_ms=8 * S),
    ]
    first, second = lives_of(rows, 0, HOUR, heartbeat_ms=3_000)
    assert (first.end_ms, first.leaves, second.start_ms) == (12 * S, True, 20 * S)


# ---------------------------------------------------------------- policies that the group had


def stored(at: int, policy: Policy | None) -> dict[str, Any]:
    """A row of table `configs`."""
    told = None if policy is None else json.dumps(policy.as_configs())
    return {"offset": at, "time": at, "configs": told}


def with_policies(*policies: tuple[int, Policy]) -> Behaviour:
    return Behaviour(
        partitions=8, initial_delay_ms=0, leader_ms=0, beats_anew=True, policies=policies
    )


def back(stop: int) -> list[Life]:
    """`b` leaves, and is back after ten seconds."""
    return [process("a"), process("b", 10 * S, stop, leaves=True), process("b", stop + 10 * S)]


def test_the_policies_of_a_group_are_read_from_its_configs() -> None:
    rows = [stored(50, None), stored(10, KEPT), stored(30, Policy(target_size=2))]
    found = policies_of(rows)
    assert found == ((10, KEPT), (30, Policy(target_size=2)), (50, OFF))
    behaviour = with_policies(*found)
    assert [behaviour.policy_at(at).is_on for at in (9, 10, 49, 50)] == [False, True, True, False]


def test_values_that_are_not_known_are_as_if_they_were_not_set() -> None:
    told = {"classic.target.group.size": "2", "classic.seat.match": "face", "later": "1"}
    [(_, policy)] = policies_of([{"offset": 0, "time": None, "configs": json.dumps(told)}])
    assert policy == Policy(target_size=2)


def test_as_it_was_the_policy_holds() -> None:
    assert run(back(100 * S)).rounds == 4
    outcome = run(back(100 * S), with_policies((0, KEPT)))
    assert (outcome.rounds, outcome.reserved_ms) == (2, 4 * 10 * S)


def test_a_policy_holds_from_when_it_was_set_on() -> None:
    changes = with_policies((50 * S, KEPT), (200 * S, OFF))
    assert [run(back(at), changes).rounds for at in (30 * S, 100 * S, 300 * S)] == [4, 2, 4]


def test_a_scenario_changes_the_policy_that_the_group_has() -> None:
    held = Policy(target_size=2, grace_ms=30 * S, reserve_on=frozenset({LOST, LEFT}))
    behaviour = with_policies((0, held))
    found = [*scenarios(back(100 * S), behaviour, [rebalance(S)], {})]
    graces = {each.value: each for each in found if each.name == GRACE_LEFT}
    policy = graces[60 * S].settings.policy
    assert policy is not None
    assert (policy.grace_ms, policy.target_size) == (60 * S, 2)
    assert [value for value, each in graces.items() if each.is_today] == [30 * S]
    others = {each.settings.policy for each in found if each.name in (AS_IT_WAS, SESSION)}
    assert others == {None}
