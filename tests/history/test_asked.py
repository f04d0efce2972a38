"""What answers of a coordinator show of the start of a join phase."""

from groupkeeper.history.asked import UNSEEN, SeenStart, Sighting, seen_start
from groupkeeper.history.causes import EXPIRED, JOINED, LEFT, SUBSCRIPTION, UNKNOWN
from groupkeeper.history.records import RecordedMember

SINCE, END = 10_000, 20_000
BOTH = ("ann", "bea")


def quiet(at: int) -> Sighting:
    return Sighting(at, at + 100, is_rebalancing=False)


def busy(at: int, *members: str) -> Sighting:
    return Sighting(at, at + 100, is_rebalancing=True, members=members or None)


def seen(*sightings: Sighting) -> SeenStart:
    return seen_start(sightings, BOTH, SINCE, END)


def member(name: str) -> RecordedMember:
    return RecordedMember(name, None, name, "host", 6_000, 6_000, "", None)


def test_the_start_is_between_the_last_answer_without_and_the_first_with_a_rebalance() -> None:
    found = seen(quiet(12_000), quiet(13_000), busy(14_000), busy(15_000))
    assert (found.after_ms, found.by_ms) == (13_000, 14_100)


def test_a_short_phase_that_no_answer_shows_began_after_the_last_answer() -> None:
    assert seen(quiet(12_000), quiet(19_000)) == SeenStart(after_ms=19_000)


def test_a_phase_before_and_one_after_the_round_are_others() -> None:
    assert seen(busy(9_000), busy(21_000), quiet(21_500)) == UNSEEN
    found = seen(quiet(11_000), busy(12_000), quiet(13_000), busy(14_000))
    assert (found.after_ms, found.by_ms) == (13_000, 14_100)


def test_an_answer_that_may_be_of_another_time_counts_for_neither() -> None:
    assert seen(Sighting(9_990, 10_010, False), Sighting(19_990, 20_010, True)) == UNSEEN


def test_members_are_gone_by_the_first_answer_without_them() -> None:
    found = seen(busy(14_000), busy(14_200, "ann", "bea"), busy(15_000, "ann"), busy(16_000, "ann"))
    assert found.gone == {"bea": 15_100}
    assert found.first == ("ann", "bea")


def test_bounds_are_narrowed_unless_they_contradict_others() -> None:
    found = SeenStart(13_000, 14_000)
    assert found.narrowed(0, END) == (13_000, 14_000)
    assert found.narrowed(13_500, 13_900) == (13_500, 13_900)
    assert found.narrowed(END, END) == (END, END)
    assert UNSEEN.narrowed(0, END) == (0, END)


def test_what_had_happened_when_the_members_were_first_listed_came_first() -> None:
    who = {JOINED: [member("cid")], LEFT: [member("bea")]}
    assert SeenStart(first=("ann", "bea", "cid")).first_code(who) == JOINED
    assert SeenStart(first=("ann",)).first_code(who) == LEFT
    assert SeenStart(first=("ann", "cid")).first_code(who) is None, "both had happened"
    assert SeenStart(first=("ann", "bea")).first_code(who) is None, "neither had"
    assert UNSEEN.first_code(who) is None


def test_one_of_two_that_went_came_first_if_the_other_was_still_there() -> None:
    who = {LEFT: [member("bea")], EXPIRED: [member("ann")], JOINED: [member("cid")]}
    assert SeenStart(first=("ann",)).first_code(who) == LEFT
    assert SeenStart(first=("bea",)).first_code(who) == EXPIRED


def test_what_else_may_have_come_first_is_not_in_a_list_of_members() -> None:
    who = {JOINED: [member("cid")], SUBSCRIPTION: [member("ann")]}
    assert SeenStart(first=("ann", "cid")).first_code(who) is None
    who = {JOINED: [member("cid")], UNKNOWN: [member("bea")]}
    assert SeenStart(first=("ann",)).first_code(who) is None
    assert SeenStart(first=("bea", "cid")).first_code(who) == JOINED


def test_half_of_the_doubt_is_left_if_the_member_was_seen_to_be_gone() -> None:
    found = SeenStart(gone={"bea": 15_000}, first=("ann",))
    assert found.surer(0.97, member("bea")) == (0.97 + 0.99) / 2
    assert found.surer(0.97, member("dan")) == 0.97
    assert found.surer(0.97, None) == 0.97
    assert UNSEEN.surer(0.97, member("bea")) == 0.97
