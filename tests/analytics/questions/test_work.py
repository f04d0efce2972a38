import pytest

from groupkeeper.analytics.questions import registry
from tests.analytics.questions.made import HOUR, MINUTE, ask, only, rounds, since, table

# -- barrier ---------------------------------------------------------------------------------------


def test_who_was_last_for_long_holds_the_barrier():
    made = rounds(
        *(
            {"started": at * HOUR, "last_client_id": client, "last_member": member, "held_ms": held}
            | {"last_host": "h"}
            for at, (client, member, held) in enumerate(
                [("c", "m1", 4_000), ("c", "m2", 1_000), ("c", "m2", 999), ("d", "m3", 10)]
            )
        ),
        {"started": 4 * HOUR, "last_client_id": "d", "last_host": "h", "held_ms": None},
    )
    answered = ask("barrier", rounds=made)
    found = only(answered)
    assert (found["member"], found["client_id"]) == ("m2", "c")
    assert (found["last"], found["held"], found["share"]) == (3, 2, 0.5)
    assert (found["held_ms"], found["longest_ms"], found["evidence"]) == (5_000, 4_000, [0, 1])
    assert since(answered, "until") == [HOUR]


def test_a_static_member_is_the_same_on_another_host():
    made = rounds(
        *(
            {"started": each, "last_instance": "i", "last_host": f"h{each}", "held_ms": 2_000}
            for each in range(3)
        )
    )
    assert only(ask("barrier", rounds=made))["held"] == 3


# -- members with nothing to do, and skew ----------------------------------------------------------


def members(*names, until=HOUR, **more):
    return [{"member": name, "from": 0, "until": until, **more} for name in names]


def owned(member, partition, start=0, end=HOUR, **more):
    return {"member": member, "topic_partition": partition, "from": start, "until": end, **more}


def test_a_member_without_a_partition_is_idle():
    tables = {
        "sessions": table("sessions", *members("a", "b")),
        "ownership": table("ownership", owned("a", 0), owned("a", 1)),
    }
    found = only(ask("idle_members", **tables))
    assert (found["member"], found["idle_ms"], found["share"]) == ("b", HOUR, 1.0)


def test_a_member_that_waits_for_its_first_partition_is_not():
    tables = {
        "sessions": table("sessions", *members("a", "b")),
        "ownership": table("ownership", owned("a", 0), owned("b", 1, start=5 * MINUTE - 1)),
    }
    assert ask("idle_members", **tables).num_rows == 0
    tables["ownership"] = table("ownership", owned("a", 0), owned("b", 1, start=5 * MINUTE))
    answered = ask("idle_members", **tables)
    assert only(answered)["idle_ms"] == 5 * MINUTE
    assert since(answered, "until") == [5 * MINUTE]


def test_nobody_is_idle_while_nobody_owns_anything():
    tables = {
        "sessions": table("sessions", *members("a", "b")),
        "ownership": table(
            "ownership",
            owned("a", 0, end=4 * MINUTE),
            owned(None, 0, start=4 * MINUTE, end=56 * MINUTE, is_owned=False),
            owned("a", 0, start=56 * MINUTE),
        ),
    }
    found = only(ask("idle_members", **tables))
    assert (found["member"], found["idle_ms"]) == ("b", 8 * MINUTE)
    assert ask("idle_members", sessions=tables["sessions"]).num_rows == 0


def test_members_that_share_alike_have_the_ratio_1():
    tables = {
        "sessions": table("sessions", *members("a", "b")),
        "ownership": table("ownership", *(owned("ab"[each % 2], each) for each in range(6))),
    }
    assert [(each["partitions"], each["ratio"]) for each in ask("skew", **tables).to_pylist()] == [
        (3.0, 1.0),
        (3.0, 1.0),
    ]


def test_a_share_is_that_of_the_members_of_each_moment():
    # b comes after half an hour, and takes three of the four.
    half = HOUR // 2
    tables = {
        "sessions": table("sessions", *members("a"), *members("b", **{"from": half})),
        "ownership": table(
            "ownership",
            *(owned("a", each, end=half) for each in range(3)),
            *(owned("b", each, start=half) for each in range(3)),
            owned("a", 3),
        ),
    }
    a, b = ask("skew", **tables).to_pylist()
    assert (a["partitions"], a["fair"]) == (2.5, 3.0)
    assert (b["partitions"], b["fair"], b["ratio"]) == (3.0, 2.0, 1.5)


def test_a_short_session_has_no_skew():
    tables = {
        "sessions": table("sessions", *members("a", until=10 * MINUTE - 1)),
        "ownership": table("ownership", owned("a", 0)),
    }
    assert ask("skew", **tables).num_rows == 0


# -- cooperative or eager --------------------------------------------------------------------------


def test_the_second_round_of_a_cooperative_change_is_no_change():
    sticky = {"protocol": "cooperative-sticky", "is_cooperative": True, "partitions": 10}
    made = rounds(
        {"started": 0, **sticky, "moved": None, "unowned_ms": 0},
        {"started": 1, **sticky, "cause": "member_rejoined", "moved": 2, "unowned_ms": 300},
        {
            "started": 2,
            "protocol": "range",
            "is_cooperative": False,
            "partitions": 10,
            "moved": 10,
            "unowned_ms": 9_000,
        },
        {"started": 3, "outcome": "superseded"},
    )
    sticky, eager = ask("cooperative_or_eager", rounds=made).to_pylist()
    assert (sticky["rounds"], sticky["changes"], sticky["rounds_per_change"]) == (2, 1, 2.0)
    assert (sticky["moved_share"], sticky["unowned_ms_per_change"]) == (0.2, 300.0)
    assert (eager["protocol"], eager["rounds"], eager["moved_share"]) == ("range", 1, 1.0)


# -- restarts and coordinators ---------------------------------------------------------------------


def test_the_proposed_session_outlasts_95_of_100_restarts():
    gaps = [*range(1_000, 96_000, 1_000), *[110_000] * 5]
    made = table(
        "sessions", *({"from": each, "away_ms": gap} for each, gap in enumerate(gaps)), {"from": 0}
    )
    found = only(ask("restart_gaps", sessions=made))
    assert (found["restarts"], found["p95_ms"], found["longest_ms"]) == (100, 95_000, 110_000)
    assert found["proposed_ms"] == 120_000  # a quarter above, in steps of five seconds
    assert found["within"] == pytest.approx(0.44)  # of 45 s: 1 to 44


def test_no_session_is_proposed_that_outlasts_an_outage():
    gaps = [*[20_000] * 10, *[1_100_000] * 5]
    made = table("sessions", *({"from": each, "away_ms": gap} for each, gap in enumerate(gaps)))
    found = only(ask("restart_gaps", sessions=made))
    assert (found["restarts"], found["outages"], found["within"]) == (10, 5, 1.0)
    assert (found["p95_ms"], found["longest_ms"], found["proposed_ms"]) == (20_000, 20_000, 25_000)
    later = only(registry.ask("restart_gaps", {"sessions": made}, outage_ms=1_100_000))
    # Whether minutes were a restart is unknown.
    assert (later["restarts"], later["unknown"], later["outages"]) == (10, 5, 0)
    gone = table("sessions", {"from": 0, "away_ms": 1_100_000})
    assert ask("restart_gaps", sessions=gone).num_rows == 0


def came(member, left, came, ended_by="member_left", **more):
    """A client that ran before, and came back under another id."""
    client = {"client_id": member, **more}
    before = {"member": f"{member}-{left}", "from": left - HOUR, "until": left}
    back = {"member": f"{member}+{came}", "from": came, "away_ms": came - left}
    return [client | before | {"ended_by": ended_by}, client | back]


def kinds(*lives):
    answered = ask("returns", sessions=table("sessions", *lives)).to_pylist()
    return [(row["client_id"], row["kind"]) for row in answered]


STAYS = [{"member": f"stays{each}", "from": -HOUR, "client_id": "stays"} for each in range(2)]


def test_members_that_come_and_go_together_were_scaled():
    lives = [
        row
        for each in range(4)
        for row in came(f"c{each}", HOUR + each * 1_000, HOUR + 8 * MINUTE + each * 2_000)
    ]
    answered = ask("returns", sessions=table("sessions", *STAYS, *lives)).to_pylist()
    assert {(row["kind"], row["together"], row["stayed"]) for row in answered} == {
        ("scaling", 4, 2)
    }
    gaps = ask("restart_gaps", sessions=table("sessions", *STAYS, *lives))
    assert gaps.num_rows == 0


def test_one_that_comes_back_after_minutes_may_be_either():
    assert kinds(*STAYS, *came("c", HOUR, HOUR + 8 * MINUTE)) == [("c", "unknown")]


def test_a_group_that_was_stopped_as_a_whole_was_not_scaled():
    lives = [*came("a", HOUR, HOUR + 8 * MINUTE), *came("b", HOUR, HOUR + 8 * MINUTE)]
    assert kinds(*lives) == [("a", "unknown"), ("b", "unknown")]


def test_one_that_crashed_and_is_back_before_it_is_removed_crashed():
    [before, back] = came("c", HOUR, HOUR + 5_000, "session_expired", session_timeout_ms=45_000)
    before |= {"until": HOUR + 45_000, "silent_ms": 45_000}
    assert kinds(*STAYS, before, back) == [("c", "crash")]


def test_members_that_vanished_together_crashed():
    lost = {"ended_by": "session_expired"}
    lives = [row for each in "ab" for row in came(each, HOUR, HOUR + 8 * MINUTE, **lost)]
    assert kinds(*STAYS, *lives) == [("a", "crash"), ("b", "crash")]


def test_members_restarted_one_after_the_other_were_deployed():
    lives = [
        row
        for each in range(3)
        for row in came(f"c{each}", HOUR + each * MINUTE, HOUR + each * MINUTE + 40_000)
    ]
    assert kinds(*STAYS, *lives) == [(f"c{each}", "deployment") for each in range(3)]
    row = only(ask("restart_gaps", sessions=table("sessions", *STAYS, *lives)))
    assert (row["restarts"], row["deployed"], row["crashes"]) == (3, 3, 0)


def test_one_that_comes_back_alone_was_restarted():
    assert kinds(*STAYS, *came("c", HOUR, HOUR + 40_000)) == [("c", "restart")]


def test_one_writer_after_another_is_sound():
    made = table(
        "epochs",
        {"epoch": 1, "node": 1, "first_offset": 0, "last_offset": 9},
        {"epoch": 4, "node": 2, "first_offset": 10, "last_offset": 19},
        {"epoch": 5, "node": None, "first_offset": 20, "last_offset": 29},
    )
    assert ask("split_brain", epochs=made).num_rows == 0


@pytest.mark.parametrize(
    ("second", "what"),
    [
        ({"epoch": 2, "node": 2, "first_offset": 9, "last_offset": 19}, "overlap"),
        ({"epoch": 0, "node": 2, "first_offset": 10, "last_offset": 19}, "went_back"),
        ({"epoch": 1, "node": 2, "first_offset": 10, "last_offset": 19}, "two_nodes"),
    ],
)
def test_two_writers_of_one_range_are_found(second, what):
    first = {"epoch": 1, "node": 1, "first_offset": 0, "last_offset": 9}
    assert only(ask("split_brain", epochs=table("epochs", second, first)))["what"] == what
    other = second | {"partition": 4}
    assert ask("split_brain", epochs=table("epochs", first, other)).num_rows == 0
