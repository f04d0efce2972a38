"""What a whole server stored while things went wrong with consumers, as rows."""

from typing import Any

import pytest

from groupkeeper.history.rows import Rows
from tests.simulation.cluster import START_OF_TIME_MS
from tests.support.apps import GROUP
from tests.support.folded_events import folded
from tests.support.served import Served
from tests.support.situations import SITUATIONS, Situation
from tests.support.stored_events import stored

SETTINGS = "group.initial.rebalance.delay.ms=3000", "auto.create.topics.enable=true"


def played(situation: Situation) -> tuple[Rows, int, dict[str, str | None]]:
    """The rows, when the situation began, and the members at the end with their instance ids."""
    served = Served(*SETTINGS)
    try:
        began = START_OF_TIME_MS + int(situation.play(served) * 1000)
        members = {name: each.instance_id for name, each in served.group(GROUP).members.items()}
        return folded(stored(served, GROUP)), began, members
    finally:
        served.close()


def named(title: str) -> Situation:
    [found] = [each for each in SITUATIONS if each.title == title]
    return found


def sessions_that_ended(rows: Rows, began: int) -> list[dict[str, Any]]:
    return [row for row in rows["sessions"] if row["until"] is not None and row["until"] >= began]


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda each: each.play.__name__)
def test_causes_and_members_are_those_of_the_situation(situation: Situation) -> None:
    rows, began, members = played(situation)
    rounds = [row for row in rows["rounds"] if (row["started"] or 0) >= began]
    causes = [
        f"{row['cause']}/{row['likely']}" if row["likely"] else row["cause"] for row in rounds
    ]
    assert causes == [*situation.causes]
    found = {row["member"]: row["instance"] for row in rows["sessions"] if row["until"] is None}
    assert found == members
    [coverage] = rows["coverage"]
    assert coverage["known_from_offset"] == 0
    if rows["rounds"][-1]["outcome"] == "completed":
        open_rows = [row for row in rows["ownership"] if row["until"] is None]
        assert sorted(row["topic_partition"] for row in open_rows) == [*range(6)]
        assert {row["member"] for row in open_rows} == set(members)


def test_a_paused_member_was_silent_for_a_session_after_regular_heartbeats() -> None:
    rows, began, _ = played(named("A process is paused"))
    [row] = sessions_that_ended(rows, began)
    assert (row["ended_by"], row["session_timeout_ms"]) == ("session_expired", 10_000)
    assert 10_000 <= row["silent_ms"] < 10_100
    assert row["heartbeats"] == 10
    assert 3_000 <= row["longest_gap_ms"] < 3_100
    assert row["rebalance_timeout_ms"] == 60_000


def test_a_killed_member_that_comes_back_was_away_since_its_last_heartbeat() -> None:
    rows, _, _ = played(named("A process is killed"))
    [row] = [row for row in rows["sessions"] if row["away_ms"] is not None]
    assert 20_000 < row["away_ms"] < 30_000
    [away] = [row["away_ms"] for row in rows["rounds"] if row["away_ms"] is not None]
    assert away == row["away_ms"]


def test_who_holds_up_the_others_is_missing_and_gone_in_time() -> None:
    rows, began, _ = played(named("One member holds up all others"))
    [round_] = [row for row in rows["rounds"] if row["started"] >= began]
    [session] = sessions_that_ended(rows, began)
    assert (round_["missing"], round_["ended_by"]) == ([session["member"]], "timeout")
    assert (session["ended_by"], session["likely"]) == ("join_timeout", "slow_member")
    whole_ms = round_["ended"] - round_["started"]
    # Four partitions from when their owners rejoined, two from when it was removed.
    assert 4 * (whole_ms - 3_000) < round_["unowned_ms"] < 4 * whole_ms + 2 * 5_000
    assert round_["by_software"] == "apache-kafka-java 4.1.0"


def test_a_duel_is_a_chain_of_replacements_and_refused_requests() -> None:
    rows, began, _ = played(named("Two processes have one instance id"))
    ended = sessions_that_ended(rows, began)
    assert [row["ended_by"] for row in ended] == ["replaced", "replaced"]
    assert ended[-1]["likely"] == "duel"
    fenced = [row for row in rows["refusals"] if row["error"] == "FENCED_INSTANCE_ID"]
    assert [row["instance"] for row in fenced] == ["pod-2", "pod-2"]
    assert fenced[-1]["likely"] == "duel"


def test_a_restart_of_the_coordinator_is_another_epoch_with_the_same_owners() -> None:
    rows, began, _ = played(named("The coordinator restarts, and a member does not come back"))
    first, second = rows["epochs"]
    assert (first["loaded"], first["closed"]) == (None, None)
    assert second["epoch"] > first["epoch"]
    assert (second["groups"], second["not_back"]) == (1, 1)
    [lost] = sessions_that_ended(rows, began)
    assert lost["ended_by"] == "session_expired"
    through = [row for row in rows["ownership"] if row["from"] < second["loaded"]]
    assert any(row["until"] is not None and row["until"] > second["loaded"] for row in through)
