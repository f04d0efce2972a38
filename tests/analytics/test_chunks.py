"""The pieces that are left of a log give the same offsets as all of it."""

import random

import pytest

from groupkeeper.analytics.pipeline import chunks, commits
from groupkeeper.analytics.pipeline.chunks import ReadJob, read_chunk
from groupkeeper.analytics.reading import parse
from groupkeeper.analytics.reading.plan import Split
from tests.analytics.logs import (
    TRANSACTIONAL,
    batch,
    commit,
    forgotten,
    group,
    marker,
    write_segment,
)


@pytest.fixture
def kept(tmp_path):
    """Rows that the first stage passes on of logs, which are neighbours."""

    def of(*logs, **job):
        splits = []
        for partition, data in logs:
            folder = tmp_path / f"{partition}-{len([*tmp_path.iterdir()])}"
            path = write_segment(folder, 0, data)
            splits.append(Split(str(path), partition, 0, len(data), last=True))
        found = read_chunk(ReadJob(str(tmp_path), **job), (0, tuple(splits)))
        return [row for piece in found.pieces for row in piece.passed["records"].read().to_pylist()]

    return of


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
    state.pop(None, None)  # the trace of a group
    return {key: (row["offset"], row["committed_offset"]) for key, row in state.items()}


@pytest.mark.parametrize("seed", range(20))
def test_what_is_kept_of_pieces_decides_the_same(seed, kept, monkeypatch):
    monkeypatch.setattr(chunks, "MOST_PENDING", seed)
    log = random_log(seed)
    data = b"".join(log)
    whole = Split("", 0, 0, len(data), last=True)
    every = [row for rows in parse(data, whole) for row in rows.to_pylist()]
    left = []
    for start in range(0, len(log), 80):
        left += kept((0, b"".join(log[start : start + 80])))
    assert coordinator(left) == coordinator(every)
    assert len(left) < len(every)


def test_old_commits_are_dropped_and_everything_else_is_kept(kept):
    log = batch([commit("g", "t", 0, 1), commit("g", "t", 0, 2), group("g", 1, "m")])
    later = batch([group("g", 2, "m")], 3)
    left = kept((0, log + b"torn" + later + b"unfinished"))
    assert sorted((row["offset"] or 0, row["problem"] is None) for row in left) == [
        (0, False),
        (1, True),
        (2, True),
        (3, True),
    ]


def test_records_are_counted_by_type(tmp_path):
    log = batch([commit("g", "t", 0, 1), commit("g", "t", 0, 2), forgotten("g", "t", 0)])
    log += marker(3, 7, commit=True) + b"torn"
    split = Split(str(write_segment(tmp_path, 0, log)), 0, 0, len(log), last=True)
    found = read_chunk(ReadJob(str(tmp_path)), (0, (split,)))
    assert found.counts == {(1, False): 2, (1, True): 1, (None, False): 1}


def test_partitions_do_not_mix(kept):
    log = batch([commit("g", "t", 0, 1), commit("g", "t", 0, 2)])
    other = batch([commit("h", "t", 0, 1), commit("i", "t", 0, 2)])
    found = kept((0, log), (1, other))
    assert [(row["partition"], row["offset"]) for row in found] == [(0, 1), (1, 0), (1, 1)]


def test_only_wanted_groups_are_kept_but_all_markers(kept):
    log = batch([commit("g", "t", 0, 1), commit("h", "t", 0, 2)]) + marker(2, 7, commit=True)
    left = kept((0, log), groups=frozenset({"h"}))
    assert {(row["group"], row["offset"]) for row in left} == {("h", 1), (None, 2)}


def test_many_keys_are_passed_on(kept, monkeypatch):
    monkeypatch.setattr(commits, "MOST_KEYS", 3)
    log = [batch([commit("g", "t", number, 1) for number in range(9)], at * 9) for at in range(2)]
    assert len(kept((0, log[0]), (0, log[1]))) == 18
