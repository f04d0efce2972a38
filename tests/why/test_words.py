"""Rounds in words: every cause has its sentence, with its evidence and what to look for."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from groupkeeper.history.alike import ALIKE_MS
from groupkeeper.history.rounds import Round
from groupkeeper.protocol.group_event_words import CODES, LIKELY
from groupkeeper.protocol.group_events import Event
from groupkeeper.why.advice import advice
from groupkeeper.why.lines import line
from groupkeeper.why.texts import settings_in
from groupkeeper.why.words import headline, paragraph, trigger
from tests.support.told_events import Told, cause, who

JAVA = {"name": "apache-kafka-java", "version": "4.1.0"}
POD = who(
    "billing-433ad937-7a31-4ef4-bd23-156bd0e5fd80",
    instance="pod-3",
    software=JAVA,
    host="/10.0.0.7",
)


POLL = {"rebalance_timeout_ms": 300_000}
SAME = {"same_connection": True, "away_ms": 2_000}
DUEL = {"replacements": 4, "within_ms": 20_000, "hosts": ["/10.0.0.7", "/10.0.0.9"]}


def round_of(why: dict[str, Any], **fields: Any) -> Round:
    """A round of three members with this cause."""
    told = Told()
    told.started(why, **fields)
    told.at(3_000).joined(("m1", 40), ("m3", 60))
    told.completed()
    [only] = told.rounds()
    return only


TEST = who("", client_id="the.test")


def expired(member: dict[str, Any], ms: int = 10_000, **evidence: Any) -> dict[str, Any]:
    """A session of this length in which nothing came."""
    return cause(
        "session_expired", member, **{"silent_ms": ms, "session_timeout_ms": ms} | evidence
    )


def test_words_of_java_that_give_no_reason_are_left_out() -> None:
    joins = cause("member_joined", POD)
    again = "need to re-join with the given member-id: billing-1"
    assert "It said" not in paragraph(round_of(joins | {"reason": again}))
    assert 'It said: "deploy".' in paragraph(round_of(joins | {"reason": "deploy"}))


def test_every_code_has_its_sentence() -> None:
    for code in CODES:
        text = trigger(round_of(cause(code, POD)))
        assert "which this command does not know" not in text and text.endswith("."), code


def test_every_advice_is_a_sentence_and_proposes_no_setting_whose_cost_is_unknown() -> None:
    free = {"max.poll.records", "heartbeat.interval.ms", "group.max.size", "message.max.bytes"}
    for code, likely in product(CODES.keys(), (None, *sorted(LIKELY))):
        why = cause(code, POD, likely=likely, silent_ms=9_000, rebalance_timeout_ms=9_000)
        for lost_ms in (None, 1_000, 120_000):
            lost = {"returned_ms": lost_ms, "away_ms": lost_ms}
            text = advice(replace(round_of(why), **lost))
            assert text.endswith(".") and "None" not in text, text
            assert {name for name, _ in settings_in(text)} <= free, text


@pytest.mark.parametrize(
    ("why", "fields", "said"),
    [
        (cause("operator"), {}, ["Nothing is wrong; no setting avoids it."]),
        (
            cause(
                "seat_expired",
                POD,
                silent_ms=70_000,
                session_timeout_ms=10_000,
                reserved_ms=60_000,
                partitions=4,
                lost_by="session_expired",
            ),
            {},
            [
                (
                    "was lost, and nobody came back for it: its 4 partitions stood still for 70 s, "
                    "60 s of it reserved."
                ),
                "Nothing is wrong if it ended for good",
            ],
        ),
        (
            cause("seat_expired", POD, session_timeout_ms=10_000, reserved_ms=60_000),
            {"returned_ms": 95_000},
            [
                (
                    "It came back 95 s after its last request: "
                    "classic.scheduled.rebalance.max.delay.ms of the group would have had to be "
                    "longer than 85000"
                )
            ],
        ),
        (
            cause("window_over", newcomers=4, waited_ms=11_000),
            {},
            ["4 newcomers got partitions after 11 s, together."],
        ),
        (
            cause("expected_complete", newcomers=4, waited_ms=11_000),
            {},
            ["All members that were expected had come after 11 s, and got partitions together."],
        ),
        (
            cause("expected_missing", newcomers=3, waited_ms=60_000, missing=["pod-3"], count=1),
            {},
            ["pod-3 had not come after 60 s; the other members got partitions.", "Start those"],
        ),
        (
            cause("topics_changed", topic="orders", partitions_before=6, partitions_now=12),
            {},
            ["orders has 12 partitions, not 6, which the coordinator noticed."],
        ),
        (
            cause("policy_changed", active=3, wanted=2),
            {},
            ["A config of the group was changed: 2 members get partitions, not 3."],
        ),
        (
            cause("seat_revoked", revoked=3),
            {},
            ["took 3 partitions from a lost member, whose place is reserved"],
        ),
        (
            cause("seat_revoked", POD, revoked=1),
            {},
            ["took 1 partition from the process before ", "which did not live to give them up"],
        ),
        (
            cause("operator", TEST) | {"reason": "deploy"},
            {},
            ['An operator forced it: the.test (on 10.0.0.7). It said: "deploy".'],
        ),
        (
            cause("member_joined", POD),
            {"more_causes": [cause("operator", TEST)]},
            ["the.test forced a rebalance"],
        ),
        (
            expired(who(), connection="closed"),
            {},
            ["Look for a crash or a kill on 10.0.0.7 soon after 2025-11-22 11:59:50.000Z"],
        ),
        (
            expired(POD, connection="closed"),  # perhaps closed by somebody
            {},
            [
                ". Nothing is wrong if it was stopped: a member with a group.instance.id",
                "`groupkeeper groups remove-members`",
                "If it was not stopped, look for a crash or a kill on 10.0.0.7 soon after",
            ],
        ),
        (
            expired(who(), 6_000, silent_ms=38_000, connection="open"),
            {},
            [
                "The coordinator noticed 32 s late: it or its machine stood still.",
                "Find what stopped the coordinator or its machine for 32 s;",
                "the session of the member (6000 ms) can stay.",
            ],
        ),
        (
            expired(who(), 1_800_000, connection="open"),
            {},
            ["2 of 4 partitions moved. Find what paused the process or cut its network."],
        ),
        (
            expired(POD, connection=None),
            {},
            [
                "nothing came from it since the coordinator was loaded 10 s before",
                "or it gave up its place before 2025-11-22 11:59:50.000Z",
            ],
        ),
        (
            cause("session_expired", POD, session_timeout_ms=10_000, connection="closed"),
            {"returned_ms": 9_800},
            [
                "It was back 9.8 s after its last request.",
                "No setting is proposed: what it would save is not known.",
            ],
        ),
        (
            cause("join_timeout", POD, rebalance_timeout_ms=10_000),
            {},
            ["2 of 4 partitions moved. Find what ended or paused the process."],
        ),
        (
            expired(who(), 6_000, heartbeats=1, heartbeat_interval_ms=2_000),
            {},
            ["It sent 1 heartbeat before, after 2.0 s."],
        ),
        (
            cause("session_expired", POD, session_timeout_ms=6_000, heartbeat_interval_ms=5_000),
            {},
            ["heartbeat.interval.ms=2000"],
        ),
        (
            cause("member_left", POD, likely="max_poll_exceeded", idle_ms=310_000, **POLL),
            {},
            [
                "its application probably did not call poll in time, 5 min 10 s after its last",
                "If it was not closed, a batch took longer than max.poll.interval.ms",
                "Let the application process less between two calls of poll.",
            ],
        ),
        (
            cause(
                "member_joined", POD, likely="max_poll_exceeded", idle_ms=310_000, **POLL, **SAME
            ),
            {},
            [
                " came back on the same connection 2.0 s after it left: its application did not",
                "call poll in time.",
                "A batch took longer than max.poll.interval.ms (300000 for this member)",
            ],
        ),
        (
            cause("member_joined", POD, **SAME),
            {},
            [
                " came back on the same connection 2.0 s after it left.",
                "It was not restarted: its application unsubscribed and subscribed again.",
            ],
        ),
        (
            cause("static_member_returned_unready", POD, likely="duel", **DUEL),
            {},
            ["(10.0.0.7 and 10.0.0.9)", "4 times within 20 s"],
        ),
        (
            cause("member_left", POD, reason="bye\n\x1b[31mround 9\u202e") | {"reason_cut": True},
            {},
            ['It said: "bye [31mround 9...".'],
        ),
        (
            cause("moon_phase", POD),
            {},
            ["The cause is moon_phase, which this command does not know.", "update it"],
        ),
    ],
)
def test_a_cause_is_told_with_its_evidence_and_advice(
    why: dict[str, Any], fields: dict[str, Any], said: list[str]
) -> None:
    text = paragraph(replace(round_of(why), **fields))
    assert [each for each in said if each not in text] == [], text


def lost_and_back(gone: dict[str, Any], after_ms: int, back: dict[str, Any]) -> list[Round]:
    """A round in which a member is lost, and one in which it comes back."""
    told = Told()
    told.tell("member_removed", who=gone["who"], cause=gone)
    told.started(gone)
    told.completed()
    told.at(after_ms).tell(
        "member_joined", who=back, kind="static" if back["instance"] else "dynamic"
    )
    told.started(cause("static_member_joined" if back["instance"] else "member_joined", back))
    told.completed()
    return told.rounds()


def test_a_member_that_came_back_was_away_for_a_time() -> None:
    left = cause("member_left", POD, likely="shutdown", reason="the consumer is being closed")
    short = cause("member_left", who(), session_timeout_ms=45_000)
    paused = expired(who(), connection="open")
    for gone, after_ms, back, lost, came in (
        (left, 70_000, POD, "It came back after 70 s.", "it came back after 70 s."),
        (short, 2_000, who("m9"), "It came back after 2.0 s.", "It was away for 2.0 s."),
        (paused, 4_000, who(), "It was back 14 s after", "It was paused or cut off for 14 s: find"),
    ):
        first, second = lost_and_back(gone, after_ms, back)
        assert lost in advice(first) and came in advice(second)
    first, second = lost_and_back(left, 70_000, POD)
    assert 'It said: "the consumer is being closed".' in paragraph(first)
    assert "A client of this name was lost 70 s before." in paragraph(second)


def test_a_member_that_left_without_a_word_may_have_polled_too_late() -> None:
    first, _ = lost_and_back(cause("member_left", who()), 4_000, who())
    words = "If it was not restarted, its log says whether its application called poll"
    assert words in advice(first)


def test_the_time_without_consumption_depends_on_the_assignor() -> None:
    for protocol, took, said in (
        ("cooperative-sticky", {"duration_ms": 1_400}, "The rebalance took 1.4 s; partitions that"),
        ("stream", {"duration_ms": 1_400, "kept": True}, "The rebalance took 1.4 s; partitions"),
        ("cooperative-sticky", {"kept": False}, "Consumption stood still for less than 1 ms."),
        ("range", {}, "Consumption stood still for less than 1 ms."),
    ):
        told = Told()
        told.started(cause("member_joined", who()))
        told.joined(("m1", 5), ("m2", 9), protocol=protocol)
        told.completed(unassigned_ms=0, **took)
        [only] = told.rounds()
        assert said in paragraph(only)


def test_an_expired_session_of_a_paused_process() -> None:
    why = cause(
        "session_expired",
        POD,
        likely="crash_or_network",
        silent_ms=12_000,
        session_timeout_ms=10_000,
        heartbeats=40,
        heartbeat_interval_ms=3_000,
        connection="open",
    )
    told = Told()
    told.tell("member_removed", who=POD, cause=why)
    told.started(why)
    told.at(3_000).joined(("m1", 40), ("m3", 2_900))
    told.completed()
    [only] = told.rounds()
    assert headline(only) == "2025-11-22 12:00:00.000Z  rebalance to generation 1, 3.0 s"
    assert paragraph(only) == (
        "pod-3 (member billing-433ad937, on 10.0.0.7, apache-kafka-java 4.1.0) was removed: its "
        "last heartbeat came 12 s before, and its session.timeout.ms is 10000. Before, 40 "
        "heartbeats came every 3.0 s. Its connection was still open: probably the process stood "
        "still, or its network was cut. Last to join was m3, 2.9 s after the start, 2.9 s behind "
        "the one before. Consumption stood still for up to 3.0 s. The partitions of pod-3 were not "
        "consumed for 15 s. 2 of 4 partitions moved. Find what paused the process or cut its "
        "network."
    )


def restarted(outage_ms: int, *, stopped: bool, anew: bool) -> tuple[Event, Round]:
    """A coordinator that was away for so long, and a member with a session of 10 s not back. With
    `anew` its client joins as a new one.
    """
    told = Told()
    told.tell("group_created", who=who())
    if stopped:
        told.tell("coordinator_closed", why="stopped")
    told.at(outage_ms).tell("coordinator_loaded", records=1, groups=1, members=1, duration_ms=5)
    gone = cause(
        "session_expired", who(), silent_ms=10_000, session_timeout_ms=10_000, connection=None
    )
    if anew:
        told.tell("member_joined", who=who("m2"), kind="dynamic")
        told.started(cause("member_joined", who("m2")))
        told.added(gone)
        told.during("member_removed", who=who(), cause=gone)
    else:
        told.tell("member_removed", who=who(), cause=gone)
        told.started(gone)
    told.completed()
    *_, loaded, round_ = told.entries()
    assert isinstance(loaded, Event) and isinstance(round_, Round)
    return loaded, round_


def test_a_coordinator_that_was_away_for_longer_than_a_session_is_named() -> None:
    loaded, round_ = restarted(250_000, stopped=True, anew=False)
    assert line(loaded).endswith("; before, the coordinator was closed for 4 min 10 s")
    assert "The coordinator was closed for 4 min 10 s before the load, and 1" in paragraph(round_)
    assert advice(round_) == (
        "The coordinator was away for 4 min 10 s, longer than the session of 10 s: the client gave "
        "its place up, or its process ended meanwhile. Start the coordinator within 10 s to avoid "
        "it."
    )


def test_clients_that_join_anew_after_an_outage_are_not_taken_for_added_members() -> None:
    _, round_ = restarted(30_000, stopped=True, anew=True)
    assert advice(round_) == (
        "The coordinator was away for 30 s, longer than the session of 10 s, so clients gave their "
        "places up and joined anew. Start the coordinator within 10 s to avoid it."
    )


def test_of_a_coordinator_that_was_killed_only_the_last_event_is_known() -> None:
    loaded, round_ = restarted(30_000, stopped=False, anew=True)
    assert line(loaded).endswith("; before, no event was stored for 30 s")
    assert "No event was stored for 30 s before the load, and 1 member did not" in paragraph(round_)
    assert advice(round_) == (
        "Clients joined anew: if they were not restarted, the coordinator was away for longer than "
        "their session of 10 s, and they gave their places up. Start the coordinator within 10 s "
        "to avoid it."
    )


@pytest.mark.parametrize(("outage_ms", "stopped"), [(2_000, True), (30_000, False)])
def test_a_coordinator_that_perhaps_was_away_shortly_is_not_blamed(
    outage_ms: int, stopped: bool
) -> None:
    _, round_ = restarted(outage_ms, stopped=stopped, anew=False)
    assert "before the load" not in paragraph(round_)
    assert advice(round_).startswith("Look whether it ended on 10.0.0.7; or it gave up its place")


def test_an_outage_does_not_hide_what_else_began_a_rebalance() -> None:
    _, round_ = restarted(30_000, stopped=True, anew=True)
    round_ = replace(round_, cause=cause("group_shrunk", limit=2))
    assert "group.max.size" in advice(round_)


def test_a_group_that_emptied_did_not_rebalance_for_0_ms() -> None:
    told = Told()
    told.started(cause("member_left", who()))
    told.tell("rebalance_abandoned", round_=1, why="emptied")
    [only] = told.rounds()
    assert headline(only).endswith("rebalance to generation 0: no member is left")


def test_rounds_of_two_loads_are_told_apart_by_generation() -> None:
    told = Told()
    for epoch in (1, 2):
        told.epoch, told.round = epoch, 0
        told.tell("coordinator_loaded", records=1, groups=1, members=1, duration_ms=5)
        told.started(cause("member_joined", who()))
        told.joined(("m1", 5))
        told.completed()
    first, second = told.rounds()
    assert (first.epoch, first.round) == (1, 1) and (second.epoch, second.round) == (2, 1)
    assert "rebalance to generation 1," in headline(first)
    assert "rebalance to generation 2," in headline(second)


def test_a_rebalance_without_a_new_generation_is_after_the_last() -> None:
    told = Told()
    told.generation = 4
    told.started(cause("member_joined", who()))
    told.at(500).tell("coordinator_closed", why="stopped")
    assert headline(told.rounds()[0]).endswith("rebalance after generation 4, 500 ms")


def test_members_without_partitions_are_counted_apart() -> None:
    told = Told()
    told.started(cause("member_joined", who()), from_state="Empty")
    told.joined(("m1", 5), ("m2", 9), ("m3", 9))
    plan = [{"member": each, "instance": None, "partitions": {}} for each in ("m2", "m3")]
    first = {"member": "m1", "instance": None, "partitions": {"orders": [0]}}
    told.completed(assignment=[first, *plan])
    [only] = told.rounds()
    assert "1 partition went to 1 of 3 members." in paragraph(only)
    assert "joined the empty group, and 2 more during the rebalance." in paragraph(only)


def test_who_held_a_round_up_is_told_beside_its_cause() -> None:
    slow = cause(
        "join_timeout",
        who("m2"),
        likely="slow_member",
        waited_ms=60_000,
        rebalance_timeout_ms=60_000,
    )
    told = Told()
    told.started(cause("member_joined", POD))
    told.at(60_000).during("member_removed", who=who("m2"), cause=slow)
    missing = {"member": "m2", "instance": None, "removed": True}
    told.joined(("m1", 40), ("m4", 60), missing=[missing], duration_ms=60_000)
    told.completed(duration_ms=60_010)
    [only] = told.rounds()
    text = paragraph(only)
    assert "joined as a new member." in text
    assert "m2 had not rejoined after 60 s." in text
    assert "About m2: its heartbeats came, but its application did not come back to poll" in text
    assert text.endswith("Let the application process less between two calls of poll.")


@pytest.mark.parametrize(
    ("software", "said"),
    [
        (JAVA, "Set max.poll.records=100 (where it is 500 now)."),
        (None, "Let the application process less between two calls of poll."),
        ({"name": "librdkafka", "version": "2.16.0"}, "Let the application process less"),
    ],
)
def test_a_batch_that_took_long_asks_for_smaller_ones_where_that_is_a_setting(
    software: dict[str, str] | None, said: str
) -> None:
    told = Told()
    for name in ("m1", "m2"):
        told.tell("member_joined", who=who(name, software=software), kind="dynamic")
    told.started(cause("member_joined", POD))
    told.joined(("m1", 40), ("m2", 25_000))
    told.completed()
    [only] = told.rounds()
    assert "rejoined after 25 s: its application probably came back to poll late." in advice(only)
    assert said in advice(only)


def joined_one_by_one(first_state: str) -> str:
    """The advice after the last of three rounds for new members."""
    told = Told()
    for at in (0, 5_000, 9_000):
        told.at(at).started(
            cause("member_joined", who(f"m{at}")), from_state="Stable" if at else first_state
        )
        told.joined(("m1", 40), ("m3", 60))
        told.completed()
    return advice(told.rounds()[-1])


def test_members_that_start_one_by_one() -> None:
    text = joined_one_by_one("Empty")
    assert "rebalance 3 in a row" in text and "delay" not in text  # waiting would cost more


def test_members_that_are_added_one_by_one() -> None:
    text = joined_one_by_one("Stable")
    assert "number 3 in a row" in text and "delay" not in text


def test_rounds_far_apart_are_no_row() -> None:
    told = Told()
    for at in (0, 2 * ALIKE_MS):
        told.at(at).started(cause("member_joined", who()))
        told.completed()
    assert [each.repeats for each in told.rounds()] == [1, 1]


def test_further_causes_are_told_in_words() -> None:
    told = Told()
    told.started(cause("member_left", POD))
    told.added(cause("member_left", who("m7")))
    told.added(cause("session_expired", who("m8")))
    told.completed()
    text = paragraph(told.rounds()[0])
    assert "Meanwhile m7 left, m8 sent no heartbeat in time." in text


def test_the_first_round_of_a_group() -> None:
    told = Told()
    told.tell("member_joined", who=who("m1"), kind="dynamic", state="Empty")
    told.started(cause("member_joined", who("m1")), from_state="Empty", members=1)
    told.during("member_joined", who=who("m2"), kind="dynamic")
    told.added(cause("member_joined", who("m2")))
    told.joined(("m1", 0), ("m2", 1_300))
    told.completed(moved=None)
    text = paragraph(told.rounds()[0])
    assert "joined the empty group, and 1 more during the rebalance." in text
    assert "Consumption began after 3.0 s. 4 partitions went to 1 member." in text
    assert text.endswith("waits for more members; the last one came after 1.3 s.")


def test_other_ends_of_a_round() -> None:
    ends = []
    for end in ("emptied", "superseded"):
        told = Told()
        told.started(cause("member_left", POD))
        told.at(1_000).abandoned(end)
        ends.append(paragraph(told.rounds()[0]))
    assert "No member was left after 1.0 s: the group is empty." in ends[0]
    assert "Another rebalance began after 1.0 s, before this one had assignments." in ends[1]


def test_a_round_under_way_has_no_advice_yet() -> None:
    told = Told()
    told.started(cause("member_left", POD))
    assert paragraph(told.rounds()[0]).endswith("left. It is still in progress.")


def test_cooperative_members_kept_consuming() -> None:
    told = Told()
    told.started(cause("member_rejoined", POD, revoked={"orders": [1, 2]}))
    told.joined(("m1", 5), protocol="cooperative-sticky")
    told.completed()
    text = paragraph(told.rounds()[0])
    assert "after it gave up" in text
    assert "partitions that stayed were consumed meanwhile" in text


STALL = {"stalled_ms": 15_000, "stall_ended_ms": 2_000, "stalled": "log"}


@pytest.mark.parametrize("code", ["session_expired", "member_joined", "member_rejoined"])
def test_a_stall_of_the_coordinator_is_told_before_all_else_and_no_setting_of_clients(
    code: str,
) -> None:
    evidence = STALL | {"connection": "open", "silent_ms": 7_000, "session_timeout_ms": 6_000}
    text = paragraph(round_of(cause(code, POD, likely="coordinator_stalled", **evidence)))
    assert "its network was cut" not in text
    assert (
        "The coordinator did not answer for 15 s, until 2.0 s before: its log could not be written."
    ) in text
    assert text.endswith("its disk or its machine; no setting of the consumers is wrong.")


def test_a_guess_of_a_newer_server_is_named() -> None:
    text = paragraph(round_of(cause("member_left", POD, likely="full_moon")))
    assert "What probably is behind it is full_moon, which this command does not know." in text


def test_sessions_that_end_late_beside_new_members_are_a_stall_of_the_coordinator() -> None:
    told = Told()
    late = expired(who(), 6_000, silent_ms=15_000, connection="closed")
    told.started(cause("member_joined", who("m2")))
    told.during("member_removed", who=who(), cause=late)
    told.completed()
    text = paragraph(told.rounds()[0])
    assert "The coordinator noticed the end of 1 session up to 9.0 s late" in text
    assert "no setting of the consumers is wrong" in text


def test_of_workers_of_connect_no_consumption_is_told() -> None:
    told = Told()
    told.started(cause("metadata_changed", POD))
    told.joined(("m1", 5), protocol="sessioned", protocol_type="connect")
    told.completed(assignment=None, moved=None, unassigned_ms=None)
    text = paragraph(told.rounds()[0])
    assert "rejoined with other metadata. The rebalance took 3.0 s. Nothing is wrong" in text
    assert "onsum" not in text and "cooperative" not in text


def test_a_first_start_names_the_session_of_the_member() -> None:
    told = Told()
    timeouts = {"session_timeout_ms": 6_000, "rebalance_timeout_ms": 9_000}
    told.tell("member_joined", who=POD, kind="static", **timeouts)
    told.started(cause("static_member_joined", POD))
    told.completed()
    assert "a restart within its session.timeout.ms (6000) needs no" in advice(told.rounds()[0])


def test_a_member_that_rejoined_states_no_motive_but_as_a_guess() -> None:
    said = paragraph(round_of(cause("member_rejoined", POD, revoked=0)))
    assert "rejoined with the same topics and other user data." in said
    assert "assignor" not in said and "partitions_changed" not in said
    guessed = paragraph(
        round_of(cause("member_rejoined", POD, likely="partitions_revoked", revoked=2))
    )
    assert (
        "after it gave up 2 partitions: probably the second rebalance of an incremental" in guessed
    )


@pytest.mark.parametrize(
    "code", ["static_member_returned_changed", "static_member_returned_unready"]
)
def test_a_static_member_that_still_ran_was_probably_not_restarted(code: str) -> None:
    text = paragraph(round_of(cause(code, POD, likely="taken_over", old_connection="open")))
    assert "probably is another client, and took the place of one that still ran," in text
    assert "restarted" not in text
