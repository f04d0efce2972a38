"""Who owned partitions when, and when nobody did."""

from tests.support.folded_events import folded, owners, plan
from tests.support.told_events import Told, cause, who


def two(protocol: str = "range") -> Told:
    """m1 and m2 own two partitions each from 1 s on."""
    told = Told()
    told.tell("group_created", who=who(""))
    told.tell("member_joined", who=who("m1"), kind="dynamic")
    told.started(cause("member_joined", who("m1")), from_state="Empty")
    told.during("member_joined", who=who("m2"), kind="dynamic")
    told.at(1_000).joined(("m1", 0), ("m2", 400), protocol=protocol, duration_ms=1_000)
    told.completed(assignment=plan(m1=[0, 1], m2=[2, 3]), duration_ms=1_000, moved=None)
    return told


def leave(told: Told, at: int, member: str = "m2") -> None:
    told.at(at).tell("member_removed", who=who(member), cause=cause("member_left", who(member)))
    told.started(cause("member_left", who(member)))


def test_an_eager_rebalance_stops_every_partition_when_its_owner_rejoins_or_is_gone() -> None:
    told = two()
    leave(told, 5_000)
    told.at(7_000).joined(("m1", 1_900), duration_ms=2_000)
    told.at(7_100).completed(assignment=plan(m1=[0, 1, 2, 3]), duration_ms=2_100)
    rows = folded(told.events)
    found = owners(rows)
    assert found[0] == [("m1", 1_000, 6_900), (None, 6_900, 7_100), ("m1", 7_100, None)]
    assert found[3] == [("m2", 1_000, 5_000), (None, 5_000, 7_100), ("m1", 7_100, None)]
    assert [each["unowned_ms"] for each in rows["rounds"]] == [None, 2 * 200 + 2 * 2_100]
    assert [each["is_cooperative"] for each in rows["rounds"]] == [False, False]


def test_who_is_removed_while_others_wait_for_it_owned_its_partitions_until_then() -> None:
    told = two()
    told.at(5_000).started(cause("leader_rejoined", who("m1")))
    told.at(65_000)
    timeout = cause("join_timeout", who("m2"))
    told.during("member_removed", who=who("m2"), cause=timeout)
    missing = [{"member": "m2", "instance": None, "removed": True}]
    told.joined(("m1", 0), duration_ms=60_000, missing=missing)
    told.at(65_100).completed(assignment=plan(m1=[0, 1, 2, 3]), duration_ms=60_100)
    rows = folded(told.events)
    assert owners(rows)[0] == [("m1", 1_000, 5_000), (None, 5_000, 65_100), ("m1", 65_100, None)]
    assert owners(rows)[2] == [("m2", 1_000, 65_000), (None, 65_000, 65_100), ("m1", 65_100, None)]
    assert rows["rounds"][-1]["unowned_ms"] == 2 * 60_100 + 2 * 100


def test_a_static_member_that_an_eager_group_went_on_without_kept_its_partitions() -> None:
    told = two()
    told.at(5_000).started(cause("leader_rejoined", who("m1")))
    told.at(65_000)
    missing = [{"member": "m2", "instance": "pod-2", "removed": False}]
    told.joined(("m1", 0), duration_ms=60_000, missing=missing)
    told.completed(assignment=plan(m1=[0, 1, 2], m2=[3]), duration_ms=60_000)
    rows = folded(told.events)
    assert owners(rows)[2] == [("m2", 1_000, 65_000), ("m1", 65_000, None)]
    assert owners(rows)[3] == [("m2", 1_000, 65_000), ("m2", 65_000, None)]
    assert rows["rounds"][-1]["unowned_ms"] == 2 * 60_000


def test_who_is_replaced_during_an_eager_rebalance_owned_its_partitions_until_then() -> None:
    told = two()
    told.at(5_000).started(cause("leader_rejoined", who("m1")))
    told.at(6_000).during(
        "member_replaced", who=who("m2b", instance="pod-2"), old_member="m2", quick=False
    )
    told.at(7_000).joined(("m1", 0), ("m2b", 1_000), duration_ms=2_000)
    told.completed(assignment=plan(m1=[0, 1], m2b=[2, 3]), duration_ms=2_000)
    found = owners(folded(told.events))
    assert found[2] == [("m2", 1_000, 6_000), (None, 6_000, 7_000), ("m2b", 7_000, None)]


def test_an_eager_owner_of_which_nothing_is_known_stopped_at_the_start() -> None:
    """Its place in the list of those that joined was cut off."""
    told = two()
    told.at(5_000).started(cause("leader_rejoined", who("m1")))
    told.at(6_000).joined(("m1", 0), duration_ms=1_000, shortened={"joined": 2})
    told.completed(assignment=plan(m1=[0, 1], m2=[2, 3]), duration_ms=1_000)
    found = owners(folded(told.events))
    assert found[2] == [("m2", 1_000, 5_000), (None, 5_000, 6_000), ("m2", 6_000, None)]


def test_a_superseded_rebalance_belongs_to_the_standstill() -> None:
    told = two()
    told.at(5_000).started(cause("leader_rejoined", who("m1")))
    told.at(6_000).joined(("m1", 0), ("m2", 900), duration_ms=1_000)
    told.at(6_500).abandoned("superseded")
    told.started(cause("leader_rejoined", who("m1")))
    told.at(7_000).joined(("m1", 0), ("m2", 400), duration_ms=500)
    told.completed(assignment=plan(m1=[0, 1], m2=[2, 3]), duration_ms=500)
    rows = folded(told.events)
    assert owners(rows)[0] == [("m1", 1_000, 5_000), (None, 5_000, 7_000), ("m1", 7_000, None)]
    assert owners(rows)[2][1] == (None, 5_900, 7_000), "since it rejoined first"
    assert [each["unowned_ms"] for each in rows["rounds"]] == [None, None, 2 * 2_000 + 2 * 1_100]


def test_a_cooperative_rebalance_stops_only_what_moves() -> None:
    told = two("cooperative-sticky")
    told.at(5_000).tell("member_joined", who=who("m3"), kind="dynamic")
    told.started(cause("member_joined", who("m3")))
    told.at(6_000).joined(
        ("m3", 0), ("m1", 800), ("m2", 900), protocol="cooperative-sticky", duration_ms=1_000
    )
    told.completed(assignment=plan(m1=[0], m2=[2, 3], m3=[]), duration_ms=1_000)
    told.at(6_300).started(cause("member_rejoined", who("m1"), revoked=1))
    told.at(6_800).joined(
        ("m1", 0), ("m2", 400), ("m3", 500), protocol="cooperative-sticky", duration_ms=500
    )
    told.completed(assignment=plan(m1=[0], m2=[2, 3], m3=[1]), duration_ms=500)
    rows = folded(told.events)
    found = owners(rows)
    assert found[0] == [("m1", 1_000, None)]
    assert found[1] == [("m1", 1_000, 6_000), (None, 6_000, 6_800), ("m3", 6_800, None)]
    assert [each["unowned_ms"] for each in rows["rounds"]] == [None, 0, 800]
    assert [each["is_cooperative"] for each in rows["rounds"]] == [True, True, True]


def test_partitions_of_a_lost_cooperative_member_stand_still_since_it_was_removed() -> None:
    told = two("cooperative-sticky")
    leave(told, 5_000)
    told.at(6_000).joined(("m1", 900), protocol="cooperative-sticky", duration_ms=1_000)
    told.completed(assignment=plan(m1=[0, 1, 2, 3]), duration_ms=1_000)
    rows = folded(told.events)
    assert owners(rows)[0] == [("m1", 1_000, None)]
    assert owners(rows)[2] == [("m2", 1_000, 5_000), (None, 5_000, 6_000), ("m1", 6_000, None)]
    assert rows["rounds"][-1]["unowned_ms"] == 2_000


def test_of_an_unknown_protocol_only_what_moved_is_known_to_have_stopped() -> None:
    told = two("own-assignor")
    leave(told, 5_000)
    told.at(6_000).joined(("m1", 900), protocol="own-assignor", duration_ms=1_000)
    told.completed(assignment=plan(m1=[0, 1, 2, 3]), duration_ms=1_000)
    rows = folded(told.events)
    assert owners(rows)[0] == [("m1", 1_000, None)]
    assert owners(rows)[2] == [("m2", 1_000, 5_000), (None, 5_000, 6_000), ("m1", 6_000, None)]
    assert [each["is_cooperative"] for each in rows["rounds"]] == [None, None]
    assert rows["rounds"][-1]["unowned_ms"] is None


def test_partitions_of_an_emptied_group_have_no_owner_until_the_next_assignments() -> None:
    told = two()
    leave(told, 5_000)
    told.at(6_000).tell(
        "member_removed", round_=told.round, who=who("m1"), cause=cause("member_left", who("m1"))
    )
    told.generation += 1
    told.abandoned("emptied")
    told.tell(
        "group_emptied", round_=told.round, state="Empty", cause=cause("member_left", who("m1"))
    )
    assert owners(folded(told.events))[0] == [("m1", 1_000, 5_000), (None, 5_000, None)]
    told.at(90_000).tell("member_joined", who=who("m9"), kind="dynamic", state="Empty")
    told.started(cause("member_joined", who("m9")), from_state="Empty")
    told.at(93_000).joined(("m9", 0))
    told.completed(assignment=plan(m9=[0, 1, 2, 4]))
    rows = folded(told.events)
    assert owners(rows)[0][1:] == [(None, 5_000, 93_000), ("m9", 93_000, None)]
    assert owners(rows)[3][1:] == [(None, 5_000, 93_000)], "nobody wants it any more"
    assert owners(rows)[4] == [("m9", 93_000, None)]
    assert rows["rounds"][-1]["unowned_ms"] == 4 * 3_000


def test_owners_stay_over_a_restart_of_the_coordinator() -> None:
    told = two()
    told.at(5_000).started(cause("leader_rejoined", who("m1")))
    told.at(6_000)
    told.loaded(9_000)
    rows = folded(told.events)
    assert owners(rows)[0] == [("m1", 1_000, None)]
    assert rows["rounds"][-1]["outcome"] == "lost"
    leave(told, 20_000)
    told.at(21_000).joined(("m1", 900), duration_ms=1_000)
    told.completed(assignment=plan(m1=[0, 1, 2, 3]), duration_ms=1_000)
    found = owners(folded(told.events))
    assert found[2] == [("m2", 1_000, 20_000), (None, 20_000, 21_000), ("m1", 21_000, None)]


def test_a_deleted_group_ends_without_a_time_in_which_nobody_owns() -> None:
    told = two()
    leave(told, 5_000, "m1")
    told.tell(
        "member_removed", round_=told.round, who=who("m2"), cause=cause("member_left", who("m2"))
    )
    told.generation += 1
    told.abandoned("emptied")
    told.tell(
        "group_emptied", round_=told.round, state="Empty", cause=cause("member_left", who("m2"))
    )
    told.at(8_000).tell("group_deleted", why="request", who=who(""))
    assert owners(folded(told.events))[0] == [("m1", 1_000, 5_000), (None, 5_000, 8_000)]


def test_a_replaced_static_member_goes_on_under_its_new_id() -> None:
    told = two()
    told.at(5_000)
    new = who("m2b", instance="pod-2")
    told.tell("member_replaced", who=new, old_member="m2", quick=True, away_ms=900, likely=None)
    found = owners(folded(told.events))
    assert found[2] == [("m2", 1_000, 5_000), ("m2b", 5_000, None)]
    assert found[0] == [("m1", 1_000, None)]


def test_an_eager_rebalance_under_way_is_a_time_without_owners() -> None:
    told = two()
    leave(told, 5_000)
    assert owners(folded(told.events))[0] == [("m1", 1_000, 5_000), (None, 5_000, None)]


def test_a_plan_that_was_not_stored_ends_what_was_known() -> None:
    told = two()
    leave(told, 5_000)
    told.at(6_000).joined(("m1", 900), duration_ms=1_000)
    told.completed(assignment=None, moved=None, duration_ms=1_000)
    rows = folded(told.events)
    assert owners(rows)[0] == [("m1", 1_000, 5_900), (None, 5_900, 6_000)]
    assert rows["rounds"][-1]["unowned_ms"] is None


def test_of_a_plan_that_was_cut_the_rest_is_unknown() -> None:
    told = two()
    leave(told, 5_000)
    told.at(6_000).joined(("m1", 900), duration_ms=1_000)
    cut = {"assignment": 2}
    told.completed(assignment=plan(m1=[0]), duration_ms=1_000, shortened=cut)
    rows = folded(told.events)
    assert owners(rows)[0][-1] == ("m1", 6_000, None)
    assert owners(rows)[1][-1] == (None, 5_900, 6_000)
    assert (rows["rounds"][-1]["partitions"], rows["rounds"][-1]["unowned_ms"]) == (None, None)


def test_what_was_left_out_ends_what_was_known_when_it_was_known_last() -> None:
    told = two()
    told.at(4_000).tell("commits", who=who("m1"), requests=3, partitions={"orders": [0]})
    told.at(60_000)
    told.generation += 3  # rebalances that nobody told
    leave(told, 60_000)
    told.at(61_000).joined(("m1", 900), duration_ms=1_000)
    told.completed(assignment=plan(m1=[0, 1, 2, 3]), duration_ms=1_000)
    rows = folded(told.events)
    assert owners(rows)[0] == [("m1", 1_000, 4_000), ("m1", 61_000, None)]
    assert rows["rounds"][-1]["unowned_ms"] is None


def test_the_end_of_a_rebalance_that_was_left_out_is_noticed() -> None:
    told = two()
    told.at(5_000).started(cause("leader_rejoined", who("m1")))
    told.at(9_000).started(cause("leader_rejoined", who("m1")))
    assert owners(folded(told.events))[0] == [("m1", 1_000, 5_000)]


def test_a_log_that_begins_in_a_rebalance_has_owners_from_its_end() -> None:
    told = two()
    told.events = told.events[-1:]
    rows = folded(told.events)
    assert owners(rows)[0] == [("m1", 1_000, None)]
    assert rows["rounds"][0]["unowned_ms"] is None
    assert rows["rounds"][0]["started"] is None


def test_strange_partitions_are_left_out() -> None:
    told = two()
    told.started(cause("leader_rejoined", who("m1")))
    strange = [{"member": "m1", "instance": None, "partitions": {"orders": [0, "one", None]}}]
    told.completed(assignment=strange, duration_ms=0)
    assert [*owners(folded(told.events))] == [0, 1, 2, 3]
