"""Commits between two records of their group, reduced to runs."""

from itertools import groupby, pairwise
from operator import itemgetter
from random import Random

import pytest

from groupkeeper.analytics.pipeline.feed import RUNS, CommitRun, commit_runs, runs, spans, spans_of
from tests.analytics.folded import parsed
from tests.analytics.logs import NOW, batch, commit, forgotten, group, log, marker

LARGE = 2_000_000_000
"""Number of a partition."""


def written(seed):
    """Commits, tombstones and group records of a few groups and leader epochs, in no order."""
    random, made = Random(seed), []
    for _ in range(300):
        place = random.choice("gh"), random.choice("tu"), random.choice([0, 1, LARGE])
        choices = [commit(*place, 1)] * 6 + [forgotten(*place), group(place[0], 1, "m")]
        made.append((random.randrange(5000), random.choice(choices)))
    return log(
        *(
            led(at // 2_000, batch([record], base_time=NOW + at))
            for at, record in sorted(made, key=itemgetter(0))
        )
    )


def led(epoch, data):
    """The batch with another leader epoch, which its checksum does not cover."""
    return data[:12] + epoch.to_bytes(4, "big") + data[16:]


def counted(table):
    """The same, one row at a time."""
    cuts, keyed = {}, []
    for row in table.to_pylist():
        if row["key_type"] == 2:
            cuts[row["group"]] = row["offset"]
        elif not row["tombstone"]:
            place = row["group"], row["topic"], row["topic_partition"]
            run = *place, cuts.get(row["group"], -1), row["leader_epoch"]
            keyed.append((run, row["offset"], row["timestamp_ms"]))
    found = []
    for place, rows in groupby(sorted(keyed), key=lambda each: each[0]):
        offsets, times = zip(*((offset, at) for _, offset, at in rows), strict=True)
        gaps = [later - at for at, later in pairwise(times)]
        ends = offsets[0], offsets[-1], *place[:3], times[0], times[-1]
        found.append(CommitRun(*ends, len(offsets), max(gaps, default=0), place[-1]))
    return sorted(found)


@pytest.mark.parametrize("seed", range(5))
def test_runs_are_what_a_loop_over_all_commits_finds(seed):
    table = parsed(written(seed))
    assert [*runs(commit_runs(table))] == counted(table)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("numbers", [(2**31 - 1,), (-(2**31),), (-(2**31), -1, 0, 2**31 - 1)])
def test_runs_of_any_partition_numbers(numbers):
    table = parsed(log(batch([commit("g", "t", each, 1) for each in numbers * 2])))
    found = runs(commit_runs(table))
    assert [(each.partition, each.commits) for each in found] == [(each, 2) for each in numbers]


def test_a_log_without_commits_has_no_runs():
    assert commit_runs(parsed(batch([group("g", 1, "m")]))) == RUNS.empty_table()


def test_spans_are_cut_at_leader_epochs_and_know_their_last_hole():
    def at(offset, epoch):
        return led(epoch, batch([commit("g", "t", 0, 1)], offset))

    pieces = [at(0, 1), at(1, 1), at(4, 1), at(5, 1), at(6, 2), at(8, 2), marker(9, 7, commit=True)]
    pieces[-1] = led(2, pieces[-1])
    found = spans(spans_of(parsed(b"".join(pieces))))
    assert [each[:3] + each[4:5] + each[-1:] for each in found] == [
        (0, 5, 4, 1, 4),
        (6, 9, 8, 2, 3),
    ]
