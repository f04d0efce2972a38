"""Transcripts of records from plays beside Apache Kafka of which a false cause was told."""

import pytest

from groupkeeper.history.rounds import Round
from groupkeeper.protocol.embedded import Subscription, TopicPartition
from groupkeeper.protocol.records.consumer_offsets import MemberMetadata
from tests.support.codecs import encode_subscription
from tests.support.written_log import WrittenLog, member, rounds_of, told_of


def polled(each: MemberMetadata, poll_s: int) -> MemberMetadata:
    """The member with this max.poll.interval.ms."""
    each.rebalance_timeout = poll_s * 1000
    return each


def of_removed(made: Round) -> dict[str, tuple[str, str | None]]:
    """Client id -> code and probable reason of those who are gone."""
    return {
        each["who"]["client_id"]: (each["cause"]["code"], each["cause"].get("likely"))
        for each in made.removed
    }


def test_a_late_poll_and_an_expired_session_that_both_fit_are_not_told_apart() -> None:
    """Session of 10 s, polls within 12 s: the client did not poll, and left after 12 s."""
    alpha, beta = polled(member("alpha", 0), 12), polled(member("beta", 1), 12)
    made = WrittenLog()
    made.group(0, 1, alpha, beta)
    for at in range(1, 18):
        made.commits(0, at, at)
        if at <= 4:
            made.commits(1, at, at)
    made.group(17.2, 2, polled(member("alpha", 0, 1), 12))
    last = rounds_of(told_of(made.data))[-1]
    assert last.cause is not None
    assert last.cause["code"] == "unknown"
    assert of_removed(last) == {"beta": ("unknown", None)}


def test_an_expired_session_long_before_polls_are_late_is_told() -> None:
    """The same with polls within 60 s, as by default far above the session."""
    made = WrittenLog()
    made.group(0, 1, member("alpha", 0), member("beta", 1))
    for at in range(1, 18):
        made.commits(0, at, at)
        if at <= 4:
            made.commits(1, at, at)
    made.group(17.2, 2, member("alpha", 0, 1))
    last = rounds_of(told_of(made.data))[-1]
    assert of_removed(last) == {"beta": ("session_expired", None)}


def test_who_may_have_gone_in_a_round_without_a_record_did_not_poll_too_late() -> None:
    """Both were killed, one after the other: of the first removal there is no record."""
    alpha = polled(member("alpha", 0, session_s=6), 12)
    beta = polled(member("beta", 1, session_s=6), 12)
    made = WrittenLog()
    made.group(0, 1, alpha, beta)
    for at in range(1, 13, 3):
        if at <= 7:
            made.commits(0, at, at)
        made.commits(1, at, at)
    made.commits(1, 13, 13)
    made.group(19.2, 3)
    last = rounds_of(told_of(made.data))[-1]
    assert of_removed(last)["alpha"] != ("member_left", "max_poll_exceeded")


def test_a_static_member_of_a_quiet_group_that_is_back_in_a_round_did_not_expire() -> None:
    """gamma joined, and beta was restarted meanwhile; nobody commits anything."""
    alpha, beta = member("alpha", 0, instance="alpha"), member("beta", 1, instance="beta")
    made = WrittenLog()
    made.group(0, 1, alpha, beta)
    again = member("beta2", 1, instance="beta")
    made.group(24, 2, alpha, again, member("gamma", 2, instance="gamma"))
    last = rounds_of(told_of(made.data))[-1]
    assert last.cause is not None
    assert last.cause["code"] in {"static_member_joined", "unknown"}
    assert of_removed(last) == {}
    assert [each["who"]["instance"] for each in last.added] == ["gamma"]


def owning(each: MemberMetadata, *partitions: int) -> MemberMetadata:
    """The member with a subscription that lists the partitions it has."""
    owned = [TopicPartition(topic="orders", partitions=[*partitions])]
    subscription = Subscription(version=1, topics=["orders"], owned_partitions=owned)
    each.subscription = encode_subscription(subscription)
    return each


def test_a_follower_may_have_rejoined_unprompted_where_its_bytes_changed() -> None:
    """beta, a follower, joined again by itself after errors of its coordinator."""
    made = WrittenLog()
    made.group(0, 1, member("alpha", 0), member("beta", 1))
    made.group(20, 2, owning(member("alpha", 0), 0), owning(member("beta", 1), 1))
    last = rounds_of(told_of(made.data))[-1]
    assert last.cause is not None
    assert last.cause["code"] == "unknown"


def test_the_leader_rejoined_if_no_other_bytes_changed_or_the_topic_grew() -> None:
    for beta in (member("beta", 1), owning(member("beta", 1, 2), 1)):
        made = WrittenLog()
        made.group(0, 1, member("alpha", 0), member("beta", 1))
        made.group(20, 2, owning(member("alpha", 0), 0), beta)
        last = rounds_of(told_of(made.data))[-1]
        assert last.cause is not None
        assert (last.cause["code"], last.cause["who"]["client_id"]) == ("leader_rejoined", "alpha")


def grown(made: WrittenLog) -> Round:
    """The last of two rounds of alpha and beta, before whose second the topic got a partition."""
    made.group(0, 1, member("alpha", 0), member("beta", 1))
    for at in range(1, 18):
        made.commits(0, at, at)
        if at <= 4:
            made.commits(1, at, at)
    made.group(17.2, 2, member("alpha", 0, 1, 2))
    return rounds_of(told_of(made.data))[-1]


def test_the_leader_may_have_rejoined_for_new_partitions_before_a_dead_member_expired() -> None:
    last = grown(WrittenLog())
    assert last.cause is not None
    assert last.cause["code"] == "unknown"
    assert of_removed(last) == {"beta": ("session_expired", None)}


def test_partitions_that_a_round_assigns_again_are_not_new() -> None:
    """A round of cooperative members had taken partition 2 from alpha and given it to none."""
    made = WrittenLog()
    made.group(-20, 0, member("alpha", 0, 1, 2), member("beta"))
    last = grown(made)
    assert last.cause is not None
    assert last.cause["code"] == "session_expired"


def test_who_commits_in_a_join_phase_and_then_hangs_may_have_rejoined_too_late() -> None:
    """gamma began the round at 8; beta committed at 10 and was removed at 20, after 12 s."""
    alpha, beta = (polled(member(name, n, session_s=30), 12) for n, name in enumerate(("a", "b")))
    made = WrittenLog()
    made.group(0, 1, alpha, beta)
    for at in range(1, 11):
        if at <= 7:
            made.commits(0, at, at)
        made.commits(1, at, at)
    made.group(20, 2, polled(member("a", 0, session_s=30), 12), member("gamma", 1))
    last = rounds_of(told_of(made.data))[-1]
    assert last.cause is not None
    assert last.cause["code"] in {"member_joined", "unknown"}
    assert of_removed(last) == {"b": ("unknown", None)}


def after_a_broker_was_killed(*, beta_is_lost: bool) -> WrittenLog:
    """The coordinator's broker is killed after 8 s, and another one loads the group within 8 s."""
    made = WrittenLog()
    made.group(0, 1, member("alpha", 0), member("beta", 1))
    for at in range(1, 8):
        made.commits(0, at, at)
        made.commits(1, at, at)
    made.leader_epoch += 1
    for at in range(16, 22):
        made.commits(0, at, at)
        if not beta_is_lost and at <= 17:
            made.commits(1, at, at)
    return made


def again(each: MemberMetadata) -> MemberMetadata:
    """The member after it rejoined: its subscription has other user data."""
    subscription = Subscription(version=1, topics=["orders"], user_data=b"2")
    each.subscription = encode_subscription(subscription)
    return each


def test_who_rejoins_first_after_the_coordinator_changed_is_told() -> None:
    """Clients of franz-go rejoin, one after the other; the pause that all had says nothing."""
    made = after_a_broker_was_killed(beta_is_lost=False)
    made.group(21.1, 2, again(member("alpha", 0)), again(member("beta", 1)))
    last = rounds_of(told_of(made.data))[-1]
    assert last.cause is not None
    assert (last.cause["code"], last.cause["who"]["client_id"]) == ("member_rejoined", "beta")


@pytest.mark.parametrize("end_s", [22.2, 27])
def test_a_session_that_ends_in_a_join_phase_did_not_begin_it(end_s: float) -> None:
    """alpha rejoined after 21 s; beta was killed with the broker, and its session began anew when
    the group was loaded.
    """
    made = after_a_broker_was_killed(beta_is_lost=True)
    made.group(end_s, 2, member("alpha", 0, 1))
    last = rounds_of(told_of(made.data))[-1]
    assert last.cause is not None
    assert last.cause["code"] == "unknown"
    assert of_removed(last) == {"beta": ("session_expired", None)}


def test_a_session_that_ends_after_the_coordinator_changed_is_a_cause() -> None:
    """The same, but alpha went on until it was told of the rebalance."""
    made = after_a_broker_was_killed(beta_is_lost=True)
    for at in range(22, 27):
        made.commits(0, at, at)
    made.group(27, 2, member("alpha", 0, 1))
    last = rounds_of(told_of(made.data))[-1]
    assert last.cause is not None
    assert last.cause["code"] == "session_expired"


def waited_for_beta(end_s: float, *, stops_s: int, poll_s: int = 30) -> Round:
    """gamma joined, beta is gone after `end_s`; beta committed until 5 s, alpha until `stops_s`."""
    alpha, beta = polled(member("alpha", 0), poll_s), polled(member("beta", 1), poll_s)
    made = WrittenLog()
    made.group(0, 1, alpha, beta)
    for at in range(1, stops_s + 1):
        made.commits(0, at, at)
        if at <= 5:
            made.commits(1, at, at)
    alpha, gamma = polled(member("alpha", 0), poll_s), polled(member("gamma", 1), poll_s)
    made.group(end_s, 2, alpha, gamma)
    return rounds_of(told_of(made.data))[-1]


def cause_of(made: Round) -> str:
    assert made.cause is not None
    return str(made.cause["code"])


def test_who_left_as_the_last_one_to_rejoin_did_not_begin_the_round() -> None:
    """The client left 30 s after it was polled, and alpha and gamma had waited since 9 s."""
    last = waited_for_beta(35.2, stops_s=9)
    assert cause_of(last) == "member_joined"
    assert of_removed(last) == {"beta": ("unknown", None)}
    assert cause_of(waited_for_beta(33, stops_s=9)) == "unknown"  # 28 s are no limit


def test_who_was_removed_at_the_timeout_of_the_join_phase_did_not_begin_the_round() -> None:
    """It began between 6 and 11 s, as alpha is told with a heartbeat."""
    assert cause_of(waited_for_beta(39.5, stops_s=9)) == "member_joined"
    assert cause_of(waited_for_beta(42, stops_s=9)) == "unknown"


def test_who_left_while_others_went_on_may_have_begun_the_round() -> None:
    assert cause_of(waited_for_beta(35.2, stops_s=35)) == "unknown"


def test_a_client_that_commits_after_its_last_poll_is_late_a_commit_earlier() -> None:
    """librdkafka commits what it was polled for at the end of an interval, here a second later."""
    for gone_s, expected in (
        (34.5, ("member_left", "max_poll_exceeded")),
        (33.5, ("unknown", None)),
    ):
        alpha, beta = polled(member("alpha", 0), 30), polled(member("beta", 1), 30)
        made = WrittenLog()
        made.group(0, 1, alpha, beta)
        for at in range(1, 34):
            made.commits(0, at, at)
            if at <= 5:
                made.commits(1, at, at)
        made.group(gone_s, 2, polled(member("alpha", 0, 1), 30))
        assert of_removed(rounds_of(told_of(made.data))[-1]) == {"beta": expected}
