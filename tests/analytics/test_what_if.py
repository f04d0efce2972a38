"""What clients did, and what other settings would have made of it; against the real server:
test_what_if_truth.py.
"""

from typing import Any

import pyarrow as pa
import pytest

from groupkeeper.analytics.answering import SCHEMA, proposed_by
from groupkeeper.analytics.pipeline.output import table_of
from groupkeeper.analytics.schemas import TABLES
from groupkeeper.analytics.what_if.behaviour import Behaviour, behaviour_of
from groupkeeper.analytics.what_if.lives import Life, lives_of
from groupkeeper.analytics.what_if.replay import GivenUp, ReplaySettings, replay
from groupkeeper.analytics.what_if.scenarios import (
    AS_IT_WAS,
    COOPERATIVE,
    COOPERATIVE_GRACE,
    DELAY,
    GRACE,
    GRACE_ANY,
    GRACE_LEFT,
    REBALANCE,
    SCALE_WINDOW,
    SESSION,
    SPARE,
    STATIC,
    STATIC_GRACE,
    STATIC_SESSION,
    STEPS,
    scenarios,
    usual_size,
)
from tests.analytics.replayed import replayed_of

Row = dict[str, Any]

S = 1_000
HOUR = 3_600 * S


def session(member: str, start: int, until: int | None = None, **more: Any) -> Row:
    """A row of table `sessions`."""
    row: Row = {
        "member": member,
        "instance": None,
        "client_id": "app",
        "host": "10.0.0.1",
        "from": start,
        "until": until,
        "began_as": "dynamic",
        "ended_by": None if until is None else "member_left",
        "old_member": None,
        "away_ms": None,
        "silent_ms": None,
        "connection": None,
        "session_timeout_ms": 45 * S,
        "rebalance_timeout_ms": 300 * S,
        "longest_gap_ms": None,
    }
    return row | more


def rebalance(started: int, **more: Any) -> Row:
    """A row of table `rounds`."""
    row: Row = {
        "started": started,
        "ended": started + 3_210,
        "join_ms": 3_200,
        "leader_ms": 7,
        "held_ms": 10,
        "ended_by": "all_joined",
        "from_state": "Stable",
        "cause": "member_joined",
        "partitions": 12,
        "members": 3,
        "is_cooperative": False,
    }
    names = ("member", "instance", "client_id", "host")
    return row | {f"{who}_{name}": None for who in ("by", "last") for name in names} | more


def brief(life: Life) -> tuple[str, int, int | None, bool]:
    return life.client, life.start_ms, life.end_ms, life.leaves


# ---------------------------------------------------------------- what clients did


def test_clients_that_look_alike_are_told_apart() -> None:
    rows = [
        session("m1", 0, 50 * S),
        session("m2", 10 * S),
        session("m3", 60 * S),
        session("m4", 5 * S, client_id="other"),
    ]
    assert [brief(life) for life in lives_of(rows, 0, HOUR)] == [
        ("app10.0.0.1#0", 0, 50 * S, True),
        ("other10.0.0.1#0", 5 * S, None, False),
        ("app10.0.0.1#1", 10 * S, None, False),
        ("app10.0.0.1#0", 60 * S, None, False),
    ]


def test_a_client_that_was_killed_ends_with_its_last_request() -> None:
    killed = session("m1", 0, 100 * S, ended_by="session_expired", silent_ms=45 * S)
    [life] = lives_of([killed | {"connection": "closed"}], 0, HOUR)
    assert brief(life) == ("app10.0.0.1#0", 0, 55 * S, False)


def test_a_client_whose_place_was_kept_in_vain_ended_with_its_last_request() -> None:
    lost = session("m1", 0, 160 * S, ended_by="seat_expired", silent_ms=105 * S)
    [life] = lives_of([lost], 0, HOUR)
    assert brief(life) == ("app10.0.0.1#0", 0, 55 * S, False)


def test_a_client_that_took_its_kept_place_was_another_process() -> None:
    rows = [
        session("m1", 0, 130 * S, ended_by="replaced"),
        session("m2", 130 * S, began_as="replaced", old_member="m1", away_ms=75 * S),
    ]
    assert [brief(life) for life in lives_of(rows, 0, HOUR)] == [
        ("app10.0.0.1#0", 0, 55 * S, False),
        ("app10.0.0.1#0", 130 * S, None, False),
    ]


def test_a_host_that_vanished_closed_no_connection() -> None:
    lost = session("m1", 0, 100 * S, ended_by="session_expired", silent_ms=45 * S)
    rows = [lost | {"connection": "open"}, lost | {"connection": "closed", "client_id": "b"}]
    assert [life.is_cut_off for life in lives_of(rows, 0, HOUR)] == [True, False]


@pytest.mark.parametrize(("connection", "lives"), [("open", 1), ("closed", 2), (None, 2)])
def test_a_client_that_kept_its_connection_was_paused(connection: str | None, lives: int) -> None:
    lost = session("m1", 0, 100 * S, ended_by="session_expired", silent_ms=45 * S)
    rows = [lost | {"connection": connection}, session("m2", 130 * S)]
    found = lives_of(rows, 0, HOUR)
    assert len(found) == lives
    assert found[-1].end_ms is None
    assert found[0].pauses == ([(55 * S, 130 * S)] if lives == 1 else [])


def test_a_static_restart_ends_the_old_process_when_it_was_last_heard_of() -> None:
    rows = [
        session("m1", 0, 100 * S, instance="a", ended_by="replaced"),
        session("m2", 100 * S, instance="a", began_as="replaced", old_member="m1", away_ms=8 * S),
    ]
    assert [brief(life) for life in lives_of(rows, 0, HOUR)] == [
        ("a", 0, 92 * S, False),
        ("a", 100 * S, None, False),
    ]


def test_timeouts_are_those_of_group_records_where_events_have_none() -> None:
    told = [{"member": "m1", "session_timeout_ms": 6 * S, "rebalance_timeout_ms": 60 * S}]
    unknown = {"session_timeout_ms": None, "rebalance_timeout_ms": None}
    rows = [session("m1", 0, **unknown), session("m2", 0, **unknown)]
    known, usual = lives_of(rows, 0, HOUR, told)
    assert (known.session_timeout_ms, known.rebalance_timeout_ms) == (6 * S, 60 * S)
    assert (usual.session_timeout_ms, usual.rebalance_timeout_ms) == (45 * S, 300 * S)


@pytest.mark.parametrize(
    ("until", "gap", "pauses"),
    [
        (100 * S, 20 * S, [(40 * S, 60 * S)]),  # half way
        (HOUR, 44 * S, [(1_778 * S, 1_822 * S)]),
        # Its session would not have outlived it: commits kept it, or no coordinator was there.
        (HOUR, 45 * S, []),
        (HOUR, 600 * S, []),
    ],
)
def test_the_longest_silence_of_a_session(
    until: int, gap: int, pauses: list[tuple[int, int]]
) -> None:
    [life] = lives_of([session("m1", 0, until, longest_gap_ms=gap)], 0, HOUR)
    assert life.pauses == pauses


def test_the_longest_silence_was_between_two_rebalances() -> None:
    """Each answered join begins to count anew."""
    rounds = [(S, 40 * S), (60 * S, 62 * S), (99 * S, 120 * S)]
    [life] = lives_of([session("m1", 2 * S, 100 * S, longest_gap_ms=20 * S)], 0, HOUR, (), rounds)
    assert life.pauses == [(70_500, 90_500)]


def test_what_was_not_read_begins_with_the_log() -> None:
    [life] = lives_of([session("m1", 0) | {"from": None}], 7 * S, HOUR)
    assert life.start_ms == 7 * S


def test_slow_clients_are_busy_when_they_were() -> None:
    lives = lives_of([session("m1", 0), session("m2", 0)], 0, HOUR)
    late = {"last_client_id": "app", "last_host": "10.0.0.1", "held_ms": 40 * S, "join_ms": 50 * S}
    found = behaviour_of([rebalance(100 * S), rebalance(200 * S, **late)], lives)
    assert found.busy == {"app10.0.0.1#0": [(200 * S, 250 * S)]}
    assert found.free_at("app10.0.0.1#0", 210 * S) == 250 * S
    assert found.free_at("app10.0.0.1#0", 260 * S) == 260 * S
    assert found.free_at("app10.0.0.1#0", 190 * S) == 190 * S
    assert (found.rejoin_ms, found.leader_ms, found.partitions) == (200, 7, 12)


# ---------------------------------------------------------------- what would have happened


def rolling_restart(
    members: int = 20, away: int = 4 * S, *, leaves: bool = True, session_ms: int = 45 * S
) -> list[Life]:
    """All start, and from the tenth minute on one after the other is restarted."""
    found = []
    for number in range(members):
        name, stop = f"c{number}", 600 * S + number * 30 * S
        more = {"session_timeout_ms": session_ms}
        found.append(Life(name, None, name, "h", number * 100, stop, leaves, **more))
        found.append(Life(name, None, name, "h", stop + away, None, **more))
    return sorted(found, key=lambda life: life.start_ms)


EAGER = Behaviour(partitions=60)
AS = ReplaySettings()


def rounds(lives: list[Life], **changed: Any) -> int:
    return replay(lives, EAGER, ReplaySettings(**changed), 24 * HOUR).rounds


def test_a_rolling_restart_of_dynamic_members_costs_two_rounds_each() -> None:
    assert rounds(rolling_restart()) == 1 + 2 * 20


def test_the_same_with_static_members_costs_none() -> None:
    outcome = replay(rolling_restart(), EAGER, ReplaySettings(is_static=True), 24 * HOUR)
    assert (outcome.rounds, outcome.replaced, outcome.detections) == (1, 20, [])


def test_a_session_that_is_shorter_than_the_restart_costs_two_rounds_each() -> None:
    outcome = replay(
        rolling_restart(away=8 * S),
        EAGER,
        ReplaySettings(True, session_timeout_ms=3 * S),
        24 * HOUR,
    )
    assert outcome.rounds == 1 + 2 * 20
    assert outcome.detections == [3 * S] * 20


def test_a_cooperative_group_stands_still_less() -> None:
    eager, cooperative = (
        replay(rolling_restart(), EAGER, ReplaySettings(is_cooperative=each), 24 * HOUR)
        for each in (False, True)
    )
    assert cooperative.rounds == 1 + 3 * 20  # a leave, a join, and what was revoked is given away
    assert 0 < cooperative.unowned_ms * 5 < eager.unowned_ms


def test_partitions_that_a_cooperative_rebalance_revokes_wait_for_the_next_one() -> None:
    """Two of three members hold back five of ten partitions until all have noticed."""
    lives = [Life(f"c{number}", None, f"c{number}", "h", number * 60 * S) for number in range(2)]
    behaviour = Behaviour(partitions=10, is_cooperative=True)
    outcome = replay(lives, behaviour, ReplaySettings(), HOUR)
    assert outcome.rounds == 3
    # The second round waits for the heartbeat of the new member, three seconds after its start.
    assert outcome.unowned_ms == outcome.unread_ms == pytest.approx(5 * 3_000, abs=5 * 100)


@pytest.mark.parametrize("is_static", [False, True])
def test_partitions_of_a_static_member_that_restarts_are_read_by_nobody(is_static: bool) -> None:
    outcome = replay(
        rolling_restart(3, away=60 * S, session_ms=120 * S),
        Behaviour(partitions=12),
        ReplaySettings(is_static),
        HOUR,
    )
    static_ms = 3 * 60 * S * 4
    if is_static:
        assert outcome.unread_ms == pytest.approx(static_ms, abs=500)
        assert outcome.unowned_ms < 500
    else:
        assert outcome.unread_ms == outcome.unowned_ms < static_ms / 4


def test_partitions_of_a_killed_member_are_read_by_nobody_until_it_is_noticed() -> None:
    lives = [Life("c", None, "c", "h", 0, 100 * S), Life("d", None, "d", "h", 0)]
    for session_ms in (6 * S, 45 * S, 300 * S):
        outcome = replay(
            lives, Behaviour(partitions=8), ReplaySettings(session_timeout_ms=session_ms), HOUR
        )
        assert outcome.unread_ms == pytest.approx(4 * session_ms, abs=8 * 3_100)
        assert outcome.unowned_ms < 8 * 3_100


def test_a_paused_member_reads_nothing() -> None:
    paused = Life("c", None, "c", "h", 0, pauses=[(100 * S, 112 * S)])
    outcome = replay([paused, Life("d", None, "d", "h", 0)], Behaviour(partitions=8), AS, HOUR)
    assert (outcome.rounds, outcome.unread_ms, outcome.unowned_ms) == (1, 4 * 12 * S, 0)
    assert outcome.paused_ms == outcome.unread_ms  # no log would tell


def test_time_in_which_no_client_runs_is_not_counted() -> None:
    """No setting of the group makes somebody read then."""
    lives = [Life("c", None, "c", "h", 0, 100 * S), Life("c", None, "c", "h", 160 * S)]
    for settings in (AS, ReplaySettings(is_static=True, session_timeout_ms=120 * S)):
        outcome = replay(lives, Behaviour(partitions=8), settings, HOUR)
        assert outcome.unread_ms <= 8 * 3_010  # the initial delay


def test_a_killed_client_is_noticed_after_its_session() -> None:
    alone = Life("c", None, "c", "h", 0, 100 * S)
    other = Life("d", None, "d", "h", 0)
    for session_ms in (6 * S, 45 * S, 300 * S):
        outcome = replay([alone, other], EAGER, ReplaySettings(session_timeout_ms=session_ms), HOUR)
        assert outcome.detections == [session_ms]
        assert outcome.rounds == 2


@pytest.mark.parametrize(("session_ms", "expected"), [(10 * S, 3), (13 * S, 1)])
def test_a_pause_counts_against_the_session(session_ms: int, expected: int) -> None:
    paused = Life("c", None, "c", "h", 0, pauses=[(100 * S, 112 * S)])
    other = Life("d", None, "d", "h", 0)
    assert rounds([paused, other], session_timeout_ms=session_ms) == expected


@pytest.mark.parametrize("is_static", [False, True])
def test_who_is_removed_by_somebody_else_is_so_under_all_settings(is_static: bool) -> None:
    removed = Life("c", None, "c", "h", 0, 100 * S, is_removed=True)
    other = Life("d", None, "d", "h", 0)
    outcome = replay([removed, other], EAGER, ReplaySettings(is_static), HOUR)
    assert (outcome.rounds, outcome.detections) == (2, [])


@pytest.mark.parametrize(("timeout", "lasted"), [(30 * S, 30 * S), (300 * S, 100 * S)])
def test_a_busy_client_holds_a_round_until_the_rebalance_timeout(timeout: int, lasted: int) -> None:
    lives = [Life(name, None, name, "h", 0) for name in "ab"] + [Life("c", None, "c", "h", HOUR)]
    behaviour = Behaviour(busy={"b": [(HOUR - S, HOUR + 100 * S)]})
    outcome = replay(lives, behaviour, ReplaySettings(rebalance_timeout_ms=timeout), 2 * HOUR)
    first_ms = 3 * S + behaviour.leader_ms
    assert outcome.not_stable_ms - first_ms == pytest.approx(lasted, abs=12 * S)


def test_changes_of_subscription_happen_whatever_the_settings_are() -> None:
    lives = [Life(name, None, name, "h", 0) for name in "ab"]
    behaviour = Behaviour(changes=((100 * S, "a"), (200 * S, "b"), (300 * S, "nobody")))
    for settings in (ReplaySettings(), ReplaySettings(is_static=True)):
        assert replay(lives, behaviour, settings, HOUR).rounds == 3


def test_clients_that_never_come_to_rest_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("groupkeeper.analytics.what_if.replay.MOST_STEPS", 100)
    with pytest.raises(GivenUp):
        rounds(rolling_restart())


def test_a_fortnight_of_heartbeats_costs_nothing() -> None:
    """Steps, not time: quiet weeks are one."""
    lives = [Life(name, None, name, "h", 0, session_timeout_ms=6 * S) for name in "abc"]
    outcome = replay(lives, EAGER, ReplaySettings(), 14 * 24 * HOUR)
    assert (outcome.rounds, outcome.detections) == (1, [])


# ---------------------------------------------------------------- the table


def asked(sessions: list[Row], rounds: list[Row], until: int = HOUR) -> list[Row]:
    """The answer for tables of one group."""
    read = {"log": "__group_events", "until": until}
    tables = {
        "sessions": table_of("sessions", [filled("sessions", row) for row in sessions]),
        "rounds": table_of("rounds", [filled("rounds", row) for row in rounds]),
        "coverage": table_of("coverage", [filled("coverage", read)]),
    }
    return replayed_of(tables)


def filled(name: str, row: Row) -> Row:
    always = {"group": "g", "source": "events", "confidence": 1.0, "partition": 0}
    return {each.name: always.get(each.name) for each in TABLES[name].columns} | row


def restarts() -> list[Row]:
    """Two members; one is restarted three times."""
    rows = [session("m0", 0, client_id="steady")]
    for number in range(3):
        start = number * 600 * S
        rows.append(session(f"m{number + 1}", start, start + 590 * S))
    return [*rows, session("m9", 1_800 * S)]


def test_scenarios_are_compared_with_a_replay_as_it_was() -> None:
    rows = asked(restarts(), [rebalance(n * S) for n in range(7)])
    by_name = {(row["scenario"], row["value"]): row for row in rows}
    as_it_was, static = by_name[AS_IT_WAS, None], by_name[STATIC, None]
    assert as_it_was["rounds"] == as_it_was["replayed_rounds"] == as_it_was["recorded_rounds"] == 7
    assert as_it_was["rounds_avoided"] == 0
    assert (static["rounds"], static["rounds_avoided"]) == (1, 6)
    assert static["stable_gained_ms"] == as_it_was["not_stable_ms"] - static["not_stable_ms"] > 0
    assert by_name[GRACE_LEFT, 0]["is_today"] and by_name[GRACE_LEFT, 0]["rounds"] == 7
    assert by_name[STATIC_GRACE, 0]["rounds"] == static["rounds"]
    [today] = [row for row in rows if row["scenario"] == SESSION and row["is_today"]]
    assert today["value"] == 45 * S
    short = by_name[STATIC_SESSION, 6 * S]
    assert short["rounds"] == 7
    assert {row["scenario"] for row in rows} == {
        AS_IT_WAS,
        STATIC,
        SESSION,
        STATIC_SESSION,
        COOPERATIVE,
        GRACE_LEFT,
        STATIC_GRACE,
        COOPERATIVE_GRACE,
        SPARE,
        STEPS,
        SCALE_WINDOW,
    }


def test_only_scenarios_that_make_sense_are_shown() -> None:
    static = [row | {"instance": row["client_id"]} for row in restarts()[:2]]
    cooperative = [rebalance(S, is_cooperative=True)]
    names = {row["scenario"] for row in asked(static, cooperative)}
    assert names == {AS_IT_WAS, SESSION, GRACE, SPARE, STEPS}
    slow = rebalance(S, ended_by="timeout", from_state="Empty")
    names = {row["scenario"] for row in asked(restarts(), [slow])}
    assert names >= {REBALANCE, DELAY}


def killed_and_back(away: int = 90 * S) -> list[Row]:
    """One of three is killed and comes back; the others stay."""
    lost = {"ended_by": "session_expired", "silent_ms": 45 * S, "connection": "closed"}
    return [
        session("m0", 0, client_id="a"),
        session("m1", 100, client_id="b"),
        session("m2", 200, 645 * S, client_id="c") | lost,
        session("m3", 600 * S + away, client_id="c"),
    ]


def test_a_grace_pays_from_the_time_on_that_a_client_was_away() -> None:
    rows = asked(killed_and_back(), [rebalance(n * 600 * S) for n in range(3)])
    at = {row["value"]: row for row in rows if row["scenario"] == GRACE}
    assert {key: row["rounds"] for key, row in at.items()} == {
        0: 3,
        10 * S: 3,
        30 * S: 3,
        60 * S: 1,
        120 * S: 1,
        300 * S: 1,
    }
    assert {row["setting"] for row in at.values()} == {"classic.scheduled.rebalance.max.delay.ms"}
    assert (at[60 * S]["moved"], at[60 * S]["rejoins"]) == (0, 0)
    assert at[60 * S]["reserved_ms"] == 4 * 45 * S
    assert at[10 * S]["moved"] > 0
    [spare] = [row for row in rows if row["scenario"] == SPARE]
    assert (spare["rounds"], spare["asks"], spare["moved"]) == (1, 1, 4)
    assert GRACE_LEFT not in {row["scenario"] for row in rows}  # nobody left


def test_policies_are_for_consumers() -> None:
    connect = [rebalance(n * 600 * S, partitions=None) for n in range(3)]
    names = {row["scenario"] for row in asked(killed_and_back(), connect)}
    assert names == {AS_IT_WAS, STATIC, SESSION, STATIC_SESSION, COOPERATIVE}
    streams = [rebalance(n * 600 * S, protocol="stream") for n in range(3)]
    names = {row["scenario"] for row in asked(killed_and_back(), streams)}
    assert {GRACE, STATIC_GRACE, COOPERATIVE_GRACE} <= names
    assert not names & {SPARE, STEPS, SCALE_WINDOW}


def test_pods_with_one_client_id_take_any_place() -> None:
    rows = [row | {"client_id": "app", "host": f"10.0.0.{n}"} for n, row in enumerate(restarts())]
    lost = {"ended_by": "session_expired", "silent_ms": 45 * S, "connection": "closed"}
    rows[1] |= lost | {"until": 635 * S}
    rows[2]["from"] = 650 * S
    found = asked(rows, [rebalance(n * 600 * S) for n in range(7)])
    at = {(row["scenario"], row["value"]): row["rounds"] for row in found}
    assert at[GRACE_ANY, 300 * S] < at[GRACE, 300 * S]
    alike = asked(killed_and_back(), [rebalance(n * 600 * S) for n in range(3)])
    assert GRACE_ANY not in {row["scenario"] for row in alike}


def test_the_size_is_that_of_the_longest_time() -> None:
    lives = [Life("a", None, "a", "h", 0), Life("b", None, "b", "h", 10 * S, 90 * S)]
    assert usual_size(lives) == 2
    assert usual_size([*lives, Life("c", None, "c", "h", 95 * S, 300 * S)]) == 2
    assert usual_size(lives[1:]) == 1


@pytest.mark.parametrize(
    ("join_ms", "heartbeat_ms", "rejoin_ms"), [(300, 300, 0), (3_200, 3_000, 200)]
)
def test_members_heartbeat_as_often_as_rebalances_show(
    join_ms: int, heartbeat_ms: int, rejoin_ms: int
) -> None:
    alone = rebalance(9 * S, members=1, join_ms=0)  # it waits for nobody
    found = behaviour_of([rebalance(S, join_ms=join_ms), alone, alone], [])
    assert (found.heartbeat_ms, found.rejoin_ms) == (heartbeat_ms, rejoin_ms)


@pytest.mark.parametrize(("join_ms", "delay_ms"), [(0, 0), (3_012, 3_000)])
def test_the_initial_delay_is_no_longer_than_a_join_phase_that_had_it(
    join_ms: int, delay_ms: int
) -> None:
    found = behaviour_of([rebalance(S, from_state="Empty", join_ms=join_ms)], [])
    assert found.initial_delay_ms == delay_ms


@pytest.mark.parametrize(
    ("number", "lasts", "matches"),
    [(7, 1_500, True), (8, 1_500, True), (12, 1_000, False), (7, 30 * S, False), (7, 30, False)],
)
def test_a_replay_matches_if_it_is_near_to_the_log(number: int, lasts: int, matches: bool) -> None:
    recorded = [rebalance(n * 60 * S, ended=n * 60 * S + lasts) for n in range(number)]
    rows = asked(restarts(), recorded)
    assert {row["matches"] for row in rows} == {matches}
    assert {row["recorded_not_stable_ms"] for row in rows} == {number * lasts}


def test_a_curve_has_the_values_that_findings_propose() -> None:
    lives = lives_of(restarts(), 0, HOUR)
    proposed = {
        "session.timeout.ms": [660 * S],
        "max.poll.interval.ms": [450 * S],
        "classic.scheduled.rebalance.max.delay.ms": [90 * S],
    }
    found = [*scenarios(lives, behaviour_of([], lives), [rebalance(S)], proposed)]
    at = {(each.name, each.value) for each in found}
    assert (GRACE_LEFT, 90 * S) in at
    assert at >= {(SESSION, 660 * S), (STATIC_SESSION, 660 * S), (REBALANCE, 450 * S)}


def test_values_are_read_from_findings() -> None:
    findings = SCHEMA.empty_table().to_pylist()
    static = {"group": "a", "config_key": "group.instance.id", "sentence": "Do."}
    findings.append(static | {"proposed": "one for each member, with session.timeout.ms=660000"})
    told = {"group": "a", "config_key": "session.timeout.ms", "proposed": "90000"}
    findings.append(told | {"sentence": "Set max.poll.interval.ms=450000 (7 min 30 s)."})
    assert proposed_by(pa.Table.from_pylist(findings, SCHEMA)) == {
        "a": {"session.timeout.ms": {90 * S, 660 * S}, "max.poll.interval.ms": {450 * S}}
    }


def test_rebalances_whose_beginning_is_not_known_were_recorded_too() -> None:
    inferred = [rebalance(S) | {"started": None, "ended": n * S} for n in range(7)]
    assert {row["recorded_rounds"] for row in asked(restarts(), inferred)} == {7}


def test_a_group_without_members_has_no_rows() -> None:
    assert asked([], [rebalance(S)]) == []
