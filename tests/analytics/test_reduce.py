"""The records that are kept of a log give the same offsets as all of them."""

import random

import pyarrow as pa
import pytest

from groupkeeper.analytics import reduce
from groupkeeper.analytics.parse import parse
from groupkeeper.analytics.plan import Split
from groupkeeper.analytics.reduce import KEPT, reduce_records
from tests.analytics.logs import (
    TRANSACTIONAL,
    batch,
    commit,
    forgotten,
    group,
    marker,
)

KEY = ("group", "topic", "topic_partition")


def parsed(data, partition=0):
    return list(parse(data, Split("", partition, 0, len(data), True), "reference"))


def kept(batches, **options):
    rows = pa.Table.from_batches(reduce_records(batches, **options), KEPT).to_pylist()
    return [row for row in rows if row["records"] is None]


def random_log(seed, count=400):
    """Commits, tombstones and transactions of a few keys and producers."""
    chance = random.Random(seed)
    batches = []
    for base in range(count):
        key = ("g", "t", chance.randrange(4))
        producer = chance.randrange(3)
        match chance.randrange(6):
            case 0:
                batches.append(marker(base, producer, commit=chance.random() < 0.6))
            case 1:
                batches.append(batch([forgotten(*key)], base))
            case 2:
                batches.append(batch([group("g", base, "m")], base))
            case 3 | 4:
                batches.append(batch([commit(*key, base)], base, TRANSACTIONAL, producer))
            case _:
                batches.append(batch([commit(*key, base)], base))
    return batches


def coordinator(rows):
    """What a coordinator has after loading the rows one by one."""
    pending, state = {}, {}
    for row in sorted(rows, key=lambda row: row["offset"]):
        if row["attributes"] & 0x20:
            decided = pending.pop(row["producer_id"], [])
            if row["key"] == b"\0\0\0\1":
                for each in decided:
                    state[each["topic_partition"]] = max(
                        each, state.get(each["topic_partition"], each), key=lambda r: r["offset"]
                    )
        elif row["key_type"] == 1 and row["attributes"] & TRANSACTIONAL:
            pending.setdefault(row["producer_id"], []).append(row)
        elif row["key_type"] == 1:
            state[row["topic_partition"]] = max(
                row, state.get(row["topic_partition"], row), key=lambda r: r["offset"]
            )
    return {key: (row["offset"], row["committed_offset"]) for key, row in state.items()}


@pytest.mark.parametrize("seed", range(20))
def test_what_is_kept_of_pieces_decides_the_same(seed):
    log = random_log(seed)
    every = [row for rows in parsed(b"".join(log)) for row in rows.to_pylist()]
    left = []
    for start in range(0, len(log), 80):
        whole = pa.concat_batches(parsed(b"".join(log[start : start + 80])))
        left += kept([whole.slice(at, 13) for at in range(0, len(whole), 13)])
    assert coordinator(left) == coordinator(every)
    assert len(left) < len(every)


def test_old_commits_are_dropped_and_everything_else_is_kept():
    log = batch([commit("g", "t", 0, 1), commit("g", "t", 0, 2), group("g", 1, "m")])
    left = kept(parsed(log + b"torn"))
    assert sorted((row["offset"] or 0, row["problem"] is None) for row in left) == [
        (0, False),
        (1, True),
        (2, True),
    ]


def test_records_are_counted_by_type():
    log = batch([commit("g", "t", 0, 1), commit("g", "t", 0, 2), forgotten("g", "t", 0)])
    rows = pa.Table.from_batches(reduce_records(parsed(log)), KEPT).to_pylist()
    counts = {(row["key_type"], row["tombstone"]): row["records"] for row in rows if row["records"]}
    assert counts == {(1, False): 2, (1, True): 1}


def test_partitions_do_not_mix():
    log = batch([commit("g", "t", 0, 1), commit("g", "t", 0, 2)])
    other = batch([commit("h", "t", 0, 1), commit("i", "t", 0, 2)])
    both = pa.concat_batches([*parsed(log), *parsed(other, 1)])
    assert [(row["partition"], row["offset"]) for row in kept([both])] == [(0, 1), (1, 0), (1, 1)]


def test_only_wanted_groups_are_kept_but_all_markers():
    log = batch([commit("g", "t", 0, 1), commit("h", "t", 0, 2)]) + marker(2, 7, commit=True)
    left = kept(parsed(log), groups=frozenset({"h"}))
    assert {(row["group"], row["offset"]) for row in left} == {("h", 1), (None, 2)}


def test_many_keys_are_passed_on(monkeypatch):
    monkeypatch.setattr(reduce, "MOST_KEYS", 3)
    log = [*parsed(batch([commit("g", "t", number, 1) for number in range(5)])) * 2]
    assert len(kept(log)) == 10
