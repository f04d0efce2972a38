import pytest

from groupkeeper.analytics.questions import registry
from tests.analytics.questions.made import MINUTE, ask, only, rounds, since, table

SECOND = 1_000


def sessions(*rows):
    return table("sessions", *rows)


def refusals(*rows):
    return table("refusals", *({"first": row["time"]} | row for row in rows))


# -- zombies ---------------------------------------------------------------------------------------

GONE = {"from": 0, "until": 60 * SECOND, "ended_by": "session_expired"}


def test_requests_after_the_end_of_a_session_are_of_a_zombie():
    made = refusals(
        {"time": 70 * SECOND, "count": 2}, {"time": 90 * SECOND, "count": 3, "api": "OffsetCommit"}
    )
    answered = ask("zombies", sessions=sessions(GONE), refusals=made)
    found = only(answered)
    assert (found["member"], found["ended_by"]) == ("m", "session_expired")
    assert (found["refused"], found["refused_commits"], found["went_on_ms"]) == (5, 3, 30_000)
    assert found["apis"] == ["Heartbeat", "OffsetCommit"]
    assert since(answered, "removed") == [60 * SECOND]


@pytest.mark.parametrize(
    ("session", "refusal"),
    [
        (GONE, {"time": 59 * SECOND}),  # before its end
        (GONE, {"time": 70 * SECOND, "member": "another"}),
        ({"from": 0}, {"time": 70 * SECOND}),  # a member still
        (GONE, {"time": 70 * SECOND, "group": "other"}),
        (GONE | {"ended_by": "lost"}, {"time": 70 * SECOND}),  # with the coordinator
    ],
)
def test_other_refused_requests_are_of_none(session, refusal):
    assert ask("zombies", sessions=sessions(session), refusals=refusals(refusal)).num_rows == 0


def test_how_many_requests_make_a_zombie_is_a_parameter():
    tables = {"sessions": sessions(GONE), "refusals": refusals({"time": 70 * SECOND, "count": 2})}
    assert registry.ask("zombies", tables, least=2).num_rows == 1
    assert registry.ask("zombies", tables, least=3).num_rows == 0


# -- duels -----------------------------------------------------------------------------------------


def owners(*hosts, every=10 * SECOND, **more):
    """Sessions of one instance id, one after the other."""
    return [
        {
            "instance": "i",
            "member": f"m{number}",
            "host": host,
            "from": number * every,
            "until": (number + 1) * every,
            "began_as": "replaced" if number else "static",
            "ended_by": "replaced",
            **more,
        }
        for number, host in enumerate(hosts)
    ]


def test_an_instance_id_that_goes_back_and_forth_is_fought_over():
    made = refusals(
        {"time": 15 * SECOND, "instance": "i", "error": "FENCED_INSTANCE_ID", "count": 4},
        {"time": 15 * SECOND, "instance": "other", "error": "FENCED_INSTANCE_ID"},
        {"time": 5 * MINUTE, "instance": "i", "error": "FENCED_INSTANCE_ID"},
    )
    answered = ask("duels", sessions=sessions(*owners("a", "b", "a", "b")), refusals=made)
    found = only(answered)
    assert (found["replacements"], found["fenced"], found["is_stated"]) == (3, 4, False)
    assert found["hosts"] == ["a", "b"]
    assert since(answered, "from") + since(answered, "until") == [10 * SECOND, 30 * SECOND]


@pytest.mark.parametrize(
    "rows",
    [
        owners("a", "b"),  # it moved once
        owners("a", "b", "c"),  # and on
        owners("a", "a", "a"),  # restarts on one host
        owners("a", "b", "a", every=31 * SECOND),  # too slowly for two running clients
        [each | {"instance": f"i{number}"} for number, each in enumerate(owners("a", "b", "a"))],
    ],
)
def test_restarts_are_no_duel(rows):
    assert ask("duels", sessions=sessions(*rows)).num_rows == 0


def test_a_duel_on_one_host_is_told_by_client_ids_or_by_the_coordinator():
    first, *others = owners("a", "a", "a")
    names = [
        first | {"client_id": "x"},
        *(others[0] | {"client_id": "y"}, others[1] | {"client_id": "x"}),
    ]
    assert only(ask("duels", sessions=sessions(*names)))["clients"] == ["x", "y"]
    stated = [each | {"likely": "duel"} for each in owners("a", "a", "a")]
    assert only(ask("duels", sessions=sessions(*stated)))["is_stated"]


# -- flapping --------------------------------------------------------------------------------------


def lives(number, every=2 * MINUTE, length=MINUTE, **more):
    """Sessions of one client, each with a beginning and an end."""
    return [
        {
            "member": f"m{more.get('client_id', '')}{index}",
            "from": index * every,
            "until": index * every + length,
            "ended_by": "member_left",
            **more,
        }
        for index in range(number)
    ]


def test_six_changes_in_ten_minutes_are_flapping():
    answered = ask("flapping", sessions=sessions(*lives(3)))
    found = only(answered)
    assert (found["changes"], found["joins"], found["departures"]) == (6, 3, 3)
    assert (found["client_id"], found["ended_by"], found["median_ms"]) == (
        "c",
        "member_left",
        MINUTE,
    )
    assert since(answered, "until") == [5 * MINUTE]


@pytest.mark.parametrize(
    "rows",
    [
        lives(2),
        lives(3, every=5 * MINUTE),
        [*lives(2), *lives(2, client_id="d")],
        [*lives(2), *lives(2, host="h2")],
        [each | {"began_as": "unknown"} for each in lives(3)],
        [each | {"began_as": "loaded"} for each in lives(3)],
        [each | {"ended_by": "lost"} for each in lives(3)],
    ],
)
def test_fewer_changes_or_those_of_several_clients_are_none(rows):
    assert ask("flapping", sessions=sessions(*rows)).num_rows == 0


def test_many_members_of_one_process_that_restart_once_do_not_flap():
    first = [{"member": f"a{index}", "from": 0, "until": MINUTE} for index in range(10)]
    again = [{"member": f"b{index}", "from": 2 * MINUTE} for index in range(10)]
    assert ask("flapping", sessions=sessions(*first, *again)).num_rows == 0
    thrice = [
        {"member": f"c{each}", "from": each % 3 * 4 * MINUTE, "until": (each % 3 * 4 + 1) * MINUTE}
        for each in range(30)
    ]
    assert only(ask("flapping", sessions=sessions(*thrice)))["side_by_side"] == 10


def test_a_replacement_is_one_change():
    again = [
        {**each, "instance": "i", "began_as": "replaced", "ended_by": "replaced"}
        for each in lives(6, every=MINUTE)
    ]
    found = only(ask("flapping", sessions=sessions(*again)))
    assert (found["changes"], found["replacements"], found["side_by_side"]) == (6, 6, 1)
    assert found["ended_by"] is None
    assert ask("flapping", sessions=sessions(*again[:5])).num_rows == 0


def test_a_crashed_member_does_not_run_until_its_session_ends():
    crashed = [
        each | {"until": each["from"] + 3 * MINUTE, "silent_ms": 2 * MINUTE} for each in lives(4)
    ]
    assert only(ask("flapping", sessions=sessions(*crashed)))["side_by_side"] == 1


# -- refused commits -------------------------------------------------------------------------------

LATE = {"api": "OffsetCommit", "error": "ILLEGAL_GENERATION"}


def test_a_refused_commit_names_the_last_round_that_had_begun():
    made = rounds(
        {"started": 0, "generation": 4},
        {
            "started": MINUTE,
            "generation": 5,
            "cause": "member_joined",
            "by_client_id": "new",
            "offset": 77,
        },
        {"started": 3 * MINUTE, "generation": 6},
    )
    late = refusals({"time": 2 * MINUTE, **LATE, "offset": 99}, {"time": 2 * MINUTE})
    found = only(ask("refused_commits", rounds=made, refusals=late))
    assert (found["generation"], found["cause"], found["by"]) == (5, "member_joined", "new")
    assert (found["after_ms"], found["evidence"]) == (MINUTE, [99, 77])


def test_a_commit_of_a_removed_member_names_the_round_that_removed_it():
    made = rounds({"started": MINUTE, "generation": 5}, {"started": 3 * MINUTE, "generation": 6})
    late = refusals({"time": 4 * MINUTE, **LATE})
    gone = sessions({"from": 0, "until": MINUTE})
    assert (
        only(ask("refused_commits", rounds=made, refusals=late, sessions=gone))["generation"] == 5
    )


def test_a_refused_commit_without_a_round_is_listed():
    found = only(ask("refused_commits", refusals=refusals({"time": MINUTE, **LATE})))
    assert (found["refused"], found["cause"], found["after_ms"]) == (1, None, None)
