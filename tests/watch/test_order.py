"""Which of several causes of one rebalance came first, where their times decide it."""

import pytest

from groupkeeper.history.rounds import Round
from groupkeeper.why.entries import entry_text
from tests.support.written_log import WrittenLog, member, rounds_of, told_of

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
