"""Events that repeat themselves are one line for people, with a count, a time and the extremes."""

from typing import Any

from groupkeeper.history.rounds import HistoryEntry, Round
from groupkeeper.why.entries import entry_text
from groupkeeper.why.folding import Repeated, folded
from tests.support.told_events import Told, cause, who


def restarts(told: Told, start_ms: int, *away_ms: int, **more: Any) -> None:
    """Static restarts of pod-0, pod-1 and pod-2 in turn, a minute apart."""
    for number, each in enumerate(away_ms):
        pod = who(f"m{number}", instance=f"pod-{number % 3}")
        told.at(start_ms + number * 60_000).tell(
            "member_replaced", who=pod, old_member="old", quick=True, away_ms=each, **more
        )


def lines(entries: list[HistoryEntry]) -> list[str]:
    return [entry_text(each, 10_000) for each in folded(entries)]


def test_static_restarts_are_one_sentence_with_the_shortest_and_the_longest() -> None:
    told = Told()
    restarts(told, 0, 240, 5, 900, 235)
    [only] = lines(told.entries())
    assert only == (
        "2025-11-22 12:00:00.000Z  pod-0, pod-1, pod-2 restarted 4 times in 3 min, away for 5 ms "
        "to 900 ms, without a rebalance"
    )


def test_inferred_replacements_may_be_those_of_a_second_client() -> None:
    told = Told()
    restarts(told, 0, 240, 5, 900, 235, source="log", confidence=0.99)
    [only] = lines(told.entries())
    assert "pod-0, pod-1, pod-2 restarted, or changed hands, 4 times in 3 min, away for" in only


def test_two_are_told_one_by_one() -> None:
    told = Told()
    restarts(told, 0, 240, 5)
    assert len(lines(told.entries())) == 2


def test_a_duel_is_not_a_restart() -> None:
    told = Told()
    restarts(told, 0, 1, 1, 1, likely="duel", evidence={"hosts": ["/10.0.0.7", "/10.0.0.8"]})
    restarts(told, 300_000, 5, 5, 5)
    first, second = lines(told.entries())
    assert "changed hands 3 times in 2 min, away for 1 ms, without a rebalance; two running" in (
        first.replace("120 s", "2 min")
    )
    assert "restarted 3 times" in second


def test_a_rebalance_between_them_parts_them() -> None:
    told = Told()
    restarts(told, 0, 1, 2, 3)
    told.at(400_000).started(cause("member_left", who("z")))
    told.completed()
    restarts(told, 500_000, 4, 5, 6)
    first, round_, second = folded(told.entries())
    assert isinstance(first, Repeated) and isinstance(second, Repeated)
    assert isinstance(round_, Round)
    assert (len(first.events), len(second.events)) == (3, 3)


def test_fencings_and_refusals_between_other_events_are_counted() -> None:
    told = Told()
    for number in range(3):
        told.at(number * 1_000).tell(
            "member_fenced", who=who("m1", instance="pod-3"), api="Heartbeat", current_member="m2"
        )
        told.tell("requests_refused", who=who("m9"), api="OffsetCommit", error="ILLEGAL", count=4)
        if number == 1:
            told.tell("group_emptied", cause=cause("member_left", who("m4")))
    fenced, refused, emptied = lines(told.entries())
    assert fenced.endswith(
        "was fenced 3 times in 2.0 s: its Heartbeat was refused, as another member has its "
        "group.instance.id"
    )
    assert "12 requests (OffsetCommit) of m9" in refused and "ILLEGAL in 2.0 s" in refused
    assert "the group is empty" in emptied


def test_fields_may_be_missing() -> None:
    told = Told()
    for _ in range(3):
        for type_ in ("member_replaced", "member_fenced", "requests_refused"):
            told.tell(type_)
    text = " ".join(lines(told.entries()))
    assert "None" not in text and "a client was fenced 3 times" in text


def test_places_that_were_kept_are_told_apart_from_restarts_with_what_stood_still() -> None:
    told = Told()
    restarts(told, 0, 240, 5, 900)
    seat = {"reserved_ms": 4_000, "lost_by": "session_expired", "partitions": 4}
    for number in range(3):
        lost = who(f"m{number}", client_id="billing-c")
        told.at(400_000 + number * 60_000).tell(
            "seat_reserved", who=lost, cause=cause("session_expired", lost), reserved_ms=60_000
        )
        back = who(f"b{number}", client_id="billing-c")
        told.at(404_000 + number * 60_000).tell(
            "member_replaced", who=back, old_member="o", quick=True, away_ms=10_000, evidence=seat
        )
    _, lost_text, back_text = lines(told.entries())
    assert "was lost 3 times in 2 min, and its place kept" in lost_text
    assert back_text.endswith(
        "billing-c restarted 3 times in 2 min, away for 10 s, without a rebalance: 120 "
        "partition-seconds, and nobody else stopped"
    )


def test_a_place_that_was_kept_is_told_with_what_it_cost() -> None:
    told = Told()
    seat = {"reserved_ms": 4_000, "lost_by": "session_expired", "partitions": 4}
    early = {"reserved_ms": 0, "connection": "closed", "partitions": 1}
    for evidence in (seat, early):
        told.tell(
            "member_replaced",
            who=who("m2"),
            old_member="m1",
            quick=True,
            away_ms=22_000,
            evidence=evidence,
        )
    first, second = lines(told.entries())
    assert first.endswith(
        "m2 (client billing, on 10.0.0.7) took the place of m1 22 s after its last request and got "
        "its 4 partitions, which had stood still for 22 s: no rebalance, nobody else stopped"
    )
    assert "took the place of m1, whose connection was closed, 22 s after" in second


def test_a_newcomer_that_waits_is_told_once_and_after_its_join() -> None:
    told = Told()
    newcomer = who("m9")
    told.tell("member_joined", who=newcomer, kind="dynamic")
    told.tell(
        "rebalance_deferred",
        who=newcomer,
        cause=cause("member_joined", newcomer),
        policy="classic.target.group.size",
        for_ms=None,
    )
    [only] = lines(told.entries())
    assert "joined and stands by" in only
    joined, _ = told.entries()
    assert not isinstance(joined, Round) and joined.type == "member_joined"
