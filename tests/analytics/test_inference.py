"""Causes inferred from a log alone, on stories of a few records, and against stored events."""

import json
from collections import Counter
from itertools import pairwise
from random import Random

import pytest

from groupkeeper.history.partition import PartitionHistory
from groupkeeper.history.records import CommitRun, GroupRecord
from groupkeeper.history.rows import ALL
from groupkeeper.protocol.embedded import Assignment, Subscription, TopicPartition
from groupkeeper.protocol.records.consumer_offsets import (
    GroupMetadataValue,
    MemberMetadata,
    encode_value,
)
from tests.analytics.churn import churn
from tests.analytics.folded import extend, fed, parsed, rows_of
from tests.analytics.precision import true_ends, true_rounds
from tests.support.codecs import encode_assignment, encode_subscription

NOON = 1_700_000_000_000


def member(name, *owns, topics=("orders",), instance=None, told=(), session_s=10):
    """A member whose client id is its name up to the first digit, with partitions of `orders`."""
    owned = [TopicPartition(topic="orders", partitions=[*told])] if told else []
    subscription = Subscription(version=1, topics=[*topics], owned_partitions=owned)
    share = [TopicPartition(topic="orders", partitions=[*owns])] if owns else []
    return MemberMetadata(
        member_id=name,
        group_instance_id=instance,
        client_id=name.rstrip("0123456789"),
        client_host="/10.0.0.1",
        rebalance_timeout=60_000,
        session_timeout=session_s * 1000,
        subscription=encode_subscription(subscription),
        assignment=encode_assignment(Assignment(assigned_partitions=share)),
    )


class Log:
    """What a fold is given, written by hand. Times are seconds."""

    def __init__(self, protocol="range"):
        self.fed = []
        self.protocol = protocol
        self.epoch = 1

    def group(self, at, generation, *members, joined=None):
        """A record, with the end of the join phase if that was earlier."""
        value = GroupMetadataValue(
            protocol_type="consumer",
            generation=generation,
            protocol=self.protocol if members else None,
            leader=members[0].member_id if members else None,
            current_state_timestamp=_ms(at if joined is None else joined),
            members=[*members],
        )
        offset = len(self.fed)
        record = (offset, _ms(at), self.epoch, offset, 2, "g", None, encode_value(value, 3))
        self.fed.append(GroupRecord(*record))

    def commits(self, partition, first, last, every=2):
        """Regular commits for a partition of `orders`."""
        offset, count = len(self.fed), round((last - first) / every) + 1
        times = _ms(first), _ms(last), count, every * 1000
        self.fed.append(CommitRun(offset, offset, "g", "orders", partition, *times))

    def rows(self, name):
        return rows_of(self.fed, ALL)[name]

    def last(self):
        """The last round: its cause, and the others."""
        row = self.rows("rounds")[-1]
        return row["cause"], row["more_causes"]


def _ms(seconds):
    return NOON + round(seconds * 1000)


A, B = member("a", 0), member("b", 1)


def two(protocol="range", a=A, b=B):
    """Two members that commit every two seconds, until 100."""
    log = Log(protocol)
    log.group(0, 1, a, b)
    return log


# -- departures ------------------------------------------------------------------------------------

STATIC, AGAIN = (member(name, 1, instance="i") for name in ("b", "b2"))
SLOW = member("b", 1, session_s=600)
B2, C = member("b2", 1), member("c", 1)
EVERY_49 = "every 49"


def story(b, seen, at, *after, joined=None):
    """a and b, whose last commits were then, and a round at a time with the members after it."""
    log = two(b=b)
    for partition, until in enumerate(seen):
        if until == EVERY_49:
            log.commits(partition, 2, 100, every=49)
        elif until:
            log.commits(partition, 2, until)
    log.group(at, 2, *after, joined=joined)
    return log


@pytest.mark.parametrize(
    ("b", "seen", "at", "after", "ended", "causes"),
    [
        # who committed within its session has left; who restarted as well
        (B, (102, 100), 103, [A], "member_left", ["member_left"]),
        (B, (0, 100), 103, [A, B2], "member_left", ["member_left", "member_joined"]),
        # who was silent for its session while others committed has expired
        (B, (111, 100), 112, [A], "session_expired", ["session_expired"]),
        # a came late: the round may have begun when b left
        (B, (101, 100), 112, [A], "unknown", ["unknown"]),
        # a came back when b2 joined, and both waited for b
        (B, (102, 100), 111, [A, B2], "session_expired", ["member_joined", "session_expired"]),
        # of two clients it is not known which came first
        (B, (0, 100), 103, [A, C], "member_left", ["unknown", "member_left", "member_joined"]),
        # who committed irregularly, never, or not for long may have done either
        (B, (111, EVERY_49), 112, [A], "unknown", ["unknown"]),
        (B, (111, 0), 112, [A], "unknown", ["unknown"]),
        (B, (134, 100), 135, [A], "unknown", ["unknown"]),
        # a session longer than the rebalance timeout, for which the others may have waited
        (SLOW, (30, 30), 100, [A, C], "unknown", ["unknown", "member_joined"]),
        (SLOW, (30, 30), 100, [A], "member_left", ["member_left"]),
        # a static member stays when it is closed
        (STATIC, (111, 100), 112, [A], "session_expired", ["session_expired"]),
        (STATIC, (0, 100), 111, [A], "session_expired", ["session_expired"]),
        # of one that commits nothing, or rarely, silence shows no end
        (STATIC, (0, 0), 100, [A], "unknown", ["unknown"]),
        (STATIC, (111, EVERY_49), 112, [A], "unknown", ["unknown"]),
        (STATIC, (0, 100), 103, [A], "member_removed_by_admin", ["member_removed_by_admin"]),
        (
            STATIC,
            (0, 40),
            52,
            [A, AGAIN],
            "session_expired",
            ["session_expired", "static_member_joined"],
        ),
    ],
)
def test_why_a_member_is_gone(b, seen, at, after, ended, causes):
    log = story(b, seen, at, *after)
    assert log.last() == (causes[0], causes[1:])
    assert [row["ended_by"] for row in log.rows("sessions") if row["member"] == "b"] == [ended]
    row = log.rows("rounds")[-1]
    assert (row["joined"], row["removed"], row["replaced"]) == (len(after) - 1, 1, 0)


def test_a_static_member_without_partitions_was_there_until_the_round_without_it():
    """It commits nothing in all its life: that it was silent says nothing of how it ended."""
    log = story(member("b", instance="pod-b"), (7_200, 0), 7_201, A)
    assert log.last() == ("unknown", [])
    [row] = [row for row in log.rows("sessions") if row["member"] == "b"]
    assert (row["ended_by"], row["until"]) == ("unknown", _ms(7_201))


def test_who_was_silent_for_its_poll_interval_has_given_up():
    log = story(B, (161, 100), 162, A)
    assert log.last() == ("member_left", [])
    assert log.rows("rounds")[-1]["likely"] == "max_poll_exceeded"
    assert log.rows("sessions")[0]["likely"] == "max_poll_exceeded"


def test_the_last_member_decides_for_those_that_were_silent_with_it():
    row = story(B, (100, 101), 111).rows("rounds")[-1]
    assert (row["outcome"], row["cause"], row["removed"]) == ("emptied", "session_expired", 2)


def test_a_member_that_is_not_seen_after_a_load_may_have_been_too_many():
    log = two()
    log.commits(0, 2, 102)
    log.commits(1, 2, 100)
    log.epoch = 2
    log.group(103, 2, A)
    assert log.last() == ("unknown", [])


@pytest.mark.parametrize(
    ("epoch", "after", "cause"),
    [
        (1, [A, B2], "unknown"),
        (2, [A, B2], "member_joined"),
        (2, [A, C], "unknown"),
        (2, [A, B2, C], "unknown"),
    ],
)
def test_after_a_load_clients_that_join_anew_are_before_the_ends_of_their_sessions(
    epoch, after, cause
):
    log = two()
    log.commits(0, 2, 111)
    log.commits(1, 2, 100)
    log.epoch = epoch
    log.group(115, 2, *after)
    assert log.last()[0] == cause
    [b] = [row for row in log.rows("sessions") if row["member"] == "b"]
    assert b["ended_by"] == "session_expired"


@pytest.mark.parametrize(("epoch", "until"), [(1, 110), (2, 112)])
def test_a_session_that_began_anew_with_a_load_ended_by_the_end_of_the_join_phase(epoch, until):
    log = two(b=STATIC)
    log.commits(0, 2, 111)
    log.commits(1, 2, 100)
    log.epoch = epoch
    log.group(112, 2, A)
    [b] = [row for row in log.rows("sessions") if row["member"] == "b"]
    assert (b["ended_by"], b["until"]) == ("session_expired", _ms(until))


def test_a_static_member_that_commits_nothing_is_back_and_nothing_is_told_of_its_session():
    log = story(STATIC, (0, 0), 52, A, AGAIN)
    assert log.last() == ("unknown", [])
    assert log.rows("rounds")[-1]["replaced"] == 1
    assert log.rows("sessions")[-2]["ended_by"] != "session_expired"


def test_a_session_that_ends_a_rounded_millisecond_early_has_ended():
    row = story(B, (100, 100), 109.999).rows("rounds")[-1]
    assert (row["outcome"], row["cause"]) == ("emptied", "session_expired")


def test_a_static_member_with_a_new_id_alone_is_no_cause():
    """An administrator may have removed it; or it came back in a round with another cause."""
    log = story(STATIC, (0, 100), 103, A, AGAIN)
    assert log.last() == ("unknown", [])
    log = story(STATIC, (0, 100), 103, A, AGAIN, member("d", 2))
    assert log.last() == ("member_joined", ["static_member_returned_unready"])


def test_eager_members_have_no_second_round():
    log = Log("range")
    log.group(0, 1, member("a", 0, 1))
    log.group(9, 2, member("a", 0, told=[0, 1]), member("c"))
    log.group(10, 3, member("a", 0, told=[0]), member("c", 1))
    assert log.last() == ("leader_rejoined", [])


# -- other causes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "cause"),
    [
        ([A, B, member("c", 2)], "member_joined"),
        ([A, B, member("c", 2, instance="i")], "static_member_joined"),
        ([A, member("b", 1, topics=("orders", "payments"))], "subscription_changed"),
        ([A, B], "leader_rejoined"),
        ([member("a", 0, told=[0]), B], "leader_rejoined"),
    ],
)
def test_a_cause_is_what_differs(members, cause):
    log = two()
    log.group(9, 2, *members)
    assert log.last() == (cause, [])


def test_a_restarted_client_was_away():
    log = story(B, (0, 100), 103, A, B2)
    assert log.rows("rounds")[-1]["away_ms"] == 3000
    [_, back] = [row for row in log.rows("sessions") if row["client_id"] == "b"]
    assert (back["began_as"], back["away_ms"]) == ("dynamic", 3000)


def test_of_several_clients_that_are_gone_the_one_that_went_last_comes_back_first():
    log = two(a=member("a", 0), b=member("b1", 1))
    log.group(5, 2, A, member("b1", 1), member("b2", 2))
    log.commits(1, 6, 20)
    log.group(23, 3, A, member("b2", 2))
    log.commits(2, 24, 40)
    log.group(43, 4, A)
    log.group(60, 5, A, member("b3", 1))
    log.group(70, 6, A, member("b3", 1), member("b4", 2))
    log.group(80, 7, A, member("b3", 1), member("b4", 2), member("b5", 3))
    away = {row["member"]: row["away_ms"] for row in log.rows("sessions")}
    assert [away[name] for name in ("b3", "b4", "b5")] == [20_000, 50_000, None]
    assert [row["away_ms"] for row in log.rows("rounds")][-3:] == [20_000, 50_000, None]


@pytest.mark.parametrize(
    ("protocol", "told", "cooperative"),
    [("range", [1], False), ("own", [], None), ("own", [1], True), ("own-cooperative", [], True)],
)
def test_the_assignor_tells_whether_members_keep_their_partitions(protocol, told, cooperative):
    log = two(protocol)
    log.group(9, 2, A, member("b", 1, told=told))
    assert log.rows("rounds")[-1]["is_cooperative"] is cooperative


def test_a_static_member_that_returns_keeps_the_generation():
    log = two(b=STATIC)
    log.commits(1, 2, 40)
    log.group(45, 1, A, AGAIN)
    assert len(log.rows("rounds")) == 1
    [old] = [row for row in log.rows("sessions") if row["member"] == "b"]
    [new] = [row for row in log.rows("sessions") if row["member"] == "b2"]
    assert (old["ended_by"], old["until"]) == ("replaced", _ms(45))
    assert (new["began_as"], new["old_member"], new["away_ms"]) == ("replaced", "b", 5000)


def test_a_cooperative_rebalance_has_a_second_round():
    a, b = member("a", 0, 1), member("c")
    log = Log("cooperative-sticky")
    log.group(0, 1, a)
    log.group(9, 2, member("a", 0, told=[0, 1]), b)
    log.group(10, 3, member("a", 0, told=[0]), member("c", 1))
    causes = [row["cause"] for row in log.rows("rounds")]
    assert causes == ["member_joined", "member_joined", "member_rejoined"]
    held = [row for row in log.rows("ownership") if row["topic_partition"] == 1]
    assert [(row["member"], row["from"], row["until"]) for row in held] == [
        ("a", _ms(0), _ms(9)),
        (None, _ms(9), _ms(10)),
        ("c", _ms(10), None),
    ]


def test_generations_that_were_not_written_are_rounds():
    for cause, more in (("unknown", []), ("member_joined", [member("d", 3)])):
        log = two()
        log.group(9, 3, A, B, member("c", 2), *more)
        rounds = [(row["generation"], row["outcome"], row["cause"]) for row in log.rows("rounds")]
        assert rounds[1:] == [(2, "superseded", cause), (3, "completed", cause)]


def test_generations_do_not_rise_by_millions():
    log = two()
    log.group(9, 2_000_000_000, A, B)
    [_, row] = log.rows("rounds")
    assert (row["cause"], row["joined"]) == ("unknown", None)
    assert log.rows("snapshots")[-1]["unwritten"] == 1_999_999_998


# -- ownership -------------------------------------------------------------------------------------


def test_ownership_ends_when_its_member_was_last_seen():
    log = story(B, (111, 100), 112, A, joined=111.5)
    [b] = [row for row in log.rows("ownership") if row["member"] == "b"]
    assert (b["from"], b["until"], b["generation"]) == (_ms(0), _ms(110), 1)
    [nobody] = [row for row in log.rows("ownership") if not row["is_owned"]]
    assert (nobody["from"], nobody["until"], nobody["member"]) == (_ms(110), None, None)
    last = log.rows("rounds")[-1]
    assert (last["unowned_ms"], last["moved"], last["leader_ms"]) == (0, 0, 500)
    log.group(120, 3, member("a", 0, 1))
    last = log.rows("rounds")[-1]
    assert last["unowned_ms"] == 10_000, "of the round that ends the time without an owner"


def test_a_partition_that_moves_has_no_owner_while_the_leader_assigns():
    log = two()
    log.group(9, 2, member("a", 1), member("b", 0), joined=8)
    moved = [row for row in log.rows("ownership") if row["topic_partition"] == 0]
    assert [(row["member"], row["from"], row["until"]) for row in moved] == [
        ("a", _ms(0), _ms(8)),
        (None, _ms(8), _ms(9)),
        ("b", _ms(9), None),
    ]
    last = log.rows("rounds")[-1]
    assert (last["moved"], last["unowned_ms"], last["partitions"]) == (2, 2000, 2)


# -- against stored events -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def churned():
    data, events = churn(days=0.5)
    return parsed(data), events, true_rounds(events)


def test_rounds_and_causes_are_those_of_the_events_or_unknown(churned):
    table, _, truth = churned
    found = {(row["group"], row["generation"]): row for row in rows_of(fed(table))["rounds"]}
    assert {key: row["outcome"] for key, row in found.items()} == {
        key: each.outcome for key, each in truth.items()
    }
    assert len(found) > 200
    causes = [((each.cause or {})["code"], found[key]["cause"]) for key, each in truth.items()]
    right = sum(told == got for told, got in causes)
    assert right >= 0.95 * len(causes), Counter(causes)
    assert sum(got not in (told, "unknown") for told, got in causes) <= 0.02 * len(causes)


def test_ends_of_sessions_are_those_of_the_events_or_unknown(churned):
    table, events, _ = churned
    truth = true_ends(events)
    ended = [row for row in rows_of(fed(table))["sessions"] if row["until"]]
    told = [row for row in ended if row["ended_by"] != "unknown"]
    wrong = [row for row in told if truth[row["group"], row["member"]] != row["ended_by"]]
    assert len(wrong) <= 0.02 * len(ended), wrong
    assert len(told) >= 0.85 * len(ended)
    assert {row["ended_by"] for row in told} >= {"member_left", "session_expired", "replaced"}


@pytest.mark.parametrize("seed", range(2))
def test_a_log_may_be_cut_between_any_two_batches(churned, seed):
    table, _, _ = churned
    random = Random(seed)
    batches = table["batch_position"].to_pylist()
    borders = [n for n in range(1, len(batches)) if batches[n] != batches[n - 1]]
    cuts = [0, *sorted(random.sample(borders, 40)), len(batches)]
    fold, rows = PartitionHistory(0), {}
    for first, end in pairwise(cuts):
        for each in fed(table.slice(first, end - first)):
            fold.add(each)
        extend(rows, fold.take())
        fold = PartitionHistory.restore(json.loads(json.dumps(fold.state())))
    extend(rows, fold.open())
    assert rows == rows_of(fed(table))
