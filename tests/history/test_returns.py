"""Who was lost and comes back; and a fold that is put away meanwhile."""

import json
from typing import Any

import pytest

from groupkeeper.history.returns import RETURN_MS, SWEEP_AT, Lost, Returns, find_returns, is_same
from groupkeeper.history.rounds import Folding, HistoryEntry
from groupkeeper.history.state import restore, saved
from groupkeeper.why.advice import advice
from tests.support.told_events import Told, cause, who


def again(returns: Returns) -> Returns:
    return restore(Returns(), json.loads(json.dumps(saved(returns))))


def test_the_last_one_that_went_comes_back_first_and_each_once() -> None:
    returns = Returns()
    for heard_ms in (1_000, 2_000):
        returns.lose(who("old"), Lost(heard_ms))
    returns = again(returns)
    found = [returns.take_back(who("new"), 9_000) for _ in range(3)]
    assert [each and each.heard_ms for each in found] == [2_000, 1_000, None]


def test_who_comes_too_late_is_another_one() -> None:
    returns = Returns()
    returns.lose(who("old"), Lost(1_000))
    assert returns.take_back(who("new"), 1_001 + RETURN_MS) is None
    assert returns.take_back(who("new"), 1_000 + RETURN_MS) is not None


def test_hardly_more_are_remembered_than_may_come_back() -> None:
    returns = Returns()
    for number in range(10 * SWEEP_AT):
        returns.lose(who(f"m{number}", client_id=f"c{number}"), Lost(number * RETURN_MS))
    assert len(saved(returns)["lost"]) <= SWEEP_AT + 2


@pytest.mark.parametrize(
    ("gone", "come", "same"),
    [
        ({"instance": "a", "host": "/1"}, {"instance": "a", "host": "/2"}, True),
        ({"instance": "a"}, {"instance": None}, False),
        ({"instance": "a"}, {"instance": "b"}, False),
        ({"host": "/1"}, {"host": "/1"}, True),
        ({"host": "/1"}, {"host": "/2"}, False),
        ({"instance": ""}, {"instance": None}, True),
    ],
)
def test_a_restart_has_the_instance_id_or_the_client_and_host(
    gone: dict[str, Any], come: dict[str, Any], same: bool
) -> None:
    assert is_same(who("m1", **gone), who("m2", **come)) is same


def story() -> Told:
    """Members come and go, superseded and lost rebalances, and a restart of the coordinator."""
    told = Told()
    for number, code in enumerate(("member_left", "member_left", "member_joined")):
        told.at(number * 10_000).tell(
            "member_removed", who=who("m1"), cause=cause(code, who("m1"), silent_ms=500)
        )
        told.started(cause(code, who("m1"), session_timeout_ms=9_000))
        told.added(cause("member_joined", who("m4")))
        told.at(number * 10_000 + 900).joined(
            ("m2", 0), ("m3", 800), missing=[{"member": "m1", "removed": True}]
        )
        told.abandoned("superseded") if number == 1 else told.completed()
    told.tell("coordinator_closed", why="stopped")
    told.loaded()
    told.tell("member_joined", who=who("m9"), kind="dynamic")
    told.started(cause("member_joined", who("m9")))
    return told


def test_a_fold_that_was_put_away_goes_on_as_if_it_had_not_been() -> None:
    events = story().events
    for cut in range(len(events)):
        folding, whole = Folding(), list[HistoryEntry]()
        for place, event in enumerate(events):
            if place == cut:
                folding = restore(Folding(), json.loads(json.dumps(saved(folding))))
            whole += folding.add(event)
        whole += folding.rest()
        find_returns(whole)
        assert whole == story().entries(), cut


def test_clients_that_are_no_members_any_more_are_forgotten() -> None:
    folding = Folding()
    for event in story().events[:7]:
        folding.add(event)
    assert [*saved(folding)["people"]] == ["m1"], "it was missing"


def shares(*names: str) -> list[dict[str, Any]]:
    """One partition for each."""
    return [{"member": each, "partitions": {"t": [number]}} for number, each in enumerate(names)]


def crash(*, again: bool, connection: str | None = "closed") -> Told:
    """m3 is killed; a member joins, for which the others wait until the session of m3 ends."""
    told, names = Told(), ("m1", "m2", "m3")
    for each in names:
        told.tell("member_joined", who=who(each, client_id=each), kind="dynamic")
    told.started(cause("member_joined", who("m1")), from_state="Empty")
    told.joined(*((each, 0) for each in names))
    told.completed(assignment=shares(*names))
    come = who("m4", client_id="m3" if again else "m4")
    told.at(101_500).tell("member_joined", who=come, kind="dynamic")
    told.started(cause("member_joined", come))
    gone = who("m3", client_id="m3")
    evidence = {"silent_ms": 10_000, "session_timeout_ms": 10_000, "connection": connection}
    why = cause("session_expired", gone, **evidence)
    told.at(110_000).during("member_removed", who=gone, cause=why)
    told.at(110_001).joined(("m1", 100), ("m2", 100), ("m4", 0), duration_ms=8_500)
    told.completed(assignment=shares("m1", "m2", "m4"))
    return told


def test_a_killed_process_that_is_back_before_its_session_ends_was_away_until_it_joined() -> None:
    current = crash(again=True).rounds()[-1]
    assert current.away_ms == 1_500
    assert current.incident is not None and current.incident.absent_ms == 1_500
    assert "It was away for 1.5 s. Set a group.instance.id for each member" in advice(current)


def test_a_member_that_is_unheard_of_since_a_load_may_have_lived_until_it_was_removed() -> None:
    assert crash(again=True, connection=None).rounds()[-1].away_ms is None


def test_a_newcomer_is_not_called_harmless_if_all_waited_for_a_dead_member() -> None:
    text = advice(crash(again=False).rounds()[-1])
    assert text.startswith("The others waited for m3 until its session ended, 10 s after its last")
    assert "Look for a crash or a kill on 10.0.0.7 soon after 2025-11-22 12:01:40" in text
