"""Which of several causes of one rebalance came first, where their times decide it."""

import pytest

from groupkeeper.history.rounds import Round
from groupkeeper.protocol.embedded import Subscription, TopicPartition
from groupkeeper.protocol.records.consumer_offsets import MemberMetadata
from groupkeeper.why.entries import entry_text
from tests.support.codecs import encode_subscription
from tests.support.written_log import WrittenLog, commit, member, rounds_of, told_of

LOADED = "another broker became the coordinator, or it was restarted"


def code_of(made: WrittenLog) -> str:
    """The cause of the last round."""
    cause = last_of(made).cause
    assert cause is not None
    return str(cause["code"])


def text_of(made: Round) -> str:
    """What is told, on one line."""
    return " ".join(entry_text(made).split())


def last_of(made: WrittenLog) -> Round:
    return rounds_of(told_of(made.data))[-1]


def cooperative(*seconds: tuple[int, int, int]) -> WrittenLog:
    """Three members that keep partitions while they rejoin: commits of each partition from a second
    to another, every so many. The second round has only the first member, at 31.
    """
    made = WrittenLog(protocol="cooperative-sticky")
    made.group(0, 1, member("alpha", 0), member("beta", 1), member("gamma", 2))
    every: dict[int, list[int]] = {}
    for partition, (first, last, step) in enumerate(seconds):
        for at in range(first, last + 1, step):
            every.setdefault(at, []).append(partition)
    for at, partitions in sorted(every.items()):
        for partition in partitions:
            made.commits(partition, at, at)
    made.group(31, 2, member("alpha", 0, 1, 2))
    return made


def test_who_left_long_before_a_session_ended_was_first() -> None:
    """beta was killed at 20, and gamma was closed at 22: its leave began the join phase."""
    made = cooperative((2, 30, 2), (2, 20, 2), (2, 22, 2))
    assert code_of(made) == "member_left"
    assert [each["code"] for each in last_of(made).more_causes] == ["session_expired"]


@pytest.mark.parametrize(
    ("about", "gamma"),
    [
        ("it went when the session of beta ended", (2, 30, 2)),
        ("its next commit was due after that", (2, 28, 2)),
        ("it commits seldom", (2, 22, 10)),
        ("it had committed too few times", (20, 22, 2)),
        ("it commits nothing", (2, 1, 2)),
    ],
)
def test_who_may_have_left_after_it_was_not(about: str, gamma: tuple[int, int, int]) -> None:
    assert code_of(cooperative((2, 30, 2), (2, 20, 2), gamma)) == "unknown", about


def test_a_session_that_ended_before_another_member_was_last_seen_was_first() -> None:
    """beta was killed at 16; gamma was alive after its session must have ended."""
    assert code_of(cooperative((2, 30, 2), (2, 16, 2), (2, 30, 2))) == "session_expired"


def test_a_change_of_the_coordinator_is_told() -> None:
    made = WrittenLog()
    made.group(0, 1, member("alpha", 0), member("beta", 1))
    made.group(10, 2, member("alpha", 0, 1))
    made.leader_epoch += 1
    made.group(40, 3, member("alpha", 0), member("gamma", 1))
    told = [LOADED in text_of(each) for each in rounds_of(told_of(made.data))]
    assert told == [False, False, True]


def test_the_first_record_that_is_read_shows_no_change_of_the_coordinator() -> None:
    made = WrittenLog(base=500)
    made.leader_epoch = 7
    made.group(0, 7, member("alpha", 0))
    assert LOADED not in text_of(last_of(made))


def loaded(*now: MemberMetadata) -> WrittenLog:
    """A coordinator was loaded after three members had committed until 20; the next round is at
    50, when old members have expired.
    """
    made = WrittenLog()
    made.group(0, 1, member("alpha", 0), member("beta", 1), member("gamma", 2))
    for at in range(2, 21, 2):
        for partition in range(3):
            made.commits(partition, at, at)
    made.leader_epoch += 1
    made.group(50, 2, *now)
    return made


def test_clients_that_join_anew_after_a_load_begin_the_round_before_old_members_expire() -> None:
    """beta was closed meanwhile, and is not back."""
    assert code_of(loaded(member("alpha2", 0), member("gamma2", 1))) == "member_joined"


@pytest.mark.parametrize(
    ("about", "now"),
    [
        ("one stayed", (member("alpha", 0), member("gamma2", 1))),
        ("another joined", (member("alpha2", 0), member("delta", 1))),
    ],
)
def test_who_joins_after_a_load_may_do_so_after_old_members_expired(
    about: str, now: tuple[MemberMetadata, ...]
) -> None:
    assert code_of(loaded(*now)) == "unknown", about


# -- a join phase that waited for a member ---------------------------------------------------------


def waited(
    *came: MemberMetadata,
    session_s: int = 10,
    poll_s: int = 60,
    ended: float = 30,
    beta_until: int = 20,
    alpha_until: int = 30,
    gamma: tuple[MemberMetadata, ...] = (),
) -> WrittenLog:
    """Two members, of which beta last committed at 20, and is gone in the second round, at 30."""
    alpha, beta = (member(name, n, session_s=session_s) for n, name in enumerate(("a", "b")))
    for each in (alpha, beta, *came, *gamma):
        each.rebalance_timeout = poll_s * 1000
    made = WrittenLog(protocol="cooperative-sticky")
    made.group(0, 1, alpha, beta, *gamma)
    for at in range(2, int(ended) + 1, 2):
        if at <= alpha_until:
            made.commits(0, at - 1, at - 1)
        if at <= beta_until:
            made.commits(1, at, at)
    made.group(ended, 2, alpha, *came)
    return made


def gone_of(made: WrittenLog) -> dict[str, str]:
    """Client id -> code of those who are gone in the last round."""
    return {each["who"]["client_id"]: each["cause"]["code"] for each in last_of(made).removed}


@pytest.mark.parametrize("session_s", [6, 45])
@pytest.mark.parametrize("late_ms", [0, 3, 90])
def test_a_round_that_ends_with_a_session_was_begun_by_who_joined(
    session_s: int, late_ms: int
) -> None:
    """It waited for a dead member. Else it would have lasted until others heard of its end."""
    made = waited(
        member("delta", 1), session_s=session_s, poll_s=300, ended=20 + session_s + late_ms / 1000
    )
    assert code_of(made) == "member_joined"
    assert gone_of(made) == {"b": "session_expired"}


@pytest.mark.parametrize("late_ms", [-200, 300, 2_000])
def test_a_round_that_ends_at_another_time_shows_no_order(late_ms: int) -> None:
    """Heartbeats after its last commit may have moved the end of the session."""
    made = waited(member("delta", 1), ended=30 + late_ms / 1000)
    assert code_of(made) in {"unknown", "member_left"}
    assert code_of(made) != "member_joined"


@pytest.mark.parametrize(
    ("alpha_until", "code"),
    [(30, "member_joined"), (36, "unknown"), (22, "unknown"), (0, "unknown")],
)
def test_a_round_in_which_others_had_stopped_before_a_session_ended_was_begun_by_who_joined(
    alpha_until: int, code: str
) -> None:
    """Java's client commits nothing while it waits for others, with any assignor."""
    made = waited(member("delta", 1), session_s=15, ended=36.5, alpha_until=alpha_until)
    assert code_of(made) == code


def test_a_round_at_whose_end_another_member_committed_had_not_waited_for_a_session() -> None:
    """alpha commits as it rejoins: it heard at once of the end of the session."""
    made = waited(ended=30.1, alpha_until=28)
    assert code_of(made) == "unknown"
    made.end -= 1
    made.placed.pop()
    made.commits(0, 29, 29)
    made.write(30.09, commit("g", 0))
    made.group(30.1, 2, member("a", 0))
    assert code_of(made) == "session_expired"


def test_nobody_who_is_gone_with_a_session_begins_the_round_that_waited_for_it() -> None:
    """Nothing else shows: the leader may have rejoined, as an application that enforces it does."""
    made = waited(ended=30.004)
    assert code_of(made) == "unknown"
    assert gone_of(made) == {"b": "session_expired"}
    assert [each["code"] for each in last_of(made).more_causes] == ["session_expired"]


def test_the_only_member_of_a_group_begins_the_round_that_ends_with_its_session() -> None:
    made = WrittenLog()
    made.group(0, 1, member("alpha", 0))
    made.commits(0, 2, 20)
    made.group(30.002, 2)
    assert code_of(made) == "session_expired"


def test_who_may_poll_too_late_just_then_may_have_left() -> None:
    """max.poll.interval.ms is as long as the session."""
    made = waited(member("delta", 1), poll_s=10, ended=30.002)
    assert code_of(made) == "unknown"


def test_after_a_load_sessions_end_later() -> None:
    made = WrittenLog()
    made.group(0, 1, member("a", 0), member("b", 1))
    for at in range(2, 21, 2):
        made.commits(0, at, at)
        made.commits(1, at, at)
    made.leader_epoch += 1
    made.group(30.002, 2, member("a", 0), member("delta", 1))
    assert code_of(made) == "unknown"


def test_of_two_that_were_silent_as_long_one_at_least_expired() -> None:
    """beta and gamma last committed at 20: one of them may have left then."""
    made = WrittenLog()
    made.group(0, 1, member("alpha", 0), member("beta", 1), member("gamma", 2))
    for at in range(2, 23, 2):
        for partition in range(3 if at <= 20 else 1):
            made.commits(partition, at, at)
    made.group(30.002, 2, member("alpha", 0), member("delta", 1))
    assert code_of(made) == "unknown"
    assert gone_of(made) == {"beta": "unknown", "gamma": "unknown"}


def test_a_generation_as_old_as_a_session_shows_no_end_of_it() -> None:
    """beta never committed: it may have been closed."""
    made = waited(member("delta", 1), beta_until=0, ended=10.002)
    assert code_of(made) == "unknown"
    assert gone_of(made) == {"b": "unknown"}


def test_who_left_a_group_whose_last_member_expired_is_not_taken_for_another_expired_one() -> None:
    """Neither ever committed: beta may have been closed at any time before."""
    made = WrittenLog()
    made.group(0, 1, member("alpha", 0), member("beta", 1))
    made.group(10.002, 2)
    assert gone_of(made) == {"alpha": "unknown", "beta": "unknown"}


def test_a_member_of_a_generation_of_a_moment_shows_no_leave() -> None:
    """It did not commit: it may be what began the round."""
    made = WrittenLog()
    made.group(0, 1, member("alpha", 0), member("beta", 1))
    made.group(0.05, 2, member("alpha", 0), member("delta", 1))
    assert code_of(made) == "unknown"


def test_a_leave_that_ended_a_round_did_not_begin_it() -> None:
    """beta was killed at 12, and alpha left in the round that waited for gamma, its last member."""
    made = WrittenLog()
    made.group(0, 1, member("alpha", 0), member("beta", 1))
    made.commits(1, 2, 12)
    for at in range(2, 25, 2):
        made.commits(0, at, at)
    made.group(24.02, 2)
    assert code_of(made) == "session_expired"
    assert gone_of(made) == {"alpha": "member_left", "beta": "session_expired"}


def test_who_is_gone_of_a_group_that_emptied_did_not_poll_too_late_for_another_session() -> None:
    """Session of 6 s, polls within 12 s: both were killed, one 6 s after the other."""
    alpha, beta = (member(name, n, session_s=6) for n, name in enumerate(("alpha", "beta")))
    for each in (alpha, beta):
        each.rebalance_timeout = 12_000
    made = WrittenLog()
    made.group(0, 1, alpha, beta)
    for at in range(1, 10, 3):
        made.commits(0, at, at)
    for at in range(1, 15, 3):
        made.commits(1, at, at)
    made.group(19.03, 2)
    assert gone_of(made) == {"alpha": "unknown", "beta": "session_expired"}


def test_a_crash_and_a_leave_in_one_round_are_not_taken_for_two_restarts() -> None:
    """beta was killed, and joined again; gamma left, and joined again."""
    made = WrittenLog()
    made.group(0, 1, member("alpha", 0), member("beta", 1), member("gamma", 2))
    for at in range(2, 25, 2):
        if at <= 22:
            made.commits(0, at, at)
        if at <= 20:
            made.commits(1, at, at)
        made.commits(2, at, at)
    made.group(30.001, 2, member("alpha", 0), member("beta2", 1), member("gamma2", 2))
    assert code_of(made) == "unknown"


# -- new partitions --------------------------------------------------------------------------------


@pytest.mark.parametrize("back", ["alpha", "beta"])
def test_a_static_member_that_is_back_in_a_round_for_new_partitions_did_not_begin_it(
    back: str,
) -> None:
    """The leader may have rejoined before it was restarted itself."""
    made = WrittenLog()
    made.group(0, 1, member("alpha", 0, instance="alpha"), member("beta", 1, instance="beta"))
    for at in range(2, 11, 2):
        made.commits(0, at, at)
        made.commits(1, at, at)
    names = (f"{name}2" if name == back else name for name in ("alpha", "beta"))
    alpha, beta = names
    made.group(12, 2, member(alpha, 0, instance="alpha"), member(beta, 1, 2, instance="beta"))
    assert code_of(made) == "leader_rejoined"


def test_the_leader_began_the_round_for_new_partitions_that_waited_for_a_dead_member() -> None:
    made = WrittenLog()
    made.group(0, 1, member("alpha", 0), member("beta", 1))
    for at in range(2, 21, 2):
        made.commits(0, at, at)
        made.commits(1, at, at)
    made.group(30.002, 2, member("alpha", 0, 1, 2))
    last = last_of(made)
    assert code_of(made) == "leader_rejoined"
    assert last.cause is not None and last.cause["who"]["client_id"] == "alpha"
    assert gone_of(made) == {"beta": "session_expired"}


def test_a_leader_that_is_gone_did_not_rejoin_for_new_partitions() -> None:
    """A leader stays one as long as it is a member."""
    made = WrittenLog()
    made.group(0, 1, member("beta", 1), member("alpha", 0))
    for at in range(2, 21, 2):
        made.commits(0, at, at)
        made.commits(1, at, at)
    made.group(30.002, 2, member("alpha", 0, 2), member("delta", 1))
    assert code_of(made) == "member_joined"


def test_a_leader_that_is_gone_may_have_rejoined_in_a_round_without_assignments() -> None:
    made = WrittenLog()
    made.group(0, 1, *(member(name, n) for n, name in enumerate(("alpha", "beta", "gamma"))))
    for at in range(2, 31, 2):
        for partition in range(3 if at <= 18 else 1):
            made.commits(2 - partition, at, at)
    made.group(31, 3, member("gamma", 0, 1, 2, 3))
    assert gone_of(made) == {"alpha": "session_expired", "beta": "session_expired"}
    assert code_of(made) == "unknown"


# -- rounds of the same members --------------------------------------------------------------------


def rejoined(
    alpha: tuple[int, int, int], beta: tuple[int, int, int], gamma: tuple[int, int, int]
) -> WrittenLog:
    """A round at 30 of three members whose bytes have all changed; alpha leads. Commits of each:
    from a second to another, every so many.
    """
    made = WrittenLog()
    made.group(0, 1, *(owning(name, n) for n, name in enumerate(("alpha", "beta", "gamma"))))
    some = enumerate((alpha, beta, gamma))
    placed = sorted(
        (at, n) for n, (first, last, step) in some for at in range(first, last + 1, step)
    )
    for at, partition in placed:
        made.commits(partition, at, at)
    made.group(30, 2, *(owning(name, n, n) for n, name in enumerate(("alpha", "beta", "gamma"))))
    return made


def owning(name: str, share: int, *owned: int) -> MemberMetadata:
    """A member whose subscription lists what it owns."""
    found = member(name, share)
    owns = [TopicPartition(topic="orders", partitions=[*owned])]
    found.subscription = encode_subscription(
        Subscription(version=1, topics=["orders"], owned_partitions=owns)
    )
    return found


def test_who_stopped_committing_while_all_others_went_on_began_the_round() -> None:
    made = rejoined((1, 29, 1), (1, 26, 1), (1, 29, 1))
    last = last_of(made)
    assert code_of(made) == "member_rejoined"
    assert last.cause is not None and last.cause["who"]["client_id"] == "beta"
    assert (
        "beta (on 10.0.0.7) rejoined with the same topics by itself: it stopped committing while "
        "all others went on."
    ) in text_of(last)
    assert "Nothing is wrong if its application enforced a rebalance" in text_of(last)
    assert code_of(rejoined((1, 26, 1), (1, 29, 1), (1, 29, 1))) == "leader_rejoined"


@pytest.mark.parametrize(
    ("about", "beta", "gamma"),
    [
        ("another stopped, too", (1, 26, 1), (1, 27, 1)),
        ("it commits as seldom", (2, 26, 4), (1, 29, 1)),
        ("it commits nothing", (2, 1, 1), (1, 29, 1)),
        ("another commits nothing", (1, 26, 1), (2, 1, 1)),
        ("it hung, and the others waited for it", (1, 16, 1), (1, 20, 1)),
    ],
)
def test_who_did_not_stop_alone_is_not_told(
    about: str, beta: tuple[int, int, int], gamma: tuple[int, int, int]
) -> None:
    alpha_until = 20 if "hung" in about else 29
    assert code_of(rejoined((1, alpha_until, 1), beta, gamma)) == "unknown", about


def test_after_a_load_clients_may_stop_for_other_reasons() -> None:
    made = rejoined((1, 29, 1), (1, 26, 1), (1, 29, 1))
    made.placed.pop()
    made.leader_epoch += 1
    made.group(30, 2, *(owning(name, n, n) for n, name in enumerate(("alpha", "beta", "gamma"))))
    assert code_of(made) == "unknown"


# -- reasons that are not known --------------------------------------------------------------------


def test_a_leave_was_first_whether_the_other_left_or_its_session_ended() -> None:
    """beta was killed at 19, or left then; gamma was closed at 22; the round ended at 31."""
    made = WrittenLog()
    made.group(0, 1, member("alpha", 0), member("beta", 1), member("gamma", 2))
    for at in range(1, 24):
        made.commits(0, at, at)
        if at <= 20:
            made.commits(1, at, at)
        if at <= 22:
            made.commits(2, at, at)
    made.group(31, 2, member("alpha", 0))
    last = last_of(made)
    assert gone_of(made) == {"beta": "unknown", "gamma": "member_left"}
    assert code_of(made) == "member_left"
    assert last.cause is not None and last.cause["who"] is None


def test_of_one_that_left_or_expired_nothing_is_told() -> None:
    """The others have nothing to commit any more: that shows no join phase."""
    made = WrittenLog()
    made.group(0, 1, member("alpha", 0), member("beta", 1))
    for at in range(1, 21):
        made.commits(0, at, at)
        made.commits(1, at, at)
    made.group(32, 2, member("alpha", 0))
    assert code_of(made) == "unknown"
