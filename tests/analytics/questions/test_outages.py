"""Groups that are down, or hang as a whole, are found first; lag is that of the end of the log."""

import pytest

from groupkeeper.analytics.answering import answers
from tests.analytics.questions.made import HOUR, MINUTE, ask, only, since, table

LOST = {"ended_by": "session_expired", "silent_ms": 30_000}


def read(until, **more):
    return table("coverage", {"from": 0, "until": until, **more})


def member(name, start=0, until=None, **more):
    return {"member": name, "from": start, "until": until, **more}


def end(lag, waiting_since=None, *, partition=0, time=5 * HOUR, **more):
    """The end of a partition, with the last commit in the 30th minute."""
    row = {"group": "g", "topic": "t", "topic_partition": partition, "commit_time": 30 * MINUTE}
    return row | {
        "committed_offset": 100,
        "end_offset": None if lag is None else 100 + lag,
        "end_time": None if lag is None else time,
        "lag": lag,
        "waiting_since": waiting_since,
        **more,
    }


def down(*ends, sessions=(), **ended):
    """Two members that end after half an hour, in a log of five hours."""
    ended = {"until": 30 * MINUTE, **LOST} | ended
    lives = [member("a", **ended), member("b", **ended), *sessions]
    return {
        "sessions": table("sessions", *lives),
        "log_ends": table("log_ends", *ends),
        "coverage": read(5 * HOUR),
    }


def findings(tables):
    return answers(tables)["findings"].to_pylist()


def test_a_group_whose_members_vanished_is_critical_while_records_wait():
    tables = down(end(180, 31 * MINUTE), end(0, partition=1), end(90, 2 * HOUR, partition=2))
    answered = ask("outages", **tables)
    row = only(answered)
    assert (row["what"], row["members"], row["lost"]) == ("gone", 2, 2)
    assert (since(answered, "from"), since(answered, "until")) == ([1_770_000], [5 * HOUR])
    assert (row["lag"], row["partitions"], row["waiting_ms"]) == (270, 2, 269 * MINUTE)
    assert row["waited_s"] == (269 + 180) * 60
    [found] = findings(tables)
    assert (found["severity"], found["cost_s"]) == ("critical", row["waited_s"])
    assert found["sentence"] == (
        "Group 'g' had no members for 4 h 30 min between 2025-11-22 08:59 and 13:30, up to the end "
        "of what was read: its last 2 members vanished without leaving. 270 records in 2 "
        "partitions wait for it, the oldest for 4 h 29 min."
    )


def test_without_the_topics_it_is_told_that_what_waits_is_unknown():
    [found] = findings(down())
    assert found["severity"] == "high"
    assert "What waits for it is unknown." in found["sentence"]


def test_a_group_that_is_gone_and_has_nothing_to_read_is_none():
    assert ask("outages", **down(end(0))).num_rows == 0


def test_a_group_that_was_stopped_is_told_without_alarm():
    stopped = {"ended_by": "member_left", "silent_ms": None}
    [found] = findings(down(end(180, 31 * MINUTE), **stopped))
    assert (found["severity"], "vanished" in found["sentence"]) == ("medium", False)
    [found] = findings(down(**stopped))
    assert found["severity"] == "info"


def test_an_outage_that_is_over_is_told_with_its_length():
    back = member("c", 2 * HOUR)
    [found] = findings(down(end(180, 31 * MINUTE), sessions=[back]))[-1:]
    row = only(ask("outages", **down(end(0), sessions=[back])))
    assert (row["is_over"], row["lasted_ms"], row["lag"]) == (True, 90 * MINUTE + 30_000, None)
    assert "had no members for 90 min 30 s" in found["sentence"]


def test_a_static_member_that_comes_back_ends_no_group():
    ended = {"until": 30 * MINUTE, "ended_by": "replaced"}
    lives = [member("a", **ended), member("b", 30 * MINUTE, old_member="a", away_ms=20_000)]
    tables = {"sessions": table("sessions", *lives), "coverage": read(5 * HOUR)}
    assert ask("outages", **tables).num_rows == 0


def stuck(*ends, until=5 * HOUR):
    lives = table("sessions", member("a"), member("b"))
    return {"sessions": lives, "log_ends": table("log_ends", *ends), "coverage": read(until)}


def test_a_group_that_hangs_as_a_whole_is_critical():
    tables = stuck(end(180, 31 * MINUTE))
    row = only(ask("outages", **tables))
    assert (row["what"], row["lasted_ms"], row["members"]) == ("stuck", 270 * MINUTE, 2)
    [found] = findings(tables)
    assert found["severity"] == "critical"
    assert "although 2 members went on. 180 records in 1 partition wait" in found["sentence"]


@pytest.mark.parametrize(
    "ends",
    [
        [end(0)],
        [end(5, 5 * HOUR - MINUTE)],  # young records
        [end(5, 31 * MINUTE, commit_time=5 * HOUR - MINUTE)],  # it commits: behind, but working
    ],
)
def test_a_group_that_works_or_has_nothing_to_read_does_not_hang(ends):
    assert ask("outages", **stuck(*ends)).num_rows == 0


def test_a_group_that_may_have_nothing_to_read_is_no_finding():
    tables = stuck(end(None))
    assert only(ask("outages", **tables))["lag"] is None
    assert findings(tables) == []


# -- lag at the end of what was read ---------------------------------------------------------------


def lagging(*ends, topics=None, **tables):
    samples = [{"time": each * MINUTE, "lag_ms": 0, "lag": 0} for each in range(30)]
    told = [{"group": "g", "member": "a", "partition": 3, "topics": topics}]
    tables = {"members": table("members", *told)} | tables
    return {"lag": table("lag", *samples), "log_ends": table("log_ends", *ends), **tables}


def test_lag_is_that_of_the_end_of_what_was_read():
    answered = ask("lag_seconds", **lagging(end(180, 31 * MINUTE)), coverage=read(3 * HOUR))
    row = only(answered)
    assert (row["now"], row["now_ms"]) == (180, 269 * MINUTE)  # the topic goes on for five hours
    assert (row["median_ms"], since(answered, "until")) == (0, [5 * HOUR])
    [found] = findings(lagging(end(180, 31 * MINUTE)))
    assert "is 4 h 29 min behind in partition 0" in found["sentence"]


def test_without_the_end_of_the_topic_the_last_sample_counts():
    row = only(ask("lag_seconds", **lagging()))
    assert (row["now"], row["now_ms"], row["is_subscribed"]) == (0, 0, None)


@pytest.mark.parametrize(
    ("topics", "is_subscribed"), [(["t", "u"], True), (["u"], False), (None, None)]
)
def test_a_topic_that_no_member_subscribes_is_no_lag(topics, is_subscribed):
    tables = lagging(end(180, 31 * MINUTE), topics=topics)
    assert only(ask("lag_seconds", **tables))["is_subscribed"] is is_subscribed
    assert len(findings(tables)) == (is_subscribed is not False)
    hangs = tables | {"sessions": table("sessions", member("a")), "coverage": read(5 * HOUR)}
    assert ask("outages", **hangs).num_rows == (is_subscribed is not False)


def test_only_the_last_group_record_tells_what_is_subscribed():
    old = {"group": "g", "member": "a", "partition": 3, "topics": ["t"], "offset": 1}
    members = table("members", old, old | {"topics": ["u"], "offset": 2})
    row = only(ask("lag_seconds", **lagging(end(9, MINUTE), members=members)))
    assert row["is_subscribed"] is False


def test_a_group_that_is_down_is_not_told_to_be_slow_as_well():
    tables = lagging(end(180, 31 * MINUTE)) | down(end(180, 31 * MINUTE))
    assert [each["question"] for each in findings(tables)] == ["outages"]
