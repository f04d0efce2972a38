"""How long nobody read: of removed members, of members that rejoined, over a loss and a return."""

from typing import Any

import pytest

from tests.support.told_events import Told, cause, who

PLAN = {"a": [0, 1], "b": [2, 3, 4], "c": [5]}


def plan(**shares: list[int]) -> dict[str, Any]:
    rows = [
        {"member": member, "instance": None, "partitions": {"orders": some}}
        for member, some in shares.items()
    ]
    return {"assignment": rows}


def settled(**first: Any) -> Told:
    """A group with the assignment PLAN, which it got in a round of its own."""
    told = Told()
    told.started(cause("member_joined", who("a")), from_state="Empty")
    told.at(1_000).joined(("a", 0), ("b", 0), ("c", 0), **first)
    told.completed(duration_ms=1_000, **plan(**PLAN))
    return told


def lost(told: Told, at_ms: int, code: str = "session_expired", **evidence: Any) -> None:
    """A round of 2 s that loses c; a rejoins after 500 ms, b after 1 s."""
    gone = cause(code, who("c"), **evidence)
    told.at(at_ms).tell("member_removed", who=who("c"), cause=gone)
    told.started(gone)
    told.at(at_ms + 2_000).joined(("a", 500), ("b", 1_000))
    told.completed(duration_ms=2_000, **plan(a=[0, 1, 5], b=[2, 3, 4]))


def back(told: Told, at_ms: int, why: str = "member_joined") -> None:
    """A round of 1 s in which c is back; all rejoin at once."""
    told.at(at_ms).tell("member_joined", who=who("c2", client_id="billing"), kind="dynamic")
    told.started(cause(why, who("c2")))
    told.at(at_ms + 1_000).joined(("c2", 0), ("a", 0), ("b", 0))
    told.completed(duration_ms=1_000, **plan(a=[0, 1], b=[2, 3, 4], c2=[5]))


def test_a_removed_member_is_unread_from_its_last_request_others_from_their_rejoin() -> None:
    told = settled()
    lost(told, 60_000, silent_ms=10_000)
    first, second = told.rounds()
    assert first.unread_ms is None  # what was read before is not known
    assert second.unread_ms == 1 * (10_000 + 2_000) + 2 * 1_500 + 3 * 1_000
    assert [each["partitions"] for each in second.removed] == [1]


def test_members_that_keep_their_partitions_go_on_reading_them() -> None:
    for said in ({"kept": True}, {"kept": None}):
        told = settled()
        told.at(60_000).started(cause("member_joined", who("d")))
        told.at(62_000).joined(("a", 0), ("b", 0), ("c", 0), protocol="cooperative-sticky")
        told.completed(duration_ms=2_000, moved=2, unassigned_ms=300, **plan(**PLAN), **said)
        assert told.rounds()[-1].unread_ms == 600


def test_what_members_said_to_own_counts_more_than_the_name_of_the_protocol() -> None:
    told = settled()
    told.at(60_000).started(cause("member_joined", who("d")))
    told.at(62_000).joined(("a", 0), ("b", 0), ("c", 0), protocol="cooperative-sticky")
    told.completed(duration_ms=2_000, moved=2, unassigned_ms=300, **plan(**PLAN), kept=False)
    assert told.rounds()[-1].unread_ms == 12_000


def test_a_static_member_that_was_replaced_has_the_partitions_of_its_old_id() -> None:
    told = settled()
    told.at(30_000).tell(
        "member_replaced", who=who("c9", instance="pod"), old_member="c", quick=True, away_ms=9
    )
    gone = cause("session_expired", who("c9", instance="pod"), silent_ms=1_000)
    told.at(60_000).tell("member_removed", who=who("c9", instance="pod"), cause=gone)
    told.started(gone)
    told.at(61_000).joined(("a", 1_000))
    told.completed(duration_ms=1_000, **plan(a=[0]))
    assert told.rounds()[-1].removed[0]["partitions"] == 1


def test_a_loss_and_its_return_are_one_incident() -> None:
    told = settled()
    lost(told, 60_000, silent_ms=10_000)
    back(told, 80_000)
    _, first, second = told.rounds()
    assert first.incident == second.incident
    assert first.incident is not None
    assert first.incident.now_ms == 12_000 + 3_000 + 3_000 + (2 + 1 + 3) * 1_000
    assert first.incident.absent_ms == 30_000  # from 50 s to 80 s
    assert first.incident.gone == 0


def test_nobody_reads_while_a_group_is_empty_and_until_it_has_assignments_again() -> None:
    told = Told()
    told.started(cause("member_joined", who("a")), from_state="Empty")
    told.at(1_000).joined(("a", 0))
    told.completed(duration_ms=1_000, **plan(a=[0, 1, 2]))
    left = cause("member_left", who("a"))
    told.at(60_000).tell("member_removed", who=who("a"), cause=left)
    told.started(left)
    told.abandoned("emptied")
    told.at(60_500).tell("member_joined", who=who("a2", client_id="billing"), kind="dynamic")
    told.started(cause("member_joined", who("a2")), from_state="Empty")
    told.at(63_500).joined(("a2", 0))
    told.completed(duration_ms=3_000, **plan(a2=[0, 1, 2]))
    _, gone, back_again = told.rounds()
    assert gone.outcome == "emptied"
    assert (gone.unread_ms, back_again.unread_ms) == (0, 3 * 3_500)
    assert back_again.incident is not None
    assert (back_again.incident.now_ms, back_again.incident.absent_ms) == (10_500, 1_500)


def test_the_second_rebalance_of_an_incremental_assignor_is_part_of_the_incident() -> None:
    told = settled()
    lost(told, 60_000)
    for at_ms in (63_000, 90_000):
        if at_ms == 90_000:
            back(told, 80_000)
        told.at(at_ms).started(cause("member_rejoined", who("a")))
        told.at(at_ms + 1_000).joined(("a", 0), ("b", 0))
        told.completed(duration_ms=1_000, moved=1, unassigned_ms=700, kept=True, **plan(**PLAN))
    _, first, second, third, fourth = told.rounds()
    assert first.incident == third.incident == fourth.incident == second.incident
    assert fourth.incident is not None
    seen = [each.unread_ms for each in (first, second, third, fourth)]
    assert fourth.incident.now_ms == sum(each or 0 for each in seen)
    assert seen[1] == seen[3] == 700


def test_a_rejoin_long_after_the_return_is_another_matter() -> None:
    told = settled()
    lost(told, 60_000)
    back(told, 80_000)
    told.at(180_000).started(cause("member_rejoined", who("a")))
    told.at(181_000).joined(("a", 0), ("b", 0))
    told.completed(duration_ms=1_000, **plan(**PLAN))
    assert told.rounds()[-1].incident is None


def test_without_a_return_there_is_no_incident() -> None:
    told = settled()
    lost(told, 60_000)
    told.at(63_000).started(cause("member_rejoined", who("a")))
    told.at(64_000).joined(("a", 0), ("b", 0))
    told.completed(duration_ms=1_000, **plan(**PLAN))
    assert [each.incident for each in told.rounds()] == [None, None, None]


@pytest.mark.parametrize("why", ["subscription_changed", "member_joined"])
def test_a_round_with_other_causes_would_have_been_anyhow(why: str) -> None:
    told = settled()
    lost(told, 60_000)
    if why == "member_joined":  # of somebody else
        told.at(80_000).tell("member_joined", who=who("z", client_id="z"), kind="dynamic")
    back(told, 80_000, why)
    incident = told.rounds()[-1].incident
    assert incident is not None and incident.now_ms is None


def test_partitions_of_members_that_do_not_come_back_are_counted() -> None:
    told = settled()
    gone = cause("session_expired", who("c"))
    told.at(60_000).tell("member_removed", who=who("b", client_id="other"), cause=gone)
    lost(told, 60_000)
    back(told, 80_000)
    incident = told.rounds()[-1].incident
    assert incident is not None and incident.gone == 3


def test_without_an_assignment_nothing_is_known() -> None:
    told = settled()
    told.events = told.events[3:]
    lost(told, 60_000)
    back(told, 80_000)
    rounds = told.rounds()
    assert rounds[0].incident is not None
    assert (rounds[0].unread_ms, rounds[0].incident.now_ms) == (None, None)


def test_the_protocol_type_is_that_of_the_last_generation() -> None:
    told = settled(protocol_type="connect")
    told.at(60_000).started(cause("member_left", who("c")))
    assert [each.protocol_type for each in told.rounds()] == ["connect", "connect"]


def test_the_timeouts_of_the_lost_member_are_its_own() -> None:
    told = Told()
    for name, session_ms in (("a", 6_000), ("c", 9_000)):
        timeouts = {"session_timeout_ms": session_ms, "rebalance_timeout_ms": 2 * session_ms}
        told.tell("member_joined", who=who(name), kind="dynamic", **timeouts)
    told.started(cause("member_joined", who("a")), from_state="Empty")
    told.at(1_000).joined(("a", 0), ("c", 0))
    told.completed(**plan(**PLAN))
    lost(told, 60_000, "member_left")
    first, second = told.rounds()
    assert (first.session_timeout_ms, second.session_timeout_ms) == (6_000, 9_000)
    assert second.rebalance_timeout_ms == 18_000
