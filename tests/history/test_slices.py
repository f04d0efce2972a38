"""A fold of events, of records and of both has the same rows in however many parts it is fed, by
partition and by group.
"""

import json
import random
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from groupkeeper.history.coverage import Span
from groupkeeper.history.group import GroupHistory, sound
from groupkeeper.history.partition import Fed, PartitionHistory
from groupkeeper.history.records import CommitRun, GroupRecord
from groupkeeper.history.rows import BY_BOTH, LOG, KnownOffsets, Row, Rows, RowWriter, Told
from tests.support import wandering_events, wandering_records
from tests.support.scene import GROUP

SEEDS: Final = st.integers(0, 10_000)
CUTS: Final = st.lists(st.integers(0, 200), max_size=6)
LOST: Final = st.lists(st.integers(0, 120), max_size=1).map(
    lambda some: KnownOffsets(0, tuple(some))
)
STEPS: Final = 60


def events(seed: int) -> list[Told]:
    found = wandering_events.wander(seed, STEPS).events
    return [Told(offset, event) for offset, event in enumerate(found)]


def records(seed: int) -> list[Fed]:
    return wandering_records.wander(seed, STEPS, (GROUP, "other"))


def mixed(seed: int) -> list[Fed]:
    """Each kind in its own order; the events begin anywhere."""
    chance = random.Random(seed)
    one = events(seed)
    one = one[chance.randrange(len(one) - 5) :][::-1]
    start_ms = one[-1].event.at_ms - chance.randrange(300_000)
    other = wandering_records.wander(seed, STEPS, (GROUP, "other"), start_ms)[::-1]
    found: list[Fed] = []
    while one or other:
        is_event = chance.randrange(len(one) + len(other)) < len(one)
        found.append(one.pop() if is_event else other.pop())
    return found


def is_border(before: Fed, after: Fed) -> bool:
    """A log is cut between two record batches only."""
    return not (
        isinstance(before, GroupRecord)
        and isinstance(after, GroupRecord)
        and before.batch == after.batch
    )


def folded(fed: Sequence[Fed], known: KnownOffsets, cuts: Collection[int] = ()) -> Rows:
    """All rows; before those places the fold is put away as JSON, and taken up again."""
    fold, rows = PartitionHistory(0, known), dict[str, list[Row]]()
    for place, each in enumerate(fed):
        if place in cuts and place and is_border(fed[place - 1], each):
            extend(rows, fold.take())
            fold = PartitionHistory.restore(json.loads(json.dumps(fold.state())))
        fold.add(each)
    extend(rows, fold.take())
    return extend(rows, fold.open())


def extend(rows: Rows, more: Rows) -> Rows:
    for name, each in more.items():
        rows.setdefault(name, []).extend(each)
    return rows


def compare(fed: Sequence[Fed], known: KnownOffsets, cuts: Collection[int]) -> None:
    whole = folded(fed, known)
    assert any(whole[name] for name in BY_BOTH)
    assert folded(fed, known, cuts) == whole


@settings(max_examples=25, deadline=None)
@given(SEEDS, LOST, CUTS)
def test_events_in_slices(seed: int, known: KnownOffsets, cuts: list[int]) -> None:
    compare(events(seed), known, cuts)


@settings(max_examples=60, deadline=None)
@given(SEEDS, LOST, CUTS)
def test_records_in_slices(seed: int, known: KnownOffsets, cuts: list[int]) -> None:
    compare(records(seed), known, cuts)


@settings(max_examples=60, deadline=None)
@given(SEEDS, LOST, CUTS)
def test_events_and_records_in_slices(seed: int, known: KnownOffsets, cuts: list[int]) -> None:
    compare(mixed(seed), known, cuts)


@settings(max_examples=30, deadline=None)
@given(SEEDS, LOST, CUTS)
def test_a_group_by_itself_has_the_rows_that_it_has_in_its_partition(
    seed: int, known: KnownOffsets, cuts: list[int]
) -> None:
    fed = mixed(seed)
    rows = extend(alone(GROUP, fed, known, cuts), alone("other", fed, known, ()))
    whole = folded(fed, known)
    for name in (*BY_BOTH, "refusals", "snapshots", "members", "assignments"):
        assert sorted(map(str, rows[name])) == sorted(map(str, whole[name])), name


def alone(group: str, fed: Iterable[Fed], known: KnownOffsets, cuts: Collection[int]) -> Rows:
    """The rows of one group that is fed with what is of it, and of the partition."""
    history, rows = GroupHistory(group, RowWriter(0, known)), dict[str, list[Row]]()
    own = [each for each in map(of_group, fed) if each is not None]
    before = None
    for place, each in enumerate(own):
        whose = each.event.group if isinstance(each, Told) else each.group
        if whose not in (group, None):
            continue
        if place in cuts and (before is None or is_border(before, each)):
            extend(rows, history.take())
            state = json.loads(json.dumps(history.state()))
            history = GroupHistory.restore(state, RowWriter(0, known))
        history.add(each)
        before = each
    extend(rows, history.take())
    return extend(rows, history.open())


def of_group(fed: Fed) -> Told | GroupRecord | CommitRun | None:
    """Keep what a group is fed with: spans are of no group."""
    if isinstance(fed, Span):
        return None
    return sound(fed) if isinstance(fed, Told) else fed


@settings(max_examples=20, deadline=None)
@given(SEEDS)
def test_rows_of_records_end_where_events_begin(seed: int) -> None:
    fed = mixed(seed)
    told = [each for each in fed if isinstance(each, Told)]
    first_ms = next(each.event.at_ms for each in told if each.event.group is not None)
    rows = folded([*told, *(each for each in fed if not isinstance(each, Told))], KnownOffsets())
    plans = ("rebalance_completed", "group_emptied")
    planned_ms = next((each.event.at_ms for each in told if each.event.type in plans), None)
    for name, time, end_ms in (
        ("rounds", "ended", first_ms),
        ("sessions", "from", first_ms),
        ("ownership", "until", planned_ms and planned_ms + 1),
    ):
        inferred = [row for row in rows[name] if row["source"] == LOG and row["group"] == GROUP]
        if end_ms is not None:
            assert all(row[time] is not None and row[time] < end_ms for row in inferred)
