"""What is guessed about a cause, and the evidence for it: no guess without evidence."""

from dataclasses import replace

import pytest

from groupkeeper.coordinator.caller import Peer
from groupkeeper.coordinator.causes import Cause
from groupkeeper.coordinator.facts import (
    Fact,
    GroupEmptied,
    MemberFenced,
    MemberJoined,
    MemberRemoved,
    MemberReplaced,
    PendingMemberDropped,
    RebalanceCauseAdded,
    RebalanceStarted,
)
from groupkeeper.coordinator.likely import REMEMBERED, Recent, left, said
from groupkeeper.coordinator.policy import (
    EXPECTED_IDS,
    EXPECTED_WAIT,
    GRACE,
    TARGET_SIZE,
    WATCH,
    WINDOW,
)
from groupkeeper.protocol.embedded import Assignment, TopicPartition
from groupkeeper.protocol.group_event_words import EVIDENCE, LIKELY
from groupkeeper.protocol.group_events import CauseCode
from tests.support.codecs import encode_assignment
from tests.support.scene import RANGE, RANGE_RR, REBALANCE, SESSION, Scene, topics

WITH_CAUSE = (MemberJoined, MemberRemoved, PendingMemberDropped, RebalanceStarted)


def removal(scene: Scene) -> Cause:
    """The cause of the last removal."""
    cause: Cause = scene.noted(MemberRemoved)[-1].cause
    return cause


# -- a client's own words ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "guess"),
    [
        ("consumer poll timeout has expired.", "max_poll_exceeded"),
        ("max.poll.interval.ms exceeded", "max_poll_exceeded"),
        ("Application maximum poll interval (300000ms) exceeded", "max_poll_exceeded"),
        ("the consumer is being closed", "shutdown"),
        ("the consumer unsubscribed from all topics", "shutdown"),
        ("client leaving group per normal operation", "shutdown"),
        ("Shutting down", "shutdown"),
        ("deploying version 7", None),
        ("x" * 1_000 + " being closed", None),
        ("", None),
        (None, None),
    ],
)
def test_words_of_clients_are_understood(reason: str | None, guess: str | None) -> None:
    assert said(reason) == guess


def test_who_says_that_poll_was_late_is_told_what_was_allowed() -> None:
    guess = left("consumer poll timeout has expired.", None, 60_000)
    assert guess == ("max_poll_exceeded", {"rebalance_timeout_ms": 60_000})


@pytest.mark.parametrize(
    ("idle_ms", "timeout_ms", "guess"),
    [
        (300_000, 300_000, "max_poll_exceeded"),
        (306_000, 300_000, "max_poll_exceeded"),
        (299_000, 300_000, None),
        (None, 300_000, None),
        (400_000, 300_000, None),
        (0, 0, None),
    ],
)
def test_a_client_that_leaves_just_when_its_poll_is_due_was_not_polled(
    idle_ms: int | None, timeout_ms: int, guess: str | None
) -> None:
    assert left(None, idle_ms, timeout_ms)[0] == guess
    assert left("deploying version 7", idle_ms, timeout_ms)[0] is None, "it says something else"


def test_a_member_that_leaves_without_a_word_after_its_poll_interval() -> None:
    scene = Scene()
    scene.form("lea", "fred", session=100_000, rebalance=60_000)
    scene.advance(20_000)
    scene.commit("fred")
    scene.advance(61_000)
    scene.heartbeat("fred")
    scene.leave("fred")
    assert removal(scene).likely == "max_poll_exceeded"
    assert removal(scene).evidence == {
        "idle_ms": 61_000,
        "rebalance_timeout_ms": 60_000,
        "session_timeout_ms": 100_000,
    }


def test_of_a_member_that_never_committed_nothing_is_guessed() -> None:
    scene = Scene()
    scene.form("lea", "fred", session=100_000, rebalance=60_000)
    scene.advance(61_000)
    scene.leave("fred")
    assert removal(scene).likely is None


def test_a_shutdown_is_known_by_its_reason_and_nothing_else() -> None:
    scene = Scene()
    scene.form("lea", "fred", "bea")
    scene.leave("fred", reason="the consumer is being closed")
    assert removal(scene).likely == "shutdown"
    scene.leave("bea")
    assert removal(scene).likely is None


def test_the_words_of_an_admin_are_no_shutdown() -> None:
    scene = Scene()
    scene.form("lea", "fred")
    scene.leave_as("admin", ("fred-1", None), reason="the consumer is being closed")
    assert removal(scene).likely is None


# -- silence -------------------------------------------------------------------------------------


@pytest.mark.parametrize("connection", ["open", "closed"])
def test_an_expired_session_says_how_long_nothing_came_and_how_it_beat_before(
    connection: str,
) -> None:
    scene = Scene()
    scene.form("lea")
    for _ in range(3):
        scene.advance(3_000)
        scene.heartbeat("lea")
    if connection == "closed":
        scene.hang_up("lea")
    scene.advance(SESSION)
    assert (removal(scene).code, removal(scene).likely) == ("session_expired", "crash_or_network")
    assert removal(scene).evidence == {
        "silent_ms": SESSION,
        "session_timeout_ms": SESSION,
        "heartbeats": 3,
        "heartbeat_interval_ms": 3_000,
        "connection": connection,
    }


def test_repeated_heartbeats_count_and_are_signs_of_life() -> None:
    scene = Scene()
    scene.form("lea")
    beat = scene.steady_beat("lea")
    assert beat is not None
    for _ in range(4):
        scene.advance(2_000)
        assert scene.partition.beat(beat, scene.now)
    scene.advance(SESSION)
    found = removal(scene).evidence
    assert (found["silent_ms"], found["heartbeats"]) == (SESSION, 4)
    assert found["heartbeat_interval_ms"] == 2_000


def test_an_expiry_that_is_noticed_late_says_how_late() -> None:
    scene = Scene()
    scene.form("lea")
    scene.now += SESSION + 2_500
    scene.ring()
    assert removal(scene).evidence["silent_ms"] == SESSION + 2_500


def test_a_session_that_the_coordinator_restarted_is_no_sign_of_life() -> None:
    scene = Scene()
    scene.form("lea", "SAM", session=30_000, rebalance=20_000)
    scene.join("lea", protocols=RANGE_RR)
    scene.advance(20_000)  # SAM is not there, and is kept
    scene.sync("lea", {})
    scene.advance(20_000)
    found = removal(scene)
    assert (found.code, found.who and found.who.member) == ("sync_timeout", "SAM-1")
    assert found.evidence["silent_ms"] == 40_000
    assert found.likely == "crash_or_network"


def test_heartbeats_of_a_member_that_was_loaded_are_counted_since_then() -> None:
    scene = Scene()
    scene.form("lea")
    scene.advance(5_000)
    scene.crash()
    for _ in range(2):
        scene.advance(3_000)
        scene.heartbeat("lea")
    scene.advance(SESSION)
    assert removal(scene).evidence["heartbeat_interval_ms"] == 3_000


def test_of_a_member_that_was_loaded_the_connection_is_not_known() -> None:
    scene = Scene()
    scene.form("lea")
    scene.crash()
    scene.advance(SESSION)
    assert removal(scene).evidence == {
        "silent_ms": SESSION,
        "session_timeout_ms": SESSION,
        "heartbeats": 0,
        "connection": None,
    }


@pytest.mark.parametrize(
    ("beats", "hangs_up", "guess"),
    [
        (True, False, "slow_member"),
        (True, True, "crash_or_network"),
        (False, False, "crash_or_network"),
    ],
)
def test_a_member_that_beats_and_does_not_rejoin_is_slow(
    beats: bool, hangs_up: bool, guess: str
) -> None:
    scene = Scene()
    scene.form("lea", "fred", session=100_000)
    scene.join("lea", protocols=RANGE_RR)
    scene.advance(57_000)
    if beats:
        scene.heartbeat("fred")
    if hangs_up:
        scene.hang_up("fred")
    scene.advance(3_000)
    found = removal(scene)
    assert (found.code, found.likely) == ("join_timeout", guess)
    assert found.evidence["waited_ms"] == found.evidence["rebalance_timeout_ms"] == REBALANCE
    assert found.evidence["silent_ms"] == (3_000 if beats else 60_000)


@pytest.mark.parametrize(
    ("silent_ms", "guess"), [(9_000, "slow_member"), (12_000, "crash_or_network")]
)
def test_a_member_whose_heartbeats_ended_is_not_slow(silent_ms: int, guess: str) -> None:
    scene = Scene()
    scene.form("lea", "fred", session=100_000)
    scene.join("lea", protocols=RANGE_RR)
    for _ in range((REBALANCE - silent_ms) // 3_000):
        scene.advance(3_000)
        scene.heartbeat("fred")
    scene.advance(silent_ms)
    assert removal(scene).likely == guess
    assert removal(scene).evidence["connection"] == "open", "a host without power closes none"


# -- what happened before ------------------------------------------------------------------------


def test_two_running_clients_with_one_instance_id_are_a_duel() -> None:
    scene = Scene()
    scene.form("lea", "SAM")
    scene.join("twin", instance="SAM", as_id="")
    first = scene.noted(MemberReplaced)[-1]
    assert first.likely == "taken_over"  # seen; that both run is not
    assert first.evidence == {"old_host": "SAM", "old_client": "SAM", "old_connection": "open"}
    scene.heartbeat("SAM")
    assert scene.noted(MemberFenced)[-1].likely is None
    scene.advance(1_000)
    scene.join("SAM", as_id="")
    replaced = scene.noted(MemberReplaced)[-1]
    assert replaced.likely == "duel"
    assert replaced.evidence == {
        "replacements": 2,
        "within_ms": 1_000,
        "hosts": ["twin", "SAM"],
        "clients": ["twin", "SAM"],
        "old_connection": "open",
    }
    scene.heartbeat("twin")
    assert scene.noted(MemberFenced)[-1].likely == "duel"


def test_a_duel_that_costs_a_rebalance_is_in_its_cause() -> None:
    scene = Scene()
    scene.form("lea", "SAM", protocols=RANGE_RR)
    scene.join("twin", instance="SAM", as_id="", protocols=RANGE_RR)
    scene.join("SAM", as_id="", protocols={"roundrobin": topics("t")})
    assert scene.cause.code == "static_member_returned_changed"
    assert scene.cause.likely == "duel"


def test_restarts_of_one_member_are_no_duel_and_not_rolling() -> None:
    scene = Scene()
    scene.form("lea", "SAM")
    for _ in range(3):
        scene.restart("SAM")
    assert [fact.likely for fact in scene.noted(MemberReplaced)] == [None] * 3


def test_two_duels_that_are_far_apart_are_none() -> None:
    scene = Scene()
    scene.form("lea", "SAM", session=1_000_000)
    scene.join("twin", instance="SAM", as_id="")
    scene.advance(400_000)
    scene.join("SAM", as_id="")
    assert scene.noted(MemberReplaced)[-1].likely is None


@pytest.mark.parametrize(("silent_ms", "guess"), [(9_000, "duel"), (9_001, None)])
def test_hosts_that_lost_power_are_no_duel(silent_ms: int, guess: str | None) -> None:
    scene = Scene()
    scene.form("lea", "SAM", session=1_000_000)
    for twin in ("one", "two"):  # the connection before stays open
        scene.advance(silent_ms)
        scene.join(twin, instance="SAM", as_id="")
    assert scene.noted(MemberReplaced)[-1].likely == guess


def test_a_silent_client_that_was_running_after_all_is_in_a_duel() -> None:
    scene = Scene()
    scene.form("lea", "SAM", session=1_000_000)
    for old, new in (("SAM", "one"), ("one", "two")):
        scene.advance(60_000)
        scene.join(new, instance="SAM", as_id="")
        scene.heartbeat(old)
    assert [fact.likely for fact in scene.noted(MemberReplaced)] == [None, None]
    assert [fact.likely for fact in scene.noted(MemberFenced)] == [None, "duel"]


def test_a_client_that_takes_its_own_place_is_in_no_duel() -> None:
    scene = Scene()
    scene.form("lea", "SAM")
    for _ in range(2):
        before = scene.person("SAM").member_id
        scene.join("SAM", as_id="")
        scene.heartbeat("SAM", member_id=before)  # was on its way
    assert [fact.likely for fact in scene.noted(MemberFenced)] == [None, None]


def test_static_members_that_restart_in_a_row_are_a_rolling_restart() -> None:
    scene = Scene()
    scene.form("lea", "SAM", "TIM", session=100_000)
    scene.restart("SAM")
    scene.advance(30_000)
    scene.restart("TIM")
    one, two = scene.noted(MemberReplaced)
    assert (one.likely, two.likely) == (None, "rolling_restart")
    assert two.evidence == {"instances": 2, "within_ms": 30_000}


def test_dynamic_members_that_leave_and_come_back_in_a_row_are_a_rolling_restart() -> None:
    scene = Scene()
    scene.form("lea", "fred", "bea")
    guesses = []
    for name in ("fred", "bea"):
        scene.leave(name, reason="the consumer is being closed")
        guesses.append(removal(scene).likely)
        scene.restart(name)
        guesses.append(scene.noted(MemberJoined)[-1].cause.likely)
    scene.leave("lea")
    guesses.append(removal(scene).likely)
    assert guesses == ["shutdown", None, "shutdown", "rolling_restart", "rolling_restart"]


def test_one_member_that_is_closed_and_started_again_and_again_is_not_rolling() -> None:
    scene = Scene()
    scene.form("lea", "fred")
    for _ in range(3):
        scene.leave("fred")
        scene.restart("fred")
    assert {fact.cause.likely for fact in scene.noted(MemberJoined)} == {None}


def test_clients_on_other_hosts_with_the_default_client_id_were_not_restarted() -> None:
    recent = Recent()
    for host in ("/10.0.0.1", "/10.0.0.2"):
        recent.leave(0, None, Peer("rdkafka", host), None)
    for host in ("/10.0.0.3", "/10.0.0.4"):
        assert recent.join(1_000, None, Peer("rdkafka", host))[0] is None


@pytest.mark.parametrize(("away_ms", "guess"), [(120_000, "rolling_restart"), (120_001, None)])
def test_clients_that_come_back_much_later_were_not_restarted(
    away_ms: int, guess: str | None
) -> None:
    recent = Recent()
    for client in ("fred", "bea"):
        recent.leave(0, None, Peer(client, "/10.0.0.1"), None)
    recent.join(away_ms, None, Peer("fred", "/10.0.0.1"))
    assert recent.join(away_ms, None, Peer("bea", "/10.0.0.1"))[0] == guess


def test_a_static_member_that_left_is_known_on_another_host() -> None:
    recent = Recent()
    for instance in ("SAM", "TIM"):
        recent.leave(0, instance, Peer("rdkafka", "/10.0.0.1"), None)
    recent.join(1_000, "SAM", Peer("rdkafka", "/10.0.0.3"))
    assert recent.join(1_000, "TIM", Peer("rdkafka", "/10.0.0.4"))[0] == "rolling_restart"


def test_a_client_that_leaves_and_joins_on_its_connection_was_not_restarted() -> None:
    scene = Scene()
    scene.form("lea", "fred", "bea")
    for name in ("fred", "bea"):
        scene.leave(name)
        scene.join(name, as_id="")
    assert {fact.cause.likely for fact in scene.noted(MemberJoined)} == {None}


# -- gone, and back on the same connection -------------------------------------------------------


def back(scene: Scene, *names: str, away_ms: int = 3_000, reason: str | None = None) -> Cause:
    """Leave, and join on the same connections; returns the cause of the last join."""
    for name in names:
        scene.leave(name, reason=reason)
    scene.advance(away_ms)
    for name in names:
        scene.join(name, as_id="")
    cause: Cause = scene.noted(MemberJoined)[-1].cause
    return cause


@pytest.mark.parametrize("others", [(), ("lea",)])
def test_who_leaves_and_comes_back_on_one_connection_was_not_polled(others: tuple[str]) -> None:
    scene = Scene()
    scene.form(*others, "fred", session=100_000, rebalance=60_000)
    scene.advance(61_000)
    away_ms = 3_000 if others else 300_000
    cause = back(scene, "fred", away_ms=away_ms)
    assert removal(scene).likely is None, "it could have been closed"
    assert (cause.code, cause.likely) == ("member_joined", "max_poll_exceeded")
    assert cause.evidence == {
        "away_ms": away_ms,
        "same_connection": True,
        "rebalance_timeout_ms": 60_000,
        "idle_ms": 61_000,
    }


def test_who_was_polled_a_moment_before_left_for_another_reason() -> None:
    scene = Scene()
    scene.form("lea", "fred", session=100_000, rebalance=60_000)
    scene.advance(61_000)
    scene.commit("fred")
    cause = back(scene, "fred")
    assert (cause.likely, cause.evidence) == (None, {"away_ms": 3_000, "same_connection": True})


@pytest.mark.parametrize(
    ("reason", "guess"),
    [
        ("consumer poll timeout has expired.", "max_poll_exceeded"),
        ("the consumer unsubscribed from all topics", None),
    ],
)
def test_who_comes_back_on_its_connection_has_said_why_it_left(
    reason: str, guess: str | None
) -> None:
    scene = Scene()
    scene.form("lea", "fred", session=100_000, rebalance=60_000)
    scene.advance(61_000)
    cause = back(scene, "fred", reason=reason)
    assert cause.likely == guess
    assert cause.evidence["same_connection"] is True


def test_connections_tell_clients_of_one_name_apart() -> None:
    recent, peers = Recent(), [Peer("rdkafka", "/10.0.0.1") for _ in range(3)]
    for at, peer in enumerate(peers):
        recent.leave(at, None, peer, None)
    for at, peer in enumerate(peers):
        assert recent.join(10 + at, None, peer) == (None, {"away_ms": 10, "same_connection": True})
    recent.leave(20, None, Peer("other", "/10.0.0.1"), None)
    assert recent.join(30, None, Peer("other", "/10.0.0.1"))[0] is None, "the first restart"


def test_no_more_than_a_few_comings_and_goings_are_remembered() -> None:
    recent = Recent()
    for at in range(100):
        recent.leave(at, None, Peer(f"c{at}", "/10.0.0.1"), None)
        recent.join(at, None, Peer(f"c{at}", "/10.0.0.1"))
        recent.leave(at, None, Peer("gone", "/10.0.0.1"), None)
    assert len(recent.left) == len(recent.returned) == REMEMBERED


def test_a_duel_with_a_client_that_was_not_heard_of_since_a_load_knows_no_connection() -> None:
    scene = Scene()
    scene.form("lea", "SAM", session=1_000_000)
    scene.crash()
    old = scene.person("SAM").member_id
    scene.join("one", instance="SAM", as_id="")
    scene.heartbeat("SAM", member_id=old)
    assert scene.group.history().replaced[0].old_connection is None


def test_an_empty_group_forgets_its_restarts() -> None:
    scene = Scene()
    scene.form("lea", "fred")
    scene.leave("fred")
    scene.restart("fred")
    scene.leave("fred")
    scene.leave("lea")
    scene.restart("lea")
    assert scene.noted(MemberJoined)[-1].cause.likely is None


# -- every code ----------------------------------------------------------------------------------


def _shrunk(scene: Scene) -> None:
    scene.form("lea", "fred")
    scene.config = replace(scene.config, max_size=1)
    scene.crash()


def _silent(scene: Scene) -> None:
    scene.form("lea")
    scene.advance(SESSION)


def _late(scene: Scene) -> None:
    scene.form("lea", "fred", session=400_000)
    scene.join("lea", protocols=RANGE_RR)
    scene.advance(REBALANCE)


def _unsynced(scene: Scene) -> None:
    scene.join("lea", session=400_000)
    scene.advance(3_000 + REBALANCE)


def _ghost(scene: Scene) -> None:
    scene.knock("ghost")
    scene.advance(SESSION)


def _huge_plan(scene: Scene) -> None:
    scene.join("lea")
    scene.advance(3_000)
    scene.sync("lea", {"lea": b"x" * scene.config.message_max_bytes})


def _back(scene: Scene, changed: bool) -> None:
    scene.form("lea", "SAM", protocols=RANGE_RR)
    if changed:
        scene.restart("SAM", protocols={"roundrobin": topics("t")})
    else:
        scene.join("lea", protocols=RANGE)
        scene.restart("SAM")


def _rejoined(scene: Scene, who: str, metadata: bytes) -> None:
    scene.form("lea", "fred")
    scene.join(who, protocols={"range": metadata})


def _loaded(scene: Scene) -> None:
    scene.form("lea", "fred", protocols=RANGE_RR)
    scene.crash()
    scene.join("fred")


def _lost(scene: Scene) -> None:
    """Of two consumers with a partition each, one is lost, and its seat is reserved."""
    scene.configure({GRACE: str(SESSION)})
    for name in ("lea", "fred"):
        scene.join(name)
    scene.advance(6_000)
    scene.sync("fred")
    scene.sync("lea", {"lea": _holding(0), "fred": _holding(1)})
    scene.advance(SESSION - 1_000)
    scene.heartbeat("lea")
    scene.advance(1_000)


def _holding(*partitions: int) -> bytes:
    assigned = [TopicPartition(topic="t", partitions=list(partitions))]
    return encode_assignment(Assignment(assigned_partitions=assigned))


def _not_back(scene: Scene) -> None:
    _lost(scene)
    scene.heartbeat("lea")
    scene.advance(SESSION - 1_000)
    scene.heartbeat("lea")
    scene.advance(1_000)


def _seat_revoked(scene: Scene) -> None:
    _lost(scene)
    scene.force_rebalance()
    scene.join("lea")
    scene.sync("lea", {"lea": _holding(0)})


def _window(scene: Scene) -> None:
    scene.configure({WINDOW: "1000"})
    scene.join("lea")
    scene.advance(6_000)
    scene.sync("lea", {"lea": _holding(0)})
    scene.join("fred")
    scene.advance(1_000)


def _expected(scene: Scene, *names: str) -> None:
    scene.configure({EXPECTED_IDS: "A,B", EXPECTED_WAIT: "1000"})
    for name in names:
        scene.join(name, instance=name)
    scene.advance(1_000)


def _more_partitions(scene: Scene) -> None:
    scene.configure({WATCH: "true"})
    scene.form("lea")
    scene.partition_counts["t"] = 3
    scene.advance(2_000)


def _target(scene: Scene) -> None:
    for name in ("lea", "fred"):
        scene.join(name)
    scene.advance(6_000)
    scene.sync("fred")
    scene.sync("lea", {"lea": _holding(0), "fred": _holding(1)})
    scene.configure({TARGET_SIZE: "1"})


SITUATIONS = {
    CauseCode.MEMBER_JOINED: lambda scene: scene.join("lea"),
    CauseCode.STATIC_MEMBER_JOINED: lambda scene: scene.join("SAM", instance="SAM"),
    CauseCode.STATIC_MEMBER_RETURNED_CHANGED: lambda scene: _back(scene, True),
    CauseCode.STATIC_MEMBER_RETURNED_UNREADY: lambda scene: _back(scene, False),
    CauseCode.SUBSCRIPTION_CHANGED: lambda scene: _rejoined(scene, "fred", topics("t", "u")),
    CauseCode.LEADER_REJOINED: lambda scene: _rejoined(scene, "lea", topics("t")),
    CauseCode.MEMBER_REJOINED: lambda scene: _rejoined(scene, "fred", topics("t", owned=1)),
    CauseCode.METADATA_CHANGED: lambda scene: _rejoined(scene, "fred", b"\xff"),
    CauseCode.REJOINED_AFTER_LOAD: _loaded,
    CauseCode.MEMBER_LEFT: lambda scene: (scene.form("lea"), scene.leave("lea")),
    CauseCode.MEMBER_REMOVED_BY_ADMIN: lambda scene: (
        scene.form("SAM"),
        scene.leave_as("admin", ("", "SAM")),
    ),
    CauseCode.SESSION_EXPIRED: _silent,
    CauseCode.JOIN_TIMEOUT: _late,
    CauseCode.SYNC_TIMEOUT: _unsynced,
    CauseCode.PENDING_MEMBER_EXPIRED: _ghost,
    CauseCode.GROUP_SHRUNK: _shrunk,
    CauseCode.ASSIGNMENT_LOST: _huge_plan,
    CauseCode.SEAT_EXPIRED: _not_back,
    CauseCode.SEAT_REVOKED: _seat_revoked,
    CauseCode.WINDOW_OVER: _window,
    CauseCode.TOPICS_CHANGED: _more_partitions,
    CauseCode.POLICY_CHANGED: _target,
    CauseCode.EXPECTED_COMPLETE: lambda scene: _expected(scene, "A", "B"),
    CauseCode.EXPECTED_MISSING: lambda scene: _expected(scene, "A"),
    CauseCode.OPERATOR: lambda scene: (scene.form("lea"), scene.force_rebalance()),
}


def causes(facts: list[Fact]) -> list[Cause]:
    kinds = (*WITH_CAUSE, RebalanceCauseAdded, GroupEmptied)
    return [fact.cause for fact in facts if isinstance(fact, kinds)]


@pytest.mark.parametrize("code", CauseCode)
def test_every_code_is_reached_by_requests_and_says_only_what_is_documented(
    code: CauseCode,
) -> None:
    assert code in SITUATIONS, f"add requests that lead to {code} to SITUATIONS of this module"
    scene = Scene()
    SITUATIONS[code](scene)
    found = causes([each.fact for each in scene.facts])
    assert found[-1].code is code
    for cause in found:
        assert cause.evidence.keys() <= EVIDENCE.keys()
        assert cause.likely in {None, *LIKELY}
