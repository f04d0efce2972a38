"""Situations in which the records show less than they seem to: an unknown cause is right there."""

from collections.abc import Mapping, Sequence

import pytest

from groupkeeper.history.rounds import Round
from groupkeeper.protocol.embedded import Assignment, Subscription, TopicPartition
from groupkeeper.protocol.records.consumer_offsets import MemberMetadata
from tests.support.codecs import encode_assignment, encode_subscription
from tests.support.written_log import WrittenLog, commit, member, rounds_of, told_of


def timed(
    each: MemberMetadata, session_s: int = 45, poll_s: int = 300, client_id: str | None = None
) -> MemberMetadata:
    """The member with other timeouts, or another client id."""
    each.session_timeout, each.rebalance_timeout = session_s * 1000, poll_s * 1000
    each.client_id = client_id or each.client_id
    return each


def commits(made: WrittenLog, every: Mapping[int, Sequence[tuple[float, float, float]]]) -> None:
    """Commits from a time to another with an interval, by partition, in the order of time."""
    times = list[tuple[float, int]]()
    for partition, spans in every.items():
        for first, last, pause in spans:
            count = int((last - first) / pause + 1e-9) + 1
            times += [(first + n * pause, partition) for n in range(count)]
    for at, partition in sorted(times):
        made.write(at, commit("g", partition))


def last_of(made: WrittenLog) -> Round:
    return rounds_of(told_of(made.data))[-1]


def cause_of(found: Round) -> tuple[str, str | None]:
    """Code, and client id."""
    cause = found.cause or {}
    return cause["code"], (cause.get("who") or {}).get("client_id")


def gone_of(found: Round) -> dict[str, str]:
    """Client id -> code."""
    return {each["who"]["client_id"]: each["cause"]["code"] for each in found.removed}


@pytest.mark.parametrize(("session_s", "phase_s"), [(10, 12), (45, 48)])
def test_a_member_that_is_slow_to_poll_does_not_show_when_the_join_phase_began(
    session_s: int, phase_s: int
) -> None:
    """beta closes, alpha rejoins at once; gamma commits each record of a batch before it polls."""
    made = WrittenLog()
    names = ["alpha", "beta", "gamma"]
    made.group(0, 1, *(timed(member(each, n), session_s) for n, each in enumerate(names)))
    end = 60 + phase_s
    commits(made, {0: [(1.1, 62, 1)], 1: [(1, 59, 1)], 2: [(1.2, end - 0.1, 1)]})
    alpha, gamma = timed(member("alpha", 0, 1), session_s), timed(member("gamma", 2), session_s)
    made.group(end, 2, alpha, gamma)
    assert gone_of(last_of(made)) == {"beta": "unknown"}


def test_a_client_id_that_a_member_which_stayed_has_as_well_shows_no_restart() -> None:
    """Clients without a client id of their own on one host; the new one was there before."""
    made = WrittenLog()
    first, old = (timed(member(each, n), client_id="rdkafka") for n, each in enumerate("ay"))
    made.group(0, 1, first, old)
    commits(made, {0: [(1, 61, 5)], 1: [(1.5, 61.5, 5), (62.5, 62.5, 1)]})
    made.group(63, 2, first, timed(member("x", 1), client_id="rdkafka"))
    assert cause_of(last_of(made)) == ("unknown", None)


@pytest.mark.parametrize(("protocol", "idle_s"), [("cooperative-sticky", 100), ("range", 280)])
def test_a_member_with_nothing_to_commit_did_not_stop_first(protocol: str, idle_s: int) -> None:
    """The leader rejoins; all lists of owned partitions, or of generations, differ."""

    def each_in(generation: int) -> list[MemberMetadata]:
        return [owning(timed(member(each, n)), generation, n) for n, each in enumerate("abc")]

    made = WrittenLog(protocol=protocol)
    made.group(0, 1, *each_in(-1))
    commits(made, {0: [(1, 300, 1)], 1: [(1.3, 300, 1)], 2: [(1.6, 300 - idle_s, 1)]})
    made.group(300.5, 2, *each_in(1))
    assert cause_of(last_of(made)) == ("unknown", None)


def owning(
    each: MemberMetadata, generation: int, partition: int, topics: Sequence[str] = ("orders",)
) -> MemberMetadata:
    """The member with a subscription of Java's client, which lists what it owned."""
    owned = [TopicPartition(topic="orders", partitions=[partition])] if generation > 0 else []
    each.subscription = encode_subscription(
        Subscription(version=3, topics=[*topics], owned_partitions=owned, generation_id=generation)
    )
    return each


def test_partitions_of_a_topic_that_was_deleted_are_not_waited_for() -> None:
    """An hour later the leader rejoins for new partitions of another topic."""

    def each_in(generation: int, *shares: dict[str, list[int]]) -> list[MemberMetadata]:
        made = []
        for n, (name, share) in enumerate(zip("ab", shares, strict=True)):
            one = owning(timed(member(name)), generation, n, ("old", "orders"))
            parts = [TopicPartition(topic=each, partitions=some) for each, some in share.items()]
            one.assignment = encode_assignment(Assignment(assigned_partitions=parts))
            made.append(one)
        return made

    made = WrittenLog(protocol="cooperative-sticky")
    made.group(0, 1, *each_in(-1, {"orders": [0], "old": [0]}, {"orders": [1], "old": [1]}))
    made.group(100, 2, *each_in(1, {"orders": [0]}, {"orders": [1]}))
    made.group(3700, 3, *each_in(2, {"orders": [0, 2]}, {"orders": [1, 3]}))
    assert cause_of(last_of(made)) == ("unknown", None)


def test_of_members_that_leave_an_empty_group_at_once_none_is_the_first() -> None:
    made = WrittenLog()
    made.group(0, 1, timed(member("c", 0)), timed(member("b", 1)))
    commits(made, {0: [(1, 60, 5), (62, 62, 1)], 1: [(1.5, 40, 5)]})
    made.group(62.07, 2)
    assert cause_of(last_of(made)) == ("member_left", None)
