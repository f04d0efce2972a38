"""Commits by the minute: the same from any pieces, and as counted one by one."""

import random
from itertools import pairwise

import pytest

from groupkeeper.analytics.pipeline import commits, partitions
from tests.analytics.logs import (
    NOW,
    TRANSACTIONAL,
    analysis,
    batch,
    commit,
    forgotten,
    marker,
    write_segment,
)
from tests.analytics.stored import read_tables

MINUTE = 60_000


def random_log(seed):
    """Batches, and (topic partition, time, offset) of what was committed."""
    chance = random.Random(seed)
    batches, truth, open_since, now = [], [], {}, NOW
    for base in range(300):
        now += chance.choice([0, 900, 5_000, 70_000])
        partition = chance.randrange(3)
        one = commit("g", "t", partition, base, time=now)
        match chance.randrange(8):
            case 0:
                batches.append(batch([forgotten("g", "t", partition)], base))
            case 1:
                one = commit("g", "t", 3, base, time=now)
                batches.append(batch([one], base, TRANSACTIONAL, 7))
                open_since.setdefault(7, []).append((3, now, base))
            case 2:
                is_commit = chance.random() < 0.7
                batches.append(marker(base, 7, commit=is_commit))
                decided = open_since.pop(7, [])
                truth += decided if is_commit else []
            case _:
                batches.append(batch([one], base))
                truth.append((partition, now, base))
    return batches, truth


def counted(truth):
    rows = {}
    for partition, time, offset in sorted(truth, key=lambda each: each[1:]):
        rows.setdefault((partition, time // MINUTE * MINUTE), []).append((time, offset))
    return {
        key: (
            len(of),
            of[0][1],
            of[-1][1],
            max((after - before for (before, _), (after, _) in pairwise(of)), default=None),
        )
        for key, of in rows.items()
    }


@pytest.mark.parametrize("seed", range(5))
def test_minutes_are_those_of_the_commits_one_by_one(seed, tmp_path, monkeypatch):
    monkeypatch.setattr(commits, "MOST_MINUTES", 3)
    batches, truth = random_log(seed)
    write_segment(tmp_path / "__consumer_offsets-0", 0, b"".join(batches))
    out = tmp_path / "out"
    analysis(tmp_path, out=out, chunk_bytes=8000)
    rows = read_tables(out)["commit_minutes"].to_pylist()
    found = {}
    for row in rows:
        key = row["topic_partition"], round(row["minute"].timestamp() * 1000)
        assert key not in found
        found[key] = tuple(
            row[name] for name in ("commits", "first_offset", "last_offset", "longest_gap_ms")
        )
    assert found == counted(truth)
    every = read_tables(out)["commits"].to_pylist()
    committed = [row["offset"] for row in every if row["committed_offset"] is not None]
    assert sorted(committed) == sorted(offset for _, _, offset in truth)


def test_minutes_are_written_before_the_log_ends(tmp_path, monkeypatch):
    """A long log keeps an hour of them in memory."""
    kept = []
    take = commits.Minutes.take_before

    def taken(self, minute):
        rows = take(self, minute)
        kept.append(self._rows)
        return rows

    monkeypatch.setattr(partitions.Minutes, "take_before", taken)
    log = [batch([commit("g", "t", 0, n, time=NOW + n * MINUTE)], n) for n in range(600)]
    write_segment(tmp_path / "__consumer_offsets-0", 0, b"".join(log))
    analysis(tmp_path, out=tmp_path / "out", chunk_bytes=4000)
    assert len(kept) > 6
    assert max(kept) < 200
    assert read_tables(tmp_path / "out")["commit_minutes"].num_rows == 600
