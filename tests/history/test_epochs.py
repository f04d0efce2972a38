"""The epochs of consumer groups (KIP-848) are told as rebalances, with causes."""

import json
from typing import Any

import pytest

from groupkeeper.history.newer_departures import DEFAULT_LIMIT, SessionLimit
from groupkeeper.history.rounds import Round
from groupkeeper.history.rows import ALL, Told
from groupkeeper.protocol.group_events import Event
from groupkeeper.watch.inferred import GroupEvents
from groupkeeper.watch.records import LogReader
from groupkeeper.why.entries import entry_text
from tests.support.newer_log import (
    AWAY,
    NAMES,
    ORDERS,
    UNRELEASED,
    UNREVOKED,
    ConsumerLog,
    current,
    deleted,
    described,
    epoch,
    member,
    resolved,
    target,
    target_epoch,
    tombstones,
)
from tests.support.told_events import NOON
from tests.support.written_log import commit, entries_of, rounds_of, told_of
from tests.support.written_log import member as classic

LIMIT = SessionLimit(45_000, 5_000)


def rounds(made: ConsumerLog, **how: Any) -> list[Round]:
    return rounds_of(told(made, **how))


def told(made: ConsumerLog, **how: Any) -> list[Told]:
    return told_of(made.data, **{"names": NAMES, "sessions": {"g": LIMIT}, **how})


def code(found: Round) -> str:
    assert found.cause is not None
    return str(found.cause["code"])


def two() -> ConsumerLog:
    """Two members of a topic with 4 partitions, in epoch 2 since 2 s."""
    made = ConsumerLog()
    made.joins(0, "alpha", 1, {"alpha": [0, 1, 2, 3]})
    made.joins(1, "beta", 2, {"alpha": [0, 1], "beta": [2, 3]}, state=UNRELEASED)
    made.reaches(1.5, "alpha", 1, [0, 1], state=UNREVOKED, pending=[2, 3])
    made.reaches(1.8, "alpha", 2, [0, 1])
    made.reaches(2, "beta", 2, [2, 3])
    return made


def commits(made: ConsumerLog, first: int, last: int, *places: int) -> None:
    for at in range(first, last + 1):
        made.write(at, *(commit("g", each) for each in places))


def test_a_member_that_joins_is_the_cause_of_an_epoch() -> None:
    first, second = rounds(two())
    assert [code(each) for each in (first, second)] == ["member_joined"] * 2
    assert (first.from_state, second.from_state) == ("Empty", "Stable")
    assert (second.generation, second.outcome, second.group_type) == (2, "completed", "consumer")
    assert second.cause is not None
    assert second.cause["who"]["client_id"] == "beta"
    assert (second.source, second.confidence) == ("log", 0.99)
    assert [each["who"]["client_id"] for each in second.added] == ["beta"]


def test_its_begin_and_its_end_are_known() -> None:
    _, second = rounds(two())
    assert (second.started_at_ms, second.ended_at_ms) == (NOON + 1_000, NOON + 2_000)
    assert second.duration_ms == 1_000


def test_the_last_member_to_reach_it_is_known_and_not_one_that_waits_for_it() -> None:
    _, second = rounds(two())
    assert [(each["member"], each["after_ms"]) for each in second.joined] == [
        ("beta", 0),
        ("alpha", 800),
    ]
    assert second.last is not None
    assert second.last["who"]["client_id"] == "alpha"


def test_what_moved_and_how_long_it_had_no_owner_is_known() -> None:
    first, second = rounds(two())
    assert (first.moved, second.moved) == (0, 2)
    assert second.partitions == 4
    assert second.assignment is not None
    assert [each["partitions"] for each in second.assignment] == [
        {"orders": [2, 3]},
        {"orders": [0, 1]},
    ]
    assert second.unassigned_ms == 500


def test_a_slow_member_is_named() -> None:
    made = ConsumerLog()
    made.joins(0, "alpha", 1, {"alpha": [0, 1]})
    made.joins(1, "beta", 2, {"alpha": [0], "beta": [1]}, state=UNRELEASED)
    made.reaches(3, "alpha", 1, [0], state=UNREVOKED, pending=[1])
    made.reaches(21, "alpha", 2, [0])
    made.reaches(23, "beta", 2, [1])
    text = " ".join(entry_text(rounds(made)[-1]).split())
    assert "rebalance to epoch 2, 22 s Inferred, 99 %: beta (on 10.0.0.7) joined." in text
    assert "Last to reach the epoch was alpha (on 10.0.0.7), 20 s after the start" in text
    assert "1 of 2 partitions moved." in text


def test_an_epoch_that_not_all_have_reached_is_superseded() -> None:
    made = ConsumerLog()
    made.joins(0, "alpha", 1, {"alpha": [0, 1]})
    made.joins(1, "beta", 2, {"alpha": [0], "beta": [1]}, state=UNRELEASED)
    made.joins(2, "gamma", 3, {}, state=UNRELEASED)
    made.reaches(3, "alpha", 3, [0])
    made.reaches(4, "beta", 3, [1])
    made.reaches(5, "gamma", 3, [])
    first, second, third = rounds(made)
    assert (second.generation, second.outcome) == (2, "superseded")
    assert (third.generation, third.outcome, third.moved) == (3, "completed", 1)
    assert "before all members had reached this one" in entry_text(second, 500)
    assert code(first) == code(second) == code(third) == "member_joined"


# -- who is gone -----------------------------------------------------------------------------------


def test_a_member_that_committed_just_before_has_left() -> None:
    made = two()
    commits(made, 3, 60, 0, 1, 2, 3)
    made.leaves(60.5, 3, "beta")
    made.retargets(61, 3, {"alpha": [0, 1, 2, 3]}, "alpha", [0, 1, 2, 3])
    last = rounds(made)[-1]
    assert (code(last), last.outcome, last.moved) == ("member_left", "completed", 2)
    assert [each["cause"]["code"] for each in last.removed] == ["member_left"]
    assert last.unassigned_ms == 500


def test_a_member_that_was_silent_for_its_session_has_expired() -> None:
    made = two()
    commits(made, 3, 60, 0, 1, 2, 3)
    commits(made, 61, 105, 0, 1)
    made.leaves(105.5, 3, "beta")
    made.retargets(106, 3, {"alpha": [0, 1, 2, 3]}, "alpha", [0, 1, 2, 3])
    last = rounds(made)[-1]
    assert code(last) == "session_expired"
    [gone] = last.removed
    assert gone["cause"]["evidence"]["silent_ms"] == 45_000
    text = " ".join(entry_text(last, 1000).split())
    assert "no heartbeat came within the group's consumer.session.timeout.ms" in text
    assert "session.timeout.ms of" not in text


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(SessionLimit(6_000, 1_000), "session_expired"), (None, "unknown"), (LIMIT, "member_left")],
)
def test_a_shorter_session_is_not_guessed(limit: SessionLimit | None, expected: str) -> None:
    made = two()
    commits(made, 3, 60, 0, 1, 2, 3)
    commits(made, 61, 65, 0, 1)
    made.leaves(65.5, 3, "beta")  # its last heartbeat came half a second before its last commit
    sessions = {} if limit is None else {"g": limit}
    assert code(rounds(made, sessions=sessions)[-1]) == expected


def test_an_answer_of_the_cluster_changes_no_number_of_events() -> None:
    """A restarted observer counts the events of a record, before the cluster answers again."""
    made = two()
    made.joins(3, "gamma", 3, {"gamma": [3]}, state=UNRELEASED)
    commits(made, 4, 60, 0, 1)
    commits(made, 61, 65, 0)
    gone = [*tombstones("beta"), *tombstones("alpha")]
    made.write(65.5, *gone, member("delta"), epoch(4))
    counts = [
        [(each.offset, each.event.type) for each in told(made, sessions=sessions)]
        for sessions in ({}, {"g": LIMIT}, {"g": SessionLimit(6_000, 1_000)})
    ]
    assert counts[0] == counts[1] == counts[2]


def test_without_commits_and_a_session_timeout_nothing_is_claimed_of_a_departure() -> None:
    made = two()
    made.leaves(20, 3, "beta")
    assert code(rounds(made, sessions={})[-1]) == "unknown"
    assert code(rounds(made)[-1]) == "member_left"


def test_a_member_that_kept_partitions_for_its_rebalance_timeout_was_removed_for_it() -> None:
    made = two()
    commits(made, 3, 20, 0, 1, 2, 3)
    made.joins(20, "gamma", 3, {"alpha": [0], "gamma": [1]}, state=UNRELEASED)
    made.reaches(21, "beta", 3, [2, 3])
    made.reaches(22, "alpha", 2, [0], state=UNREVOKED, pending=[1])
    commits(made, 22, 82, 0, 1, 2, 3)
    made.leaves(82, 4, "alpha")
    last = rounds(made)[-1]
    assert code(last) == "join_timeout"
    text = " ".join(entry_text(last, 1000).split())
    assert "it did not give up partitions within its rebalance timeout" in text


def test_the_last_member_leaves_an_empty_group() -> None:
    made = two()
    made.leaves(3, 3, "beta", "alpha")
    found = entries_of(told(made))
    kinds = [each.type if isinstance(each, Event) else each.outcome for each in found]
    assert kinds == ["completed", "completed", "emptied"]


def test_a_member_that_went_before_what_was_read_is_gone() -> None:
    made = ConsumerLog()
    made.write(0, *tombstones("beta"))
    [only] = entries_of(told(made))
    assert "beta is gone" in entry_text(only)


# -- static members --------------------------------------------------------------------------------


def static() -> ConsumerLog:
    made = ConsumerLog()
    made.joins(0, "alpha", 1, {"alpha": [0]}, instance="a")
    made.joins(1, "beta", 2, {"beta": [1]}, instance="b")
    made.reaches(2, "alpha", 2, [0])
    return made


def test_a_static_member_that_returns_makes_no_rebalance() -> None:
    made = static()
    made.write(10, current("beta", AWAY, [1], before=2))
    made.write(
        15,
        *tombstones("beta"),
        member("beta2", instance="b"),
        target("beta2", [1]),
        current("beta2", 0, [1]),
        current("beta2", 2, [1]),
    )
    found = entries_of(told(made))
    assert [code(each) for each in found if isinstance(each, Round)] == ["static_member_joined"] * 2
    [back] = [each for each in found if isinstance(each, Event)]
    assert (back.type, back.fields["quick"]) == ("member_replaced", True)
    assert "took the place of beta" in entry_text(back, 500)


def test_a_static_member_that_does_not_return_has_expired() -> None:
    made = static()
    made.write(10, current("beta", AWAY, [1], before=2))
    made.leaves(52, 3, "beta")
    made.retargets(53, 3, {"alpha": [0, 1]}, "alpha", [0, 1])
    last = rounds(made)[-1]
    assert (code(last), last.moved) == ("session_expired", 1)


@pytest.mark.parametrize(
    ("gone", "expected"),
    [
        (44.9, "member_removed_by_admin"),  # before two heartbeats of 5 s may have been missing
        (45.1, "unknown"),
        (49.9, "unknown"),
        (50.1, "session_expired"),
    ],
)
def test_a_static_member_that_left_for_a_while_may_be_removed_meanwhile(
    gone: float, expected: str
) -> None:
    """Its session of 45 s goes on from its last heartbeat, which came at most 5 s before it left,
    unless it was late.
    """
    made = static()
    made.write(10, current("beta", AWAY, [1], before=2))
    made.leaves(gone, 3, "beta")
    made.retargets(53, 3, {"alpha": [0, 1]}, "alpha", [0, 1])
    assert code(rounds(made, sessions={"g": DEFAULT_LIMIT})[-1]) == expected


def test_a_static_member_that_returns_with_other_topics_is_the_cause() -> None:
    made = static()
    made.write(10, current("beta", AWAY, [1], before=2))
    made.write(
        15,
        *tombstones("beta"),
        member("beta2", instance="b"),
        target("beta2", [1]),
        current("beta2", 0, [1]),
        member("beta2", instance="b", topics=("others",)),
        epoch(3),
        target("beta2", []),
        target_epoch(3),
        current("beta2", 3, []),
    )
    made.reaches(16, "alpha", 3, [0])
    assert code(rounds(made)[-1]) == "static_member_returned_changed"


# -- subscriptions and topics ----------------------------------------------------------------------


def test_another_subscription_is_the_cause_of_an_epoch() -> None:
    made = two()
    changed = member("beta", topics=("orders", "others"))
    made.write(10, changed, epoch(3), target_epoch(3), current("beta", 3, [2, 3], before=2))
    made.reaches(11, "alpha", 3, [0, 1])
    last = rounds(made)[-1]
    assert (code(last), last.moved) == ("subscription_changed", 0)
    assert last.cause is not None
    assert last.cause["who"]["client_id"] == "beta"


def test_partitions_that_were_added_are_the_cause_of_an_epoch() -> None:
    made = two()
    targets = target("alpha", [0, 1, 4]), target("beta", [2, 3, 5])
    made.write(10, epoch(3), *targets, target_epoch(3), current("alpha", 3, [0, 1, 4], before=2))
    made.reaches(11, "beta", 3, [2, 3, 5])
    last = rounds(made)[-1]
    assert (code(last), last.confidence) == ("topics_changed", 0.9)
    assert last.cause is not None
    assert last.cause["evidence"] == {
        "topic": "orders",
        "partitions_before": 4,
        "partitions_now": 6,
    }
    assert "orders has 6 partitions, not 4" in entry_text(last, 500)


def test_kafka_4_0_tells_names_and_sizes_of_topics() -> None:
    made = ConsumerLog()
    made.joins(0, "alpha", 1, {"alpha": [0, 1]})
    made.write(1, described({ORDERS: 2}))
    made.write(9, epoch(2), described({ORDERS: 1}))
    made.retargets(10, 2, {"alpha": [0]}, "alpha", [0])
    last = rounds(made, names={})[-1]
    assert "orders has 1 partition, not 2" in entry_text(last, 500)


def test_a_member_with_a_pattern_is_the_cause_when_that_is_resolved() -> None:
    made = two()
    made.write(10, member("gamma", topics=(), pattern="o.*"), current("gamma", 2, []))
    made.write(11, resolved("o.*", "orders"), epoch(3))
    targets = target("gamma", [3]), target("beta", [2]), target_epoch(3)
    made.write(12, *targets, current("gamma", 3, [], before=2, state=UNRELEASED))
    made.reaches(13, "alpha", 3, [0, 1])
    made.reaches(14, "beta", 3, [2])
    made.reaches(15, "gamma", 3, [3])
    found = entries_of(told(made))
    assert [each.type for each in found if isinstance(each, Event)] == ["member_joined"]
    last = [each for each in found if isinstance(each, Round)][-1]
    assert code(last) == "member_joined"
    assert last.cause is not None
    assert last.cause["who"]["client_id"] == "gamma"


def test_a_topic_that_matches_a_pattern_is_the_cause_of_an_epoch() -> None:
    made = ConsumerLog()
    made.write(0, member("alpha", topics=(), pattern="o.*"), epoch(1), target_epoch(1))
    made.write(0.1, current("alpha", 1, []))
    made.write(0.2, resolved("o.*", "orders"), epoch(2))
    made.retargets(1, 2, {"alpha": [0]}, "alpha", [0])
    made.write(9, resolved("o.*", "orders", "others"), epoch(3))
    made.retargets(10, 3, {}, "alpha", [0])
    found = rounds(made)
    assert [code(each) for each in found][-2:] == ["topics_changed"] * 2
    assert "the pattern o.* matches other topics: others more" in entry_text(found[-1], 500)


def test_nothing_is_claimed_where_the_epoch_before_was_not_read() -> None:
    made = ConsumerLog()
    made.joins(0, "alpha", 1, {"alpha": [0]})
    made.write(9, epoch(7))
    made.retargets(10, 7, {}, "alpha", [0])
    last = rounds(made)[-1]
    assert (code(last), last.from_state) == ("unknown", None)


def test_behind_a_loss_of_records_no_cause_is_claimed_and_members_stay() -> None:
    made = two()
    made.joins(10, "gamma", 3, {"gamma": [3]}, state=UNRELEASED)
    made.write(20, epoch(4))
    made.retargets(21, 4, {}, "alpha", [0, 1])
    made.reaches(22, "beta", 4, [2])
    made.reaches(23, "gamma", 4, [3])
    _, items = LogReader(0, "g").feed(made.data, 0)
    lost = next(each.offset for each in items if getattr(each, "time_ms", 0) == NOON + 20_000)
    events = GroupEvents("g", NAMES, {"g": LIMIT})
    found = rounds_of(events.take(items, ALL._replace(lost_until=(lost,))))
    assert (found[-2].outcome, found[-1].outcome) == ("lost", "completed")
    assert code(found[-1]) == "unknown"
    assert len(found[-1].joined) == 3


def test_what_several_steps_wrote_into_one_batch_is_told_apart() -> None:
    """Kafka 4.1 gathers the records of some milliseconds (`group.coordinator.append.linger.ms`)."""
    made = ConsumerLog()
    head = member("alpha"), epoch(1), target("alpha", [0, 1]), target_epoch(1)
    then = member("beta"), epoch(2), target("alpha", [0]), target("beta", [1]), target_epoch(2)
    waits = current("beta", 2, [], state=UNRELEASED)
    made.write(0, *head, current("alpha", 1, [0, 1]), *then, waits)
    made.reaches(1, "alpha", 2, [0])
    made.reaches(2, "beta", 2, [1])
    first, second = rounds(made)
    assert [each["who"]["client_id"] for each in (*first.added, *second.added)] == ["alpha", "beta"]
    assert (first.outcome, second.outcome) == ("completed", "completed")


# -- other types -----------------------------------------------------------------------------------


def test_a_classic_group_that_is_upgraded_loses_nobody() -> None:
    """Source: Kafka 4.1, online migration: the batch states the members of the classic group."""
    made = ConsumerLog()
    made.group(0, 4, classic("alpha", 0, 1))
    made.write(
        10,
        (b"\0\x02\0\x01g", None),
        *(member("alpha"), epoch(4), target("alpha", [0, 1]), target_epoch(4)),
        current("alpha", 4, [0, 1], before=4),
        *(member("beta"), epoch(5), target("alpha", [0]), target("beta", [1]), target_epoch(5)),
        current("beta", 5, [], state=UNRELEASED),
    )
    made.reaches(11, "alpha", 5, [0])
    made.reaches(12, "beta", 5, [1])
    found = entries_of(told(made))
    [event] = [each for each in found if isinstance(each, Event)]
    assert (event.type, event.fields["to_type"]) == ("group_converted", "consumer")
    last = [each for each in found if isinstance(each, Round)][-1]
    assert (code(last), last.generation, last.moved) == ("member_joined", 5, 1)
    assert [each["who"]["client_id"] for each in last.added] == ["beta"]


def downgrade(made: ConsumerLog, at: float, generation: int, names: str, *stay: Any) -> None:
    """The group becomes a classic one, and records of members with these names end."""
    held = ConsumerLog(made.end)
    held.group(at, generation, *stay)
    [record] = _records_of(held)
    gone = [each for name in names.split() for each in tombstones(name)]
    made.write(at, *gone, *deleted(), record)


def test_a_consumer_group_that_is_downgraded_loses_only_who_left() -> None:
    made = two()
    downgrade(made, 10, 3, "alpha beta", classic("alpha", 0, 1, 2, 3))
    events = [each.event for each in told(made)]
    assert [each.type for each in events[-5:]] == [
        "member_removed",
        "group_converted",
        "member_rejoined",
        "rebalance_joined",
        "rebalance_completed",
    ]
    assert events[-5].fields["who"]["client_id"] == "beta"


@pytest.mark.parametrize(("at", "why"), [(60.5, "member_left"), (105.5, "session_expired")])
def test_who_is_gone_begins_the_rebalance_of_a_group_that_is_downgraded(
    at: float, why: str
) -> None:
    made = two()
    commits(made, 3, 60, 0, 1, 2, 3)
    commits(made, 61, int(at), 0, 1)
    downgrade(made, at, 3, "alpha beta", classic("alpha", 0, 1))
    joined = classic("alpha", 0, 1), classic("delta", 2, 3)
    made.group(at + 3, 4, *joined)
    made.group(at + 20, 5, *joined)
    before, last = rounds(made)[-2:]
    assert (before.generation, code(before)) == (4, why)
    assert before.cause is not None
    assert before.cause["who"]["client_id"] == "beta"
    assert [each["code"] for each in before.more_causes] == ["member_joined"]
    assert code(last) != why, "it began only one"


def test_after_a_load_it_is_not_known_what_began_the_rebalance() -> None:
    made = two()
    commits(made, 3, 60, 0, 1, 2, 3)
    downgrade(made, 60.5, 3, "alpha beta", classic("alpha", 0, 1))
    made.leader_epoch += 1
    made.group(63, 4, classic("alpha", 0, 1, 2, 3))
    assert code(rounds(made)[-1]) == "unknown"


@pytest.mark.parametrize(
    ("names", "stay"),
    [
        ("alpha beta", classic("alpha2", 0, 1, instance="i")),  # took the place of who is gone
        ("alpha beta", classic("gamma", 0, 1)),
        ("beta", classic("beta", 2, 3)),
    ],
    ids=["taken over", "two are gone", "nobody is gone"],
)
def test_what_downgraded_a_group_is_unknown(names: str, stay: Any) -> None:
    made = ConsumerLog()
    made.joins(0, "alpha", 1, {"alpha": [0, 1, 2, 3]}, instance="i")
    if stay.member_id != "alpha2":
        made.joins(1, "beta", 2, {"alpha": [0, 1], "beta": [2, 3]})
    commits(made, 3, 60, 0, 1, 2, 3)
    downgrade(made, 60.5, 3, names, stay)
    made.group(63, 4, stay)
    last = rounds(made)[-1]
    assert (last.generation, code(last)) == (4, "unknown")


def test_an_empty_group_that_becomes_a_consumer_group_begins_with_its_first_member() -> None:
    made = ConsumerLog()
    made.group(0, 4, classic("alpha", 0, 1))
    made.group(5, 5)
    first = member("beta"), epoch(1), target("beta", [0, 1]), target_epoch(1)
    made.write(10, (b"\0\x02\0\x01g", None), *first, current("beta", 1, [0, 1]))
    found = entries_of(told(made))
    assert isinstance(found[-1], Round)
    assert (code(found[-1]), found[-1].from_state) == ("member_joined", "Empty")
    assert [each.type for each in found if isinstance(each, Event)] == ["group_converted"]


def test_an_empty_group_that_becomes_a_classic_one_loses_nobody() -> None:
    made = two()
    made.leaves(10, 3, "alpha", "beta")
    empty = ConsumerLog(made.end)
    empty.group(20, 0)
    [record] = _records_of(empty)
    made.write(20, *deleted(), record)
    made.group(21, 1, classic("alpha", 0, 1))
    types = [each.event.type for each in told(made)]
    assert types.count("group_converted") == 1
    assert types.count("member_removed") == 2
    assert "group_deleted" not in types


def _records_of(made: ConsumerLog) -> list[Any]:
    _, items = LogReader(0).feed(made.data, made.placed[0][0])
    return [(b"\0\x02\0\x01g", each.value) for each in items if hasattr(each, "value")]


# -- state -----------------------------------------------------------------------------------------


def test_a_group_goes_on_from_its_state_after_each_batch() -> None:
    made = two()
    commits(made, 3, 5, 0, 1, 2, 3)
    made.leaves(60, 3, "beta")
    made.retargets(61, 3, {"alpha": [0, 1, 2, 3]}, "alpha", [0, 1, 2, 3])
    made.joins(62, "gamma", 4, {"alpha": [0, 1], "gamma": [2, 3]})
    downgrade(made, 65, 5, "alpha gamma", classic("gamma", 2, 3))
    made.group(67, 6, classic("gamma", 0, 1, 2, 3))
    how: dict[str, Any] = {"names": NAMES, "sessions": {"g": LIMIT}}
    reader, events = LogReader(0, "g"), GroupEvents("g", **how)
    found: list[Told] = []
    for base, _, _, data in made.placed:
        _, items = reader.feed(data, base)
        found += events.take(items, reader.known)
        state = json.loads(json.dumps(events.state()))
        events = GroupEvents.restore("g", state, **how)
    assert found == told(made)


def test_events_in_any_number_of_responses_are_the_same() -> None:
    made = two()
    commits(made, 3, 60, 0, 1, 2, 3)
    made.leaves(60.5, 3, "beta")
    made.retargets(61, 3, {"alpha": [0, 1, 2, 3]}, "alpha", [0, 1, 2, 3])
    whole = told(made)
    for responses in (2, 3, 10):
        assert told(made, responses=responses) == whole
