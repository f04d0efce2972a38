"""Random histories of a group, from the production core: what the fold says of them is what
happened.
"""

import random
from collections import defaultdict
from itertools import pairwise
from operator import itemgetter
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from groupkeeper.analytics.schemas import TABLES
from groupkeeper.history.rows import Row, Rows
from groupkeeper.protocol.group_events import Event
from tests.support.folded_events import folded, folding, whole
from tests.support.scene import GROUP
from tests.support.wandering_events import wander

SEEDS = st.integers(0, 10_000)
STEPS = 60


def by(rows: list[Row], *names: str) -> dict[Any, list[Row]]:
    """In the order of their beginning, those that have none aside."""
    found = defaultdict[Any, list[Row]](list)
    for row in sorted((row for row in rows if row["from"] is not None), key=itemgetter("from")):
        found[tuple(row[name] for name in names)].append(row)
    return found


def check_intervals(some: dict[Any, list[Row]]) -> None:
    """They follow one another, and only the last may be open."""
    for rows in some.values():
        for before, after in pairwise(rows):
            assert before["until"] is not None
            assert before["until"] <= after["from"]
        for row in rows:
            assert row["until"] is None or row["from"] <= row["until"]


def check(rows: Rows) -> None:
    """What holds of all rows, whatever the events."""
    check_intervals(by(rows["ownership"], "topic", "topic_partition"))
    check_intervals(by(rows["sessions"], "member"))
    assert all(row["duration_ms"] != 0 for row in rows["ownership"])
    key = itemgetter(*TABLES["rounds"].key)
    rounds = [key(row) for row in rows["rounds"]]
    assert len(rounds) == len(set(rounds))


@settings(max_examples=30, deadline=None)
@given(seed=SEEDS)
@example(seed=9820)  # a replaced member whose new id was lost with the coordinator
def test_in_the_end_members_and_owners_are_those_of_the_group(seed: int) -> None:
    history = wander(seed, STEPS)
    rows = folded(history.events)
    check(rows)
    open_sessions = {row["member"] for row in rows["sessions"] if row["until"] is None}
    assert open_sessions == history.members
    if history.owners is not None:
        assert {
            (row["topic"], row["topic_partition"]): row["member"]
            for row in rows["ownership"]
            if row["until"] is None and row["is_owned"]
        } == history.owners


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS, begin=st.integers(0, STEPS), holes=st.integers(0, 30))
def test_what_was_left_out_contradicts_nothing(seed: int, begin: int, holes: int) -> None:
    events = wander(seed, STEPS).events[begin:]
    chance = random.Random(seed)
    kept = [each for each in events if chance.randrange(100) >= holes]
    fold = folding(kept[: len(kept) // 2])
    check(whole(fold.take(), fold.open()))
    check(folded(kept))


def with_commits(events: list[Event], chance: random.Random) -> list[Event]:
    """After some events commits of members that are there, were there or are unknown, with counts
    and times that may be anything.
    """
    known: list[Any] = [{"member": "nobody"}, {"member": "ann", "host": 7}, None, "odd"]
    counts = (None, 0, 1, 7, 50, -1, 1 << 70)
    found = []
    for each in events:
        found.append(each)
        who = each.fields.get("who")
        known += [who, {**who, "host": "/10.0.0.9"}] if who else []
        at_ms, mono_ms = each.at_ms, each.mono_ms
        for _ in range(chance.choice((0, 0, 3, 12))):
            at_ms += chance.choice((0, 1, 60_000, 60_000, -90_000))
            mono_ms += chance.choice((0, 60_000))
            fields = {"who": chance.choice(known[-4:])}
            fields |= {name: chance.choice(counts) for name in ("heartbeats", "longest_gap_ms")}
            told = each._replace(type="commits", group=GROUP, fields=fields)
            told = told._replace(at_ms=at_ms, mono_ms=mono_ms)
            number, generation = chance.choice((0, 0, 0, each.round)), chance.choice((0, 0, 0, 1))
            told = told._replace(round=number, generation=each.generation + generation)
            found.append(told)
    return found


@settings(max_examples=120, deadline=None)
@given(seed=SEEDS, begin=st.integers(0, STEPS), holes=st.integers(0, 30))
@example(seed=124, begin=5, holes=27)  # commits of two generations in a round without a beginning
@example(seed=380, begin=23, holes=23)  # commits behind the end of a round without a beginning
def test_commits_that_are_told_as_one_change_no_row(seed: int, begin: int, holes: int) -> None:
    chance = random.Random(seed)
    kept = [each for each in wander(seed, STEPS).events[begin:] if chance.randrange(100) >= holes]
    events = with_commits(kept, chance)
    fold, other = folding(events), folding(events, {"events"})
    rows, fewer = whole(fold.take(), fold.open()), whole(other.take(), other.open())
    assert {**rows, "events": []} == fewer
    assert len(rows["events"]) == len(events)
