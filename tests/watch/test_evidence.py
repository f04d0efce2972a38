"""What coordinators were asked is evidence for the causes of rounds."""

import pytest

from groupkeeper.history.asked import Sighting
from groupkeeper.history.evidence import SLACK_MS, Commits, Evidence, evidence_of
from groupkeeper.history.records import CommitRun
from groupkeeper.watch.sightings import (
    DESCRIBED,
    DESCRIPTIONS,
    LATENCY_MS,
    LISTINGS,
    WINDOW_MS,
    Description,
    GroupListing,
    Sightings,
)
from tests.support.requests import join_request
from tests.support.served import Client, Served, settle
from tests.watch.observed import Observed
from tests.watch.test_observer import codes

LED = {0: 1}


@pytest.fixture
def observed(served: Served) -> Observed:
    return Observed(served)


def pair(observed: Observed) -> tuple[Client, Client, str, str]:
    """Two members in a Stable group."""
    served = observed.served
    ann, bea = served.client(), served.client()
    first, _ = settle(ann, "billing")
    bea.send(3, join_request("billing", ""))
    served.advance(0.5)
    joined = ann.join("billing", first)
    second = bea.take().member_id
    synced(ann if joined.leader == first else bea, joined)
    observed.caught_up()
    served.advance(3)
    return ann, bea, first, second


def synced(leader: Client, joined: object) -> None:
    member, generation = joined.leader, joined.generation_id  # type: ignore[attr-defined]
    leader.sync(member, generation, "billing", **{member: b"plan"})


def came_and_left(observed: Observed) -> None:
    """A member joins, and another one leaves while the first still has to rejoin."""
    ann, bea, first, second = pair(observed)
    served = observed.served
    cid = served.client()
    cid.send(3, join_request("billing", ""))
    served.advance(3)
    assert bea.leave(second, group_id="billing") == 0
    served.advance(1)
    joined = ann.join("billing", first)
    cid.take()
    synced(ann if joined.leader == first else cid, joined)
    observed.caught_up()


def test_a_round_says_between_which_times_it_began(observed: Observed) -> None:
    ann, bea, first, second = pair(observed)
    began_ms = observed.server.clock.wall()
    bea.leave(second, group_id="billing")
    observed.served.advance(4)
    joined = ann.join("billing", first)
    synced(ann, joined)
    observed.caught_up()
    found = observed.web.found("groups", "billing", "rounds")["rounds"][-1]
    assert found["started_at_ms"] is None
    assert began_ms - 1_100 <= found["not_before_ms"] <= began_ms
    assert began_ms <= found["first_seen_ms"] <= began_ms + 1_100 + LATENCY_MS
    assert found["cause"]["code"] == "member_left"
    assert found["confidence"] == 0.98, "0.97 without"
    assert "It began between" in found["text"]


def test_the_first_round_after_a_start_has_bounds_too(observed: Observed) -> None:
    ann, bea, first, second = pair(observed)
    observed.kill()
    observed.start()
    observed.caught_up()
    observed.served.advance(3)
    settle(observed.served.client(), "other")  # a record tells the difference of clocks
    bea.leave(second, group_id="billing")
    observed.served.advance(3)
    synced(ann, ann.join("billing", first))
    observed.caught_up()
    found = observed.web.found("groups", "billing", "rounds")["rounds"][-1]
    assert found["first_seen_ms"] is not None, found


def test_an_old_record_does_not_tell_the_difference_of_clocks(observed: Observed) -> None:
    ann, bea, first, second = pair(observed)
    observed.kill()
    observed.start()
    observed.caught_up()  # reads records of seconds ago once more
    observed.served.advance(1.5)
    began_ms = observed.server.clock.wall()
    bea.leave(second, group_id="billing")
    observed.served.advance(3)
    synced(ann, ann.join("billing", first))
    observed.caught_up()
    found = observed.web.found("groups", "billing", "rounds")["rounds"][-1]
    assert (found["first_seen_ms"] or began_ms) >= began_ms
    assert (found["not_before_ms"] or began_ms) <= began_ms


def test_what_came_first_is_known_if_it_was_seen(observed: Observed) -> None:
    came_and_left(observed)
    inferred, told = codes(observed.inferred()), codes(observed.told())
    assert [*inferred.values()][-1] == [*told.values()][-1] == "member_joined"


def test_what_came_first_is_not_known_without_asking(served: Served) -> None:
    observed = Observed(served, ask=False)
    came_and_left(observed)
    assert [*codes(observed.inferred()).values()][-1] != "member_joined"


def test_events_are_stored_once_if_the_next_process_lacks_the_evidence(observed: Observed) -> None:
    came_and_left(observed)
    before = observed.inferred()
    observed.kill()
    observed.start()
    observed.caught_up()
    assert observed.inferred() == before


def test_silence_shows_nothing_while_there_is_nothing_to_commit() -> None:
    held = {("orders", 0): Commits("bea"), ("orders", 1): Commits("bea")}
    for place, commits in held.items():
        for number in range(4):
            at = number, number, "g", *place, 1_000 * number, 1_000 * number, 1, 0
            commits.add(CommitRun(*at), -1, is_whole=True)
    due_ms = 3_000 + 1_000 + SLACK_MS
    assert evidence_of(held, {})["bea"] == Evidence(3_000, 1_000)
    both = dict.fromkeys(held, due_ms)
    assert evidence_of(held, both)["bea"] == Evidence(3_000, None)
    assert evidence_of(held, {("orders", 0): due_ms})["bea"] == Evidence(3_000, 1_000)
    assert evidence_of(held, both | {("orders", 1): due_ms - 1})["bea"] == Evidence(3_000, 1_000)


def test_a_pause_in_which_the_leader_changed_is_none_of_the_member() -> None:
    """It had no coordinator to commit to; and without another record of the group, one run may go
    on in the next response.
    """
    commits, place = Commits("bea"), ("g", "orders", 0)
    for number, epoch in enumerate((4, 4, 5, 5)):
        at_ms = 1_000 * number + (60_000 if epoch == 5 else 0)
        commits.add(CommitRun(number, number, *place, at_ms, at_ms, 1, 0, epoch), -1, is_whole=True)
    assert (commits.longest_ms, commits.commits) == (1_000, 4)


# -- what is kept --------------------------------------------------------------------------------


def sightings(*, described: bool = True) -> Sightings:
    """Of a node whose records are received 20 ms after their time by the observer's clock,
    which is a second ahead: 1020 ms.
    """
    found = Sightings()
    found.received(1, 50_000, 51_020)
    if described:
        found.described("g", Description(60_000, 60_100, "Stable", frozenset({"ann"})))
    return found


def test_times_are_those_of_the_coordinators_clock() -> None:
    found = sightings()
    found.listed(1, GroupListing(61_000, 61_010, {"g": "PreparingRebalance"}, LED))
    listed, described = found.of("g", 0, 1)
    assert listed == Sighting(59_980, 59_990 + LATENCY_MS, True)
    assert described == Sighting(58_980, 59_080 + LATENCY_MS, False, frozenset({"ann"}))


def test_the_least_age_of_the_last_minutes_is_the_difference_of_the_clocks() -> None:
    found = sightings()
    found.received(1, 60_000, 63_000)  # late
    assert found.of("g", 0, 1)[-1].from_ms == 58_980
    for number in (1, 2):  # the clock was set forward
        found.received(1, 60_000, 65_000 + number * WINDOW_MS)
        found.received(1, 60_000 + number * WINDOW_MS, 65_000 + number * WINDOW_MS)
    assert found.of("g", 0, 1)[-1].from_ms == 55_000


def test_listings_count_only_of_the_coordinator_and_for_groups_that_may_be_seen() -> None:
    found = sightings(described=False)
    found.listed(1, GroupListing(61_000, 61_010, {}, LED))
    assert found.of("g", 0, 1) == (), "it may be hidden"
    found = sightings()
    found.listed(1, GroupListing(61_000, 61_010, {}, {0: 2}))
    found.listed(2, GroupListing(61_000, 61_010, {}, LED))
    assert len(found.of("g", 0, 1)) == 1
    found.hidden("g")
    assert found.of("g", 0, 1) == ()


def test_nothing_is_evidence_without_a_record_that_tells_the_difference_of_clocks() -> None:
    found = Sightings()
    found.described("g", Description(60_000, 60_100, "Stable", frozenset({"ann"})))
    assert found.of("g", 0, 1) == ()
    assert sightings().of("g", 0, None) == ()


def test_the_last_answers_are_kept() -> None:
    found = sightings()
    for number in range(LISTINGS + 5):
        found.listed(1, GroupListing(number, number, {}, LED))
    for number in range(DESCRIPTIONS + 5):
        found.described("g", Description(number, number, "Stable", frozenset()))
    assert len(found.of("g", 0, 1)) == LISTINGS + DESCRIPTIONS
    for number in range(DESCRIBED):
        found.described(f"g{number}", Description(0, 0, "Stable", frozenset()))
    assert found.of("g", 0, 1) == ()
