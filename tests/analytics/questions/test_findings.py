import re
from collections import defaultdict

import pyarrow as pa
import pytest

from groupkeeper.analytics import answering
from groupkeeper.analytics.answering import COLUMNS, FINDERS, answers
from groupkeeper.analytics.questions.finding import agreed, as_one, asked_of, percent, plain, times
from groupkeeper.protocol.group_event_words import CODES
from groupkeeper.why.sessions import session_above
from groupkeeper.why.texts import span
from tests.analytics.questions.made import DAY, HOUR, MINUTE, rounds, table
from tests.analytics.questions.test_committing import OWN, scene
from tests.analytics.questions.week import week


def found(question, **tables):
    return [
        each for each in answers(tables)["findings"].to_pylist() if each["question"] == question
    ]


def storm(cause="session_expired", number=42, at=0, **more):
    trigger = {"by_instance": "orders-3", "by_host": "10.0.0.7", "cause": cause, "unowned_ms": 500}
    return rounds(
        *(
            {"group": "billing", "started": at + each * 20_000, **trigger, **more}
            for each in range(number)
        )
    )


def session(**more):
    usual = {"group": "billing", "instance": "orders-3", "host": "10.0.0.7", "from": 0}
    ended = {"until": 60_000, "ended_by": "session_expired", "silent_ms": 12_000}
    return table("sessions", usual | ended | more)


USUAL = dict.fromkeys(("member", "instance", "client_id", "host", "cause", "likely", "lag")) | {
    "group": "g",
    "from": 0,
    "until": HOUR,
    "source": "events",
    "session_timeout_ms": None,
}
SILENT = {"member": "m", "ended": "commit", "ended_by": "session_expired", "partitions": 1} | {
    "silent_ms": 2 * HOUR,
    "others_minutes": 1,
    "session_timeout_ms": 90 * MINUTE,
}
GAPS = {"restarts": 3, "proposed_ms": 65_000, "within": 0.5, "static": 0, "outages": 0} | {
    "p95_ms": 50_000
}


def told(question, *rows, **others):
    """Findings in rows of an answer; `others` are rows of further answers."""
    answered = {question: rows} | {name: [row] for name, row in others.items()}
    answered = {name: [USUAL | row for row in some] for name, some in answered.items()}
    return [*FINDERS[question](answered)]


def test_a_time_that_is_not_known_is_said_so():
    assert times(None, None) == times(5, None) == "at an unknown time"


def test_a_storm_is_told_with_who_began_it_and_what_to_look_for():
    (row,) = found("storms", rounds=storm(), sessions=session(session_timeout_ms=10_000))
    assert row["sentence"] == (
        "Group 'billing' rebalanced 42 times between 2025-11-22 08:30 and 08:43, because 'orders-3'"
        " on 10.0.0.7 missed its session of 10 s (silent for 12 s). Find what ended or paused the"
        " process, or cut its network."
    )
    assert (row["config_key"], row["now"], row["proposed"]) == (None, None, None)
    assert (row["severity"], row["cost_s"]) == ("low", 21.0)
    assert row["evidence"] == list(range(20))


@pytest.mark.parametrize("is_known", [False, True])
def test_a_storm_is_never_said_to_be_all_right(is_known):
    timeouts = {"session_timeout_ms": 45_000, "rebalance_timeout_ms": 300_000} if is_known else {}
    made = [storm(code, group=code) for code in CODES]
    lives = [session(group=code, ended_by=code, **timeouts) for code in CODES]
    rows = found("storms", rounds=pa.concat_tables(made), sessions=pa.concat_tables(lives))
    assert {row["group"] for row in rows} == {*CODES}
    for sentence in (row["sentence"] for row in rows):
        assert "Nothing is wrong" not in sentence, sentence
        advice = re.split(r"because .*?\. (?=[A-Z])", sentence, maxsplit=1)[1]
        assert advice.endswith("."), sentence
        assert not advice.startswith("Those"), sentence


RESTARTED = dict.fromkeys(("rounds", "cause_rounds", "who_rounds"), 9) | {
    "unowned_ms": 0,
    "clients": 1,
    "client_id": "c",
}
COSTED = {"protocol_type": "consumer", "unread_ms": 90_000, "absent_ms": 30_000}
"""What a row needs for a setting to pass the gate."""


def test_a_dynamic_member_that_comes_back_needs_an_instance_id_first():
    back = RESTARTED | {"cause": "member_left", "likely": "shutdown", "away_ms": 70_000}
    (one,) = told("storms", back | COSTED)
    assert "It came back after 70 s. Set a group.instance.id for each member" in one.sentence
    assert one.setting["config_key"] == "group.instance.id"
    assert one.setting["proposed"] == "one for each member, with session.timeout.ms=90000"


def test_what_a_setting_would_save_has_to_be_known_and_to_be_enough():
    back = RESTARTED | {"cause": "member_left", "likely": "shutdown", "away_ms": 70_000}
    dear = COSTED | {"absent_ms": 100_000}
    for more, why in (
        ({}, "what it would save is not known."),
        (dear, "nobody read for 90 partition-seconds, and with group.instance.id and session"),
        (COSTED | {"protocol_type": "connect"}, "Kafka Connect has no group.instance.id."),
    ):
        (one,) = told("storms", back | more)
        assert f"It came back after 70 s. No setting is proposed: {why}" in one.sentence
        assert one.setting == {}


def test_a_poll_that_comes_too_late_is_a_matter_of_batches():
    late = session(ended_by="member_left", rebalance_timeout_ms=300_000)
    java = {"likely": "max_poll_exceeded", "by_software": "apache-kafka-java 4.1.0"}
    (row,) = found("storms", rounds=storm("member_left", **java), sessions=late)
    assert (row["config_key"], row["proposed"]) == ("max.poll.records", "250")
    (row,) = found("storms", rounds=storm("member_left", likely="max_poll_exceeded"), sessions=late)
    assert row["config_key"] is None
    assert row["sentence"].endswith("process less between two calls of poll.")


def test_a_zombie_is_told_with_the_time_that_it_was_away():
    refused = {"group": "billing", "member": "m", "api": "OffsetCommit", "count": 11}
    late = table("refusals", refused | {"first": 100_000, "time": 160_000})
    gone = session(session_timeout_ms=10_000)
    (row,) = found("zombies", refusals=late, sessions=gone)
    assert row["sentence"].startswith("'orders-3' on 10.0.0.7 went on for 100 s after group")
    assert "It was back 52 s after its last request" in row["sentence"]
    assert row["config_key"] is None
    assert row["severity"] == "high"


def test_a_single_heartbeat_that_was_on_its_way_is_no_finding():
    late = table("refusals", {"group": "billing", "member": "m", "time": 100_000, "count": 10})
    assert not found("zombies", refusals=late, sessions=session())


def test_a_setting_that_can_stay_is_none_to_change():
    late = session(silent_ms=40_000, session_timeout_ms=10_000)
    (row,) = found("storms", rounds=storm(), sessions=late)
    assert "the session of the member (10000 ms) can stay" in row["sentence"]
    assert (row["config_key"], row["now"], row["proposed"]) == (None, None, None)


def test_without_the_timeouts_of_a_client_no_number_is_made_up():
    (row,) = found("storms", rounds=storm())
    assert "A session.timeout.ms above a pause avoids the rebalance" in row["sentence"]
    assert row["config_key"] is None


def test_commits_of_zombies_are_told_once():
    refused = {"group": "billing", "api": "OffsetCommit", "time": 100_000}
    late = table("refusals", refused | {"member": "m"}, refused | {"member": "alive", "count": 3})
    (row,) = found("refused_commits", refusals=late, sessions=session())
    assert "refused 3 commits" in row["sentence"]


def test_a_client_without_work_is_counted_once_over_its_restarts():
    lives = [
        {"group": "g", "member": f"m{each}", "from": each * HOUR, "until": each * HOUR + HOUR - 1}
        for each in range(3)
    ]
    own = {"member": "busy", "from": 0, "until": 3 * HOUR}
    busy = own | {"group": "g", "client_id": "b"}
    tables = {"sessions": table("sessions", busy, *lives), "ownership": table("ownership", own)}
    (row,) = found("idle_members", **tables)
    assert row["sentence"].startswith(
        "1 client of group 'g' had nothing to do, 'c' on 10.0.0.1 for"
    )


def test_an_owner_that_died_needs_a_shorter_session():
    gone = {"member": "quiet", "from": 0, "until": 2 * HOUR, "ended_by": "session_expired"}
    gone |= {"silent_ms": 90 * MINUTE, "session_timeout_ms": 90 * MINUTE}
    (row,) = found("commit_silence", **scene(range(30, 120), sessions=table("sessions", gone)))
    assert row["sentence"].endswith(
        "It stopped sending, and kept its partitions until its session ended, after 90 min: "
        "others get them sooner with session.timeout.ms=45000 (45 s), or as long as a restart "
        "takes."
    )
    assert (row["now"], row["proposed"]) == ("5400000", "45000")


@pytest.mark.parametrize(
    ("restarts", "proposed_ms", "advised"),
    [
        (2, 20 * MINUTE, "=45000 (45 s), or"),
        (3, 20 * MINUTE, "=1200000 (20 min), which"),
        (3, 30_000, "=45000 (45 s), or"),
        (3, 90 * MINUTE, None),
    ],
)
def test_findings_of_one_group_agree_on_its_session_timeout(restarts, proposed_ms, advised):
    gaps = GAPS | COSTED | {"restarts": restarts, "proposed_ms": proposed_ms, "within": 0.0}
    (one,) = told("commit_silence", SILENT, restart_gaps=gaps)
    if advised is None:
        assert one.sentence.endswith("until its session ended.")
    else:
        assert f"session.timeout.ms{advised}" in one.sentence


@pytest.mark.parametrize("name", ["storms", "flapping"])
def test_a_silent_owner_gets_the_session_that_a_storm_asks_for(name):
    joined = dict.fromkeys(("cause", "ended_by"), "member_joined") | {"client_id": "m-1"}
    counts = dict.fromkeys(("rounds", "cause_rounds", "who_rounds", "changes"), 9)
    again = joined | counts | {"away_ms": 54_000, "session_timeout_ms": 45_000, "clients": 2}
    again |= {"unowned_ms": 0} | COSTED
    quiet = SILENT | {"client_id": "m-2"}
    for each in (*told(name, again), *told("commit_silence", quiet, **{name: again})):
        assert "session.timeout.ms=70000" in each.sentence


@pytest.mark.parametrize(("known", "price"), [(30_000, True), (90_000, False)])
def test_a_longer_session_has_its_price(known, price):
    row = GAPS | COSTED | {"session_timeout_ms": known}
    [one, alone, inferred] = (
        each.sentence
        for more in ({"outages": 2}, {}, {"source": "log"})
        for each in told("restart_gaps", row | more)
    )
    assert "restarted 3 times (beside 2 absences of more than 10 min), and 95 %" in one
    assert "restarted 3 times, and 95 % were back after 50 s. Set" in alone
    assert "95 % were back after at most 50 s. Set" in inferred
    assert ("A member that dies then keeps its partitions for" in one) is price


@pytest.mark.parametrize(
    ("commits", "words"),
    [
        (14, ": 14 commits refused between"),
        (2, ": 14 requests, 2 of them commits, refused between"),
        (0, ": 14 requests refused between"),
    ],
)
def test_refused_commits_of_a_zombie_are_counted_once(commits, words):
    row = {"member": "m", "went_on_ms": 5_000, "refused": 14, "refused_commits": commits}
    (one,) = told("zombies", row | {"ended_by": "replaced"})
    assert words in one.sentence


def test_what_a_storm_or_duel_is_about_is_not_told_again_as_flapping():
    own = {"group": "billing", "instance": "orders-3", "ended_by": "member_left"}
    lives = [own | lived(f"m{each}", each * MINUTE) for each in range(6)]
    assert found("flapping", sessions=table("sessions", *lives))
    assert not found("flapping", sessions=table("sessions", *lives), rounds=storm())


@pytest.mark.parametrize("cause", ["unknown", "a_new_code", None])
def test_causes_that_are_not_known_have_no_setting(cause):
    (row,) = found("storms", rounds=storm(cause, likely=None))
    assert (row["config_key"], row["proposed"]) == (None, None)


def test_the_worst_come_first_and_of_these_the_most_expensive_of_each_question():
    rows = answers(week())["findings"].to_pylist()
    order = ["critical", "high", "medium", "low", "info"]
    costs, ranks = defaultdict(list), []
    for each in rows:
        alike = costs[each["severity"], each["question"]]
        ranks.append((order.index(each["severity"]), len(alike)))
        alike.append(-(each["cost_s"] or 0))
    assert ranks == sorted(ranks)
    assert max(rank for _, rank in ranks) > 0
    assert all(each == sorted(each) for each in costs.values())
    assert len({each["id"] for each in rows}) == len(rows)


# -- what happens again ----------------------------------------------------------------------------


def test_storms_of_a_group_are_one_finding():
    often = [storm(at=day * DAY, by_instance=name) for day, name in enumerate("aba")]
    (row,) = found("storms", rounds=pa.concat_tables(often))
    assert row["sentence"].endswith(
        " It happened 3 times between 2025-11-22 08:30 and 2025-11-24 08:43, with 2 instance ids:"
        " also 'b'."
    )
    assert (row["times"], row["cost_s"]) == (3, 63.0)


def test_the_setting_of_several_findings_is_enough_for_all():
    rows = [
        RESTARTED | COSTED | {"cause": "member_left", "away_ms": away, "instance": name}
        for name, away in (("a", 70_000), ("b", 80_000), ("a", 60_000))
    ]
    one = as_one(told("storms", *rows))
    assert one.setting["proposed"] == "100000" == str(session_above(80_000))
    assert one.times == 3


def test_findings_of_a_group_agree_on_one_session_timeout():
    stormy = told("storms", RESTARTED | COSTED | {"cause": "member_left", "away_ms": 70_000})
    restarts = told("restart_gaps", GAPS | COSTED | {"proposed_ms": 420_000, "within": 0.0})
    asked = asked_of([*stormy, *restarts])["g"]
    one, other = (agreed(each, asked) for each in (*stormy, *restarts))
    assert other.setting["proposed"] == "one for each member, with session.timeout.ms=420000"
    assert one.setting["proposed"] == other.setting["proposed"]
    assert "session.timeout.ms=90000 (90 s)" in one.sentence
    assert one.sentence.endswith(
        " Other findings of this group ask for session.timeout.ms=420000 (7 min): that is enough"
        " here."
    )
    assert "Other findings" not in other.sentence


def test_a_finding_that_is_told_with_a_worse_one_is_heard_of():
    """Its client needs a longer session, though it did less harm."""
    gone = {"ended_by": "session_expired", "session_timeout_ms": 10_000, "went_on_ms": 9_000}
    often, seldom = (
        gone | COSTED | {"instance": name, "refused": number, "refused_commits": number}
        for name, number in (("often", 20), ("seldom", 2))
    )
    zombies = told("zombies", often | {"away_ms": 52_000}, seldom | {"away_ms": 860_000})
    one = agreed(as_one(zombies), asked_of(zombies)["g"])
    assert one.severity == "high"
    assert one.sentence.startswith("'often' went on for")
    asked = re.search(r"ask for session\.timeout\.ms=(\d+)", one.sentence)
    assert asked
    assert one.setting["proposed"] == asked[1]
    assert int(asked[1]) > 840_000


def test_many_clients_of_a_finding_are_counted():
    often = [storm(at=day * DAY, by_instance=f"c{day}") for day in range(6)]
    (row,) = found("storms", rounds=pa.concat_tables(often))
    assert row["sentence"].endswith("with 6 instance ids: also 'c1', 'c2', 'c3' and 2 more.")


def test_names_of_clients_are_no_advice():
    evil = "evil session.timeout.ms=86400000"
    made = [storm(by_instance=evil), storm("unknown", at=DAY, by_instance=evil, likely=None)]
    lives = session(instance=evil, session_timeout_ms=10_000)
    rows = found("storms", rounds=pa.concat_tables(made), sessions=lives)
    assert {row["proposed"] for row in rows} == {None}
    assert not [row for row in rows if "Other findings" in row["sentence"]]


def test_commits_that_were_refused_for_an_unknown_reason_get_no_advice():
    late = table(
        "refusals", {"group": "billing", "api": "OffsetCommit", "time": 5_000, "count": 12}
    )
    (row,) = found("refused_commits", refusals=late)
    assert row["sentence"].endswith(": the rebalance that made them invalid was not read.")
    assert "max.poll" not in row["sentence"]


@pytest.mark.parametrize(
    ("source", "cost"), [("events", " cost 70 s"), ("log", " cost up to 70 s")]
)
def test_time_without_an_owner_is_an_upper_limit_without_events(source, cost):
    row = {"protocol": "range", "is_cooperative": False, "changes": 3, "unowned_ms": 70_000}
    (one,) = told("cooperative_or_eager", row | {"source": source})
    assert cost in one.sentence
    assert one.severity == ("medium" if source == "events" else "low")


def test_what_only_commits_tell_is_an_upper_limit():
    back = session(instance=None, client_id="c", away_ms=70_000, ended_by="member_left")
    client = {"by_instance": None, "by_client_id": "c", "likely": "shutdown", "source": "log"}
    (row,) = found("storms", rounds=storm("member_left", **client), sessions=back)
    assert "It came back after at most 70 s." in row["sentence"]


def test_a_rebalance_that_nothing_explains_is_told_in_plain_words():
    nobody = {"by_instance": None, "by_client_id": None, "by_host": None, "likely": None}
    (row,) = found("storms", rounds=storm("unknown", **nobody))
    assert "08:43, for a reason that the log does not show. Group events" in row["sentence"]
    rate = found("rebalance_rate", rounds=hourly("unknown", **nobody))
    assert "times for a reason that the log does not show. Group" in rate[0]["sentence"]


def hourly(cause, **more):
    often = {"group": "billing", "cause": cause, **more}
    return rounds(*({**often, "started": each * HOUR} for each in range(24)))


def test_a_client_that_was_idle_over_restarts_is_told_for_all_of_its_time():
    row = {"instance": "a", "client_id": "c", "host": "10.0.0.1", "until": 9 * HOUR, "share": 1.0}
    row |= {"idle_ms": 9 * HOUR}
    later = row | {"from": 10 * HOUR, "until": 15 * HOUR, "idle_ms": 5 * HOUR}
    other = row | {"instance": "b", "idle_ms": 10 * HOUR}
    (one,) = told("idle_members", later, other, row)
    assert one.sentence.startswith("2 clients of group 'g' had nothing to do, 'a' on 10.0.0.1 for")
    assert "for 14 h." in one.sentence
    assert (one.row["from"], one.row["until"]) == (0, 9 * HOUR)  # the longest of these times


def test_a_finding_that_is_met_again_keeps_its_id():
    (once,) = found("storms", rounds=storm())
    (again,) = found("storms", rounds=pa.concat_tables([storm(), storm(at=DAY, number=90)]))
    assert again["id"] == once["id"]
    (other,) = found("storms", rounds=storm(group="orders"))
    assert other["id"] != once["id"]


def test_storms_with_other_causes_and_no_setting_are_told_apart():
    made = [storm("unknown", likely=None), storm("operator", at=DAY, likely=None)]
    rows = found("storms", rounds=pa.concat_tables(made))
    assert [(row["config_key"], row["times"]) for row in rows] == [(None, 1), (None, 1)]


def test_what_was_inferred_is_told_apart():
    made = [storm(), storm(at=DAY, source="log", confidence=0.7)]
    rows = found("storms", rounds=pa.concat_tables(made))
    assert {(row["source"], row["confidence"]) for row in rows} == {("events", 1.0), ("log", 0.7)}


def test_duels_of_a_group_are_one_finding():
    row = {"instance": "a", "until": MINUTE, "replacements": 4, "hosts": ["10.0.0.1", "10.0.0.2"]}
    other = row | {"instance": "b", "from": HOUR, "until": 2 * HOUR}
    one = as_one(told("duels", row, other))
    assert "instance.id 'b'" in one.sentence  # the longer one
    assert one.sentence.endswith(", with 2 instance ids: also 'a'.")


def test_who_held_up_a_group_is_one_finding():
    row = {"client_id": "c", "held": 3, "held_ms": 9_000, "share": 0.5}
    row |= dict.fromkeys(("longest_ms", "longest_join_ms"), 3_000)
    late = row | {"client_id": "late", "held_ms": 5_000, "longest_join_ms": 50_000}
    rarely = row | {"held": 2}
    (one,) = told("barrier", row, late, row | {"client_id": "d"}, rarely)
    assert one.sentence.startswith("'late' held up 3 rebalances")
    assert "at most. So did 2 other clients. " in one.sentence
    assert one.sentence.endswith("process less between two calls of poll.")
    (java,) = told("barrier", late | {"software": "apache-kafka-java 4.1.0", "partitions": 6})
    assert java.setting["config_key"] == "max.poll.records"
    (alone,) = told("barrier", row)
    assert alone.sentence.endswith("for 9.0 s in all, 3.0 s at most.")
    assert not told("barrier", rarely)


def test_a_silence_of_which_it_is_unknown_whether_anything_was_to_be_read_is_no_alarm():
    own = [row | {"until": None} for row in OWN]
    covered = table("coverage", {"log": "__consumer_offsets", "until": 2 * HOUR})
    tables = scene(range(30, 120)) | {"ownership": table("ownership", *own), "coverage": covered}
    (row,) = found("commit_silence", **tables)
    assert (row["severity"], row["cost_s"]) == ("info", None)
    assert row["sentence"].endswith("Or there was nothing to read: its lag is unknown.")


@pytest.mark.parametrize(
    ("until", "severity", "words"),
    [
        (2 * HOUR, "medium", " of these minutes; then it lost them. 7 records waited for it. Look"),
        (None, "high", "; at the end of the log it still had not. 7 records waited for it. Look"),
    ],
)
def test_a_silence_that_goes_on_is_worse_than_one_that_lost_its_partitions(until, severity, words):
    own = [row | {"until": until} for row in OWN]
    covered = table("coverage", {"log": "__consumer_offsets", "until": 2 * HOUR})
    tables = scene(range(30, 120)) | {"ownership": table("ownership", *own), "coverage": covered}
    waits = table("lag", {"time": 29 * MINUTE + 50_000, "lag": 7, "lag_ms": 9, "end_offset": 9})
    (row,) = found("commit_silence", **tables, lag=waits)
    assert row["severity"] == severity
    assert words in row["sentence"]


def test_names_from_a_log_are_printable_and_cut():
    made = storm(group="\x1b[31m" + "x" * 32_767, by_instance="\u202e" + "y" * 1_000)
    (row,) = found("storms", rounds=made)
    assert row["sentence"].isprintable()
    assert len(row["sentence"]) < 600


def test_an_empty_analysis_has_no_findings():
    assert answers({})["findings"].num_rows == 0
    assert answers({})["findings"].column_names == [each.name for each in COLUMNS]


# -- every number ----------------------------------------------------------------------------------


def many():
    """Tables in which every question has something that is worth a finding."""
    tables = week()
    eager = {"is_cooperative": False, "unowned_ms": 50_000, "join_ms": 20_000}
    again = [row | eager for row in tables["rounds"].to_pylist()]
    tables["rounds"] = pa.Table.from_pylist(again, tables["rounds"].schema)
    unstable = {"group": "skewed", "started": 0, "ended": HOUR}
    usual = {"group": "billing", "ended_by": "session_expired"}
    more = {
        "rounds": [unstable],
        "sessions": [
            *(usual | lived(f"r{each}", each * HOUR, away_ms=50_000 + each) for each in range(5)),
            *(usual | lived(f"f{each}", each * MINUTE, client_id="f") for each in range(7)),
            *({"group": "skewed", "member": name, "until": HOUR} for name in ("hog", "idle")),
            {"group": "scaled", "member": "stays", "from": 0},
            *(
                {"group": "scaled", "member": f"s{each}", "from": HOUR + each, "away_ms": 500_000}
                for each in range(2)
            ),
        ],
        "ownership": [
            {"group": "skewed", "topic_partition": each, "member": "hog", "from": 0, "until": HOUR}
            for each in range(4)
        ]
        + [{"group": "skewed", "is_owned": False, "from": HOUR, "until": HOUR + 10_000}],
        "refusals": [
            {"group": "skewed", "member": "hog", "api": "OffsetCommit", "time": 5, "count": 3}
        ],
        "lag": [{"group": "late", "time": 50 * MINUTE, "lag": 70, "lag_ms": 700_001}],
    }
    return tables | {
        name: pa.concat_tables([tables[name], table(name, *rows)]) for name, rows in more.items()
    }


def lived(member, start, **more):
    return {"member": member, "from": start, "until": start + 30_000, **more}


def texts_of(row):
    """What the values of a row look like in a sentence."""
    for value in row.values():
        if isinstance(value, bool) or value is None:
            continue
        if isinstance(value, list):
            yield from map(str, value)
        elif isinstance(value, int):
            yield from (str(value), span(abs(value)))
        elif isinstance(value, float):
            yield from (percent(value), f"{value:.1f}", f"{value:.0f}")
        elif isinstance(value, str):
            yield plain(value)


def numbers(text):
    return set(re.findall(r"\d+(?:[.:-]\d+)*", text))


ALSO = {"rebalance_rate": ("causes",), "idle_members": ("not_stable",)}
"""Other answers that a sentence takes a number from."""
SEVERAL = ("refused_commits", "rhythm_steps", "idle_members", "returns")
"""Their findings are about all rows of a group, others about one row."""


def test_every_number_of_a_sentence_is_in_its_answer_or_its_advice():
    tables = many()
    answered = answers(tables)
    listed = answered["findings"].to_pylist()
    missing = set(answering.FINDERS) - {each["question"] for each in listed}
    assert not missing, (
        f"let the tables of `many` have a finding of {missing}; WORTH keeps its rows out?"
    )
    for each in listed:
        question = each["question"]
        start, end = (
            each[name] and round(each[name].timestamp() * 1000) for name in ("from", "to")
        )
        about = [
            row
            for name in (question, *ALSO.get(question, ()))
            for row in answering._rows(answered[name])
            if row.get("group") == each["group"]
            and (name != question or question in SEVERAL or row["from"] == start)
        ]
        known = {"95 %", *([times(start, end)] if start is not None else [])}
        known |= {text for row in about for text in texts_of(row)}
        known |= _sums(about) | {each["proposed"] or "", _advice(each["sentence"])}
        strange = numbers(each["sentence"]) - set().union(*map(numbers, known))
        assert not strange, (strange, each["sentence"])


def _sums(rows):
    """Numbers of findings that are about several rows."""
    refused = sum(row.get("refused") or 0 for row in rows)
    return {str(refused), str(len(rows)), str(sum(row.get("share", 0) > 0.5 for row in rows))}


def _advice(sentence):
    """From the first setting on: what `groupkeeper why` proposes, tested there."""
    return (
        sentence[match.start() :]
        if (match := re.search(r"where max.poll|[a-z.]+=\d", sentence))
        else ""
    )
