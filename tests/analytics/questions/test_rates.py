import pytest

from groupkeeper.analytics.questions import registry
from tests.analytics.questions.made import HOUR, MINUTE, ask, only, rounds, since, table


def coverage(**more):
    return table("coverage", {"from": 0, "until": 24 * HOUR, **more})


def every(minutes, number, start=0):
    """This many rounds, one each so many minutes."""
    return [{"started": start + int(index * minutes * MINUTE)} for index in range(number)]


# -- rate and timeline -----------------------------------------------------------------------------


def test_the_rate_is_of_the_time_that_was_read():
    found = only(ask("rebalance_rate", rounds=rounds(*every(60, 6)), coverage=coverage()))
    assert (found["rounds"], found["completed"], found["per_day"]) == (6, 6, 6.0)


def test_a_group_that_began_later_is_judged_by_its_own_time():
    first, *rest = every(60, 6, start=12 * HOUR)
    made = rounds({"generation": 1, **first}, *rest)
    answered = ask("rebalance_rate", rounds=made, coverage=coverage())
    assert only(answered)["per_day"] == 12.0
    assert since(answered, "from") == [12 * HOUR]


def test_a_rate_of_a_moment_is_taken_as_that_of_an_hour():
    assert only(ask("rebalance_rate", rounds=rounds({"started": 0})))["per_day"] == 24.0


def test_the_busiest_hour_is_the_first_of_equal_ones():
    half_past = [{"started": each * MINUTE} for each in (0, 10, 40, 50)]
    answered = ask("rebalance_rate", rounds=rounds(*half_past))
    assert since(answered, "busiest_hour") == [-30 * MINUTE]  # AT is 08:30
    assert only(answered)["busiest_rounds"] == 2


def test_the_timeline_has_an_hour_and_a_cause_in_a_row():
    made = rounds(
        {"started": 0, "duration_ms": 10, "generation": 4},
        {"started": 1, "duration_ms": 20, "generation": 5},
        {"started": 2, "cause": "session_expired", "generation": 6},
        {"started": HOUR, "generation": 7},
    )
    answered = ask("timeline", rounds=made).to_pylist()
    assert [(each["cause"], each["rounds"], each["generation"]) for each in answered] == [
        ("member_left", 2, 5),
        ("session_expired", 1, 6),
        ("member_left", 1, 7),
    ]
    assert answered[0]["duration_ms"] == 30
    assert answered[0]["unowned_ms"] is None  # none of them says it


def test_a_round_whose_beginning_was_not_read_counts_where_it_ended():
    made = rounds({"ended": HOUR})
    assert since(ask("timeline", rounds=made), "hour") == [30 * MINUTE]


# -- not stable ------------------------------------------------------------------------------------


def test_time_not_stable_is_that_of_rounds_once():
    made = rounds({"started": 0}, {"started": 500}, {"started": HOUR}, lasts=1_000)
    found = only(ask("not_stable", rounds=made, coverage=coverage(until=10 * HOUR)))
    assert found["not_stable_ms"] == 2_500
    assert found["share"] == pytest.approx(2_500 / (10 * HOUR))


def test_a_round_under_way_is_not_stable_to_the_end_of_what_was_read():
    made = rounds({"started": HOUR, "ended": None, "outcome": "under_way"})
    found = only(ask("not_stable", rounds=made, coverage=coverage(until=2 * HOUR)))
    assert found["not_stable_ms"] == HOUR


def test_partition_seconds_without_an_owner_are_summed_over_partitions():
    owned = table(
        "ownership",
        {"from": 0, "until": 60_000},
        {"from": 60_000, "until": 63_000, "is_owned": False},
        {"from": 63_000, "until": 100_000},
        {"topic_partition": 1, "from": 0, "until": 95_000},
        {"topic_partition": 1, "from": 95_000, "is_owned": False},
    )
    found = only(ask("not_stable", ownership=owned, coverage=coverage(until=100_000)))
    assert (found["partitions"], found["unowned_s"]) == (2, 8.0)
    assert found["unowned_share"] == pytest.approx(8 / 200)


def test_a_group_without_members_waits_for_nobody():
    made = rounds(
        {"started": 0, "ended": 1_000, "outcome": "emptied"}, {"started": 50_000, "ended": 51_000}
    )
    owned = table("ownership", {"from": 0, "until": 51_000, "is_owned": False})
    found = only(ask("not_stable", rounds=made, ownership=owned, coverage=coverage()))
    assert found["empty_ms"] == 49_000
    assert (found["unowned_s"], found["unowned_empty_s"]) == (2.0, 49.0)


def test_partitions_of_a_member_that_is_gone_are_unread():
    """A static member restarts for 20 s; a dynamic one is dead for its session of 45 s."""
    members = table(
        "sessions",
        {"member": "a1", "from": 0, "until": 100_000, "ended_by": "replaced"},
        {"member": "a2", "from": 100_000, "old_member": "a1", "away_ms": 20_000},
        {
            "member": "b",
            "from": 0,
            "until": 300_000,
            "ended_by": "session_expired",
            "silent_ms": 45_000,
        },
        {"member": "c", "from": 0, "until": 400_000, "ended_by": "member_left", "silent_ms": 3_000},
    )
    owned = table(
        "ownership",
        *(
            {"member": "a1", "topic_partition": each, "from": 0, "until": 100_000}
            for each in (0, 1)
        ),
        *({"member": "a2", "topic_partition": each, "from": 100_000} for each in (0, 1)),
        {"member": "b", "topic_partition": 2, "from": 0, "until": 300_000},
        {
            "member": None,
            "is_owned": False,
            "topic_partition": 2,
            "from": 300_000,
            "until": 303_000,
        },
        {"member": "c", "topic_partition": 2, "from": 303_000, "until": 400_000},
    )
    read = coverage(until=400_000)
    found = only(ask("not_stable", ownership=owned, sessions=members, coverage=read))
    assert found["unowned_s"] == 3.0
    assert found["unread_s"] == 2 * 20 + 45 + 3
    assert found["down_ms"] == 0


def test_time_in_which_no_client_runs_is_down_and_not_unread():
    members = table(
        "sessions",
        {"member": "a1", "from": 0, "until": 100_000, "ended_by": "replaced"},
        {"member": "a2", "from": 100_000, "old_member": "a1", "away_ms": 20_000},
    )
    owned = table(
        "ownership",
        {"member": "a1", "from": 0, "until": 100_000},
        {"member": "a2", "from": 100_000},
    )
    read = coverage(until=400_000)
    found = only(ask("not_stable", ownership=owned, sessions=members, coverage=read))
    assert (found["unread_s"], found["down_ms"]) == (0.0, 20_000)
    unknown = only(ask("not_stable", ownership=owned, coverage=read))
    assert (unknown["unread_s"], unknown["down_ms"]) == (None, None)


# -- causes ----------------------------------------------------------------------------------------


def test_causes_are_ranked_within_a_group():
    made = rounds(
        {"started": 0, "by_instance": "a"},
        {"started": 1, "by_instance": "b"},
        {"started": 2, "by_instance": "b"},
        {"started": 3, "cause": "session_expired"},
        {"started": 4, "group": "other", "cause": "session_expired"},
    )
    found = ask("causes", rounds=made).to_pylist()
    assert [(each["group"], each["cause"], each["rank"], each["share"]) for each in found] == [
        ("g", "member_left", 1, 0.75),
        ("g", "session_expired", 2, 0.25),
        ("other", "session_expired", 1, 1.0),
    ]
    assert (found[0]["who"], found[0]["who_rounds"]) == ("b", 2)
    assert (found[1]["who"], found[1]["who_rounds"]) == (None, 0)


def test_one_code_with_two_explanations_is_two_causes():
    made = rounds({"started": 0, "likely": "shutdown"}, {"started": 1})
    assert [each["likely"] for each in ask("causes", rounds=made).to_pylist()] == [None, "shutdown"]


@pytest.mark.parametrize(("question", "column"), [("software", "by_software"), ("host", "by_host")])
def test_causes_are_ranked_over_groups(question, column):
    made = rounds(
        {"started": 0, column: "x"}, {"started": 1, column: "x", "group": "other"}, {"started": 2}
    )
    found = ask(f"causes_by_{question}", rounds=made).to_pylist()
    assert [(each[question], each["rounds"], each["groups"]) for each in found] == [
        (None, 1, 1),
        ("x", 2, 2),
    ]


# -- storms ----------------------------------------------------------------------------------------


def test_five_rounds_in_ten_minutes_are_a_storm():
    answered = ask("storms", rounds=rounds(*every(2.5, 5)))
    assert only(answered)["rounds"] == 5
    assert since(answered, "from") + since(answered, "until") == [0, 10 * MINUTE + 1_000]
    assert only(answered)["evidence"] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("near", [every(1, 4), every(2.51, 5), every(2.51, 50)])
def test_four_rounds_or_a_longer_time_are_none(near):
    assert ask("storms", rounds=rounds(*near)).num_rows == 0


def test_a_storm_goes_on_while_five_are_in_ten_minutes():
    made = rounds(*every(2, 40), *every(2, 5, start=6 * HOUR))
    assert ask("storms", rounds=made)["rounds"].to_pylist() == [40, 5]


def test_the_limits_of_a_storm_are_parameters():
    made = rounds(*every(5, 3))
    tables = {"rounds": made}
    assert registry.ask("storms", tables, least=3).num_rows == 1
    assert registry.ask("storms", tables, least=3, within_ms=9 * MINUTE).num_rows == 0


def test_a_storm_names_the_cause_and_client_that_began_most_of_it():
    expired = {"cause": "session_expired", "by_client_id": "c", "by_host": "h"}
    follow = {"cause": "member_rejoined", "by_client_id": "d"}
    kinds = [expired, follow, follow, follow, {"cause": "member_left"}, expired]
    made = rounds(
        *(
            at | kind | {"by_member": f"m{number}"}
            for number, (at, kind) in enumerate(zip(every(1, 6), kinds, strict=True))
        )
    )
    found = only(ask("storms", rounds=made))
    assert (found["cause"], found["cause_rounds"]) == ("session_expired", 2)
    assert (found["member"], found["client_id"], found["host"]) == ("m5", "c", "h")
    assert found["who_rounds"] == 2


# -- what was inferred -----------------------------------------------------------------------------


def test_what_was_inferred_before_the_log_is_known_is_left_out():
    inferred = {"source": "log", "confidence": 0.8}
    made = rounds(*({**each, **inferred} for each in every(1, 8)))
    known = table(
        "coverage",
        {"log": "__consumer_offsets", "from": 0, "known_from": 2 * MINUTE, "until": HOUR},
    )
    answered = ask("storms", rounds=made, coverage=known)
    found = only(answered)
    assert (found["rounds"], found["source"], found["confidence"]) == (6, "log", 0.8)
    assert since(answered, "known_from") == [2 * MINUTE]
    # The same of another log or partition says nothing about these rows.
    for other in ({"log": "__group_events"}, {"partition": 4}):
        row = {"log": "__consumer_offsets", "from": 0, "known_from": 2 * MINUTE} | other
        assert only(ask("storms", rounds=made, coverage=table("coverage", row)))["rounds"] == 8


def test_ownership_that_goes_on_is_counted_from_where_it_is_known():
    owned = table(
        "ownership",
        {"from": 0, "until": 60_000, "is_owned": False, "source": "log", "confidence": 0.5},
    )
    known = table("coverage", {"log": "__consumer_offsets", "from": 0, "known_from": 50_000})
    assert only(ask("not_stable", ownership=owned, coverage=known))["unowned_s"] == 10.0
