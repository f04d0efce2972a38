import random

import pytest

from tests.analytics.questions.made import HOUR, MINUTE, ask, only, since, table


def minutes(numbers, partition=0, count=6, **more):
    """A row for each of these minutes, with commits from its first to its 50th second."""
    return [
        {
            "topic_partition": partition,
            "minute": each * MINUTE,
            "commits": count(each) if callable(count) else count,
            "first_offset": each * 100,
            "last_offset": each * 100 + 90,
            "first_time": each * MINUTE,
            "last_time": each * MINUTE + 50_000,
            "longest_gap_ms": 10_000,
            **more,
        }
        for each in numbers
    ]


# -- rhythm ----------------------------------------------------------------------------------------


def test_an_even_rhythm_has_no_variation():
    found = only(ask("commit_rhythm", commit_minutes=table("commit_minutes", *minutes(range(60)))))
    assert (found["commits"], found["variation"], found["steps"]) == (360, 0.0, 0)
    assert found["longest_gap_ms"] == 10_000
    assert found["records"] == 5_990
    assert found["per_minute"] == pytest.approx(360 / (59 + 5 / 6))


def test_minutes_without_commits_count():
    made = table("commit_minutes", *minutes([0, *range(10, 60)]))
    found = only(ask("commit_rhythm", commit_minutes=made))
    assert found["longest_gap_ms"] == 9 * MINUTE + 10_000
    assert found["variation"] > 0.4


def test_a_step_of_factor_3_is_found_where_it_is():
    for before, after, factor in ((2, 6, 3.0), (6, 2, 1 / 3)):
        steps = minutes(range(480), count=lambda at: before if at < 240 else after)  # noqa: B023
        made = table("commit_minutes", *steps)
        answered = ask("rhythm_steps", commit_minutes=made)
        found = only(answered)
        assert since(answered, "at") == [4 * HOUR]
        assert (found["before_per_minute"], found["after_per_minute"]) == (before, after)
        assert found["factor"] == pytest.approx(factor)
        assert only(ask("commit_rhythm", commit_minutes=made))["steps"] == 1


@pytest.mark.parametrize("at", [241, 255, 270, 285, 299])
def test_a_step_within_a_window_is_found_once(at):
    for before, after in ((1, 4), (4, 1)):
        rows = minutes(range(600), count=lambda each: before if each < at else after)  # noqa: B023
        answered = ask("rhythm_steps", commit_minutes=table("commit_minutes", *rows))
        assert abs(since(answered, "at")[0] - at * MINUTE) < HOUR
        assert answered.num_rows == 1


def test_a_smaller_step_or_a_short_burst_is_none():
    small = minutes(range(480), count=lambda at: 5 if at < 240 else 12)
    burst = minutes(range(480), partition=1, count=lambda at: 20 if 240 <= at < 300 else 2)
    made = table("commit_minutes", *small, *burst)
    assert ask("rhythm_steps", commit_minutes=made).num_rows == 0


def test_a_hundred_steady_weeks_give_no_alarm():
    dice = random.Random(100)
    weeks = [
        minutes(
            sorted(dice.sample(range(7 * 24 * 60), 5_000)),
            partition=week,
            count=lambda _: dice.choice((1, 2, 3)),
        )
        for week in range(100)
    ]
    made = table("commit_minutes", *(row for week in weeks for row in week))
    assert ask("rhythm_steps", commit_minutes=made).num_rows == 0


def test_a_single_commit_has_no_rhythm():
    made = table("commit_minutes", *minutes([0], count=1, last_time=0, longest_gap_ms=None))
    found = only(ask("commit_rhythm", commit_minutes=made))
    assert (found["longest_gap_ms"], found["variation"], found["per_second"]) == (None, None, None)


# -- silence ---------------------------------------------------------------------------------------


OWN = [
    {"member": "quiet", "topic_partition": 0, "from": 0, "until": 2 * HOUR},
    {"member": "busy", "topic_partition": 1, "from": 0, "until": 2 * HOUR},
]


def scene(silent, **more):
    """Two members with a partition each, over two hours; partition 0 is silent in some minutes."""
    first = [each for each in range(120) if each not in silent]
    made = minutes(first) + minutes(range(120), partition=1)
    return {
        "ownership": table("ownership", *OWN),
        "commit_minutes": table("commit_minutes", *made),
        **more,
    }


def test_an_owner_that_stops_to_commit_while_others_go_on_is_silent():
    answered = ask("commit_silence", **scene(range(30, 60)))
    found = only(answered)
    assert (found["member"], found["partitions"], found["ended"]) == ("quiet", 1, "commit")
    assert since(answered, "from") == [29 * MINUTE + 50_000]
    assert since(answered, "until") == [60 * MINUTE]
    assert (found["usual_ms"], found["others_minutes"], found["lag"]) == (MINUTE, 30, None)


@pytest.mark.parametrize(("until", "ended"), [(2 * HOUR, "loss"), (None, "log_end")])
def test_an_owner_that_never_commits_again_is_silent_to_the_end(until, ended):
    """Of its ownership, or of the log."""
    tables = scene(range(30, 120))
    own = [row | {"until": until} for row in OWN]
    covered = table("coverage", {"log": "__consumer_offsets", "until": 2 * HOUR})
    found = only(
        ask("commit_silence", **tables | {"ownership": table("ownership", *own)}, coverage=covered)
    )
    assert found["ended"] == ended
    assert found["silent_ms"] == 90 * MINUTE + 10_000


@pytest.mark.parametrize(("silent", "ended_by"), [(90, "session_expired"), (10, None)])
def test_an_owner_that_died_did_not_hang(silent, ended_by):
    gone = {
        "member": "quiet",
        "from": 0,
        "until": 2 * HOUR,
        "ended_by": "session_expired",
        "silent_ms": silent * MINUTE,
        "session_timeout_ms": 90 * MINUTE,
    }
    found = only(ask("commit_silence", **scene(range(30, 120), sessions=table("sessions", gone))))
    assert (found["ended_by"], found["ended"]) == (ended_by, "loss")
    assert found["session_timeout_ms"] == (90 * MINUTE if ended_by else None)


def test_an_owner_that_commits_late_from_the_beginning_is_silent():
    answered = ask("commit_silence", **scene(range(20)))
    assert since(answered, "from") == [0]


USUAL, LESS = range(120), [*range(30), *range(60, 120)]


@pytest.mark.parametrize(
    "committed",
    [
        ([*range(30), *range(39, 120)], USUAL),  # shorter silences are usual
        (LESS, LESS),  # the whole group is silent
        (range(0, 120, 15), USUAL),  # the partition is committed seldom
        (LESS, USUAL, USUAL),  # a member is silent with all of its partitions or not at all
    ],
)
def test_silences_that_tell_nothing(committed):
    own = [*OWN, OWN[0] | {"topic_partition": 2}][: len(committed)]
    made = [row for partition, each in enumerate(committed) for row in minutes(each, partition)]
    tables = {"ownership": table("ownership", *own)}
    tables["commit_minutes"] = table("commit_minutes", *made)
    assert ask("commit_silence", **tables).num_rows == 0


@pytest.mark.parametrize(("lost", "back", "flagged"), [(30, 60, 0), (40, 41, 1)])
def test_time_without_the_partitions_is_no_silence(lost, back, flagged):
    """A rebalance in between does not excuse it."""
    quiet, busy = OWN
    own = quiet | {"until": lost * MINUTE}, quiet | {"from": back * MINUTE}, busy
    tables = scene(range(30, 60)) | {"ownership": table("ownership", *own)}
    assert ask("commit_silence", **tables).num_rows == flagged


@pytest.mark.parametrize(
    ("samples", "flagged"),
    [
        ([(29, 100, 0), (60, 100, 0)], 0),  # nothing was read, and nothing came
        ([(29, 100, 0)], 0),
        ([(29, 100, 0), (60, 150, 0)], 1),  # records came meanwhile
        ([(29, 100, 7), (60, 100, 0)], 1),  # some were to be read
        ([(60, 100, 0)], 1),
    ],
)
def test_a_partition_with_nothing_to_read_is_not_silent(samples, flagged):
    lag = table(
        "lag", *({"time": at * MINUTE, "end_offset": end, "lag": lag} for at, end, lag in samples)
    )
    assert ask("commit_silence", **scene(range(30, 60), lag=lag)).num_rows == flagged


def test_commits_that_were_compacted_away_are_no_silence():
    known = {"log": "__consumer_offsets", "from": 0, "until": 2 * HOUR}
    tables = scene(range(30, 60))
    late = table("coverage", known | {"known_from": 60 * MINUTE})
    assert ask("commit_silence", **tables, coverage=late).num_rows == 0
    early = table("coverage", known | {"known_from": 0})
    assert ask("commit_silence", **tables, coverage=early).num_rows == 1


# -- lag -------------------------------------------------------------------------------------------


def test_lag_is_the_age_of_what_is_read_next():
    ages = [0] * 10 + [None] + [60_000] * 9 + [5_000]
    rows = [{"time": each * MINUTE, "lag": each, "lag_ms": age} for each, age in enumerate(ages)]
    answered = ask("lag_seconds", lag=table("lag", *rows))
    found = only(answered)
    assert (found["samples"], found["median_ms"], found["p95_ms"]) == (20, 0, 60_000)
    assert (found["longest_ms"], found["now_ms"], found["now"]) == (60_000, 5_000, 20)
    assert since(answered, "longest_at") == [11 * MINUTE]
