"""What records of Apache Kafka 4.1 show of consumer groups (KIP-848), judged by what its
coordinator logged.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from groupkeeper.history.newer_departures import SessionLimit
from groupkeeper.history.newer_topics import id_of
from groupkeeper.history.rounds import Folding
from groupkeeper.history.rows import ALL
from groupkeeper.watch.inferred import GroupEvents
from groupkeeper.why.entries import entry_json
from tests.truth.observed import broker_log
from tests.truth.observed.judging import RIGHT, UNKNOWN
from tests.truth.observed.judging_epochs import judge_epochs
from tests.truth.observed.records import item_of
from tests.truth.observed.stage import Deed

FIXTURE = Path(__file__).parent.parent / "fixtures" / "kafka-epochs" / "plays.jsonl"
SESSION = SessionLimit(6_000, 1_000)
"""Of the groups of these plays."""
Play = dict[str, Any]
PLAYS: list[Play] = [json.loads(line) for line in FIXTURE.read_text().splitlines()]


def rows_of(play: Play, *, is_known: bool = True) -> list[dict[str, Any]]:
    """What is inferred; `is_known`: names of topics and session timeouts were asked for."""
    group = play["group"]
    names = {id_of(topic): name for topic, name in play["names"].items()} if is_known else {}
    events = GroupEvents(group, names, {group: SESSION} if is_known else {})
    told = events.take([item_of(line) for line in play["records"]], ALL)
    folding = Folding()
    entries = [entry for each in told for entry in folding.add(each.stored())]
    assert not folding.unknown
    return [entry_json(each) for each in (*entries, *folding.rest())]


def play_of(words: str) -> Play:
    [found] = [each for each in PLAYS if each["situation"].endswith(words)]
    return found


def last_round(play: Play) -> dict[str, Any]:
    return [row for row in rows_of(play) if row["kind"] == "round"][-1]


@pytest.mark.parametrize("play", PLAYS, ids=lambda play: f"{play['situation']}, {play['client']}")
@pytest.mark.parametrize("is_known", [True, False])
def test_no_cause_is_wrong(play: Play, is_known: bool) -> None:
    truth = broker_log.read(play["lines"])[play["group"]]
    deeds = [Deed(**each) for each in play["deeds"]]
    found = judge_epochs(rows_of(play, is_known=is_known), truth, deeds, play["begun_ms"])
    undecided = [each for each in found.rounds if each.verdict != RIGHT]
    assert all(each.verdict == UNKNOWN for each in undecided), undecided
    assert not (is_known and undecided)


def test_who_was_slow_is_the_member_that_did_not_poll() -> None:
    last = last_round(play_of("slow member"))
    assert last["last"]["who"]["client_id"] == "beta"
    assert last["last"]["after_ms"] > 5_000
    assert last["duration_ms"] >= last["last"]["after_ms"]
    assert "Last to reach the epoch was" in last["text"]


def test_a_static_member_that_is_back_in_time_makes_no_rebalance() -> None:
    play = play_of("a static member is closed and back")
    later = [
        row
        for row in rows_of(play)
        if (row.get("started_at_ms") or row.get("at_ms") or 0) >= play["begun_ms"]
    ]
    assert [row.get("type") for row in later] == ["member_replaced"]


def test_a_static_member_that_is_not_back_has_expired() -> None:
    last = last_round(play_of("a static member is closed"))
    assert last["cause"]["code"] == "session_expired"
    assert last["moved"] == 3


def test_partitions_that_were_added_are_told() -> None:
    last = last_round(play_of("partitions are added"))
    assert last["cause"]["evidence"]["partitions_before"] == 6
    assert last["cause"]["evidence"]["partitions_now"] == 9
    assert last["partitions"] == 9


def test_a_group_that_is_converted_loses_nobody() -> None:
    rows = rows_of(play_of("classic before"))
    kinds = [row.get("type") or row.get("group_type") or "classic" for row in rows]
    assert kinds == [
        *("classic", "classic", "group_converted", "consumer"),
        *("member_removed", "group_converted", "classic"),
    ]
    [gone] = [row for row in rows if row.get("type") == "member_removed"]
    assert gone["who"]["client_id"] == "gamma"


def test_who_has_gone_is_why_a_group_is_converted_back() -> None:
    last = last_round(play_of("classic before"))
    assert (last["generation"], last["cause"]["code"]) == (4, "member_left")
    assert last["cause"]["who"]["client_id"] == "gamma"
    assert (last["source"], last["confidence"], last["more_causes"]) == ("log", 0.97, [])
