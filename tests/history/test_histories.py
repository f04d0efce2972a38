"""Random histories of a group, from the production core: what the fold says of them is what
happened, in however many parts it reads them.
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
from tests.support.folded_events import folded, folded_in_parts, folding, whole
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
@given(seed=SEEDS, cuts=st.lists(st.integers(0, 2 * STEPS), max_size=4))
def test_a_log_that_is_read_in_parts_has_the_rows_of_one_that_is_read_at_once(
    seed: int, cuts: list[int]
) -> None:
    events = wander(seed, STEPS).events
    assert folded_in_parts(events, cuts) == folded(events)


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS, begin=st.integers(0, STEPS), holes=st.integers(0, 30))
def test_what_was_left_out_contradicts_nothing(seed: int, begin: int, holes: int) -> None:
    events = wander(seed, STEPS).events[begin:]
    chance = random.Random(seed)
    kept = [each for each in events if chance.randrange(100) >= holes]
    fold = folding(kept[: len(kept) // 2])
    check(whole(fold.take(), fold.open()))
    check(folded(kept))
