"""What is derived from records, on a log with a known story."""

import os
from datetime import UTC, datetime

import pytest
from pyarrow import parquet

from groupkeeper.analytics.command import report
from groupkeeper.analytics.command.request import Request
from tests.analytics.logs import (
    NOW,
    STORY,
    TRANSACTIONAL,
    batch,
    commit,
    forgotten,
    group,
    marker,
    no_group,
    tables,
    write_segment,
)


def transactions():
    """Producer 1 commits, 2 aborts, 3 stays open; later plain commits and tombstones win."""
    step = iter(range(100, 200))

    def pending(producer, *commits):
        return [batch([each], next(step), TRANSACTIONAL, producer) for each in commits]

    return [
        batch([commit("o", "t", 0, 1), commit("o", "t", 1, 1)], 50),
        *pending(1, commit("o", "t", 0, 10), commit("o", "t", 2, 10), commit("o", "t", 3, 10)),
        *pending(2, commit("o", "t", 1, 20)),
        batch([commit("o", "t", 2, 99, metadata="later", time=NOW + 5)], next(step)),
        batch([forgotten("o", "t", 3)], next(step)),
        marker(next(step), 2, commit=False),
        marker(next(step), 1, commit=True),
        *pending(3, commit("o", "t", 0, 30)),
        *pending(1, commit("o", "t", 1, 40)),
        marker(next(step), 1, commit=False),
        batch([(commit("o", "t", 0, 5, key_type=0)[0], b"\0\3")], next(step)),
        batch([(b"\0\3\0\5newer", b"\0\0")], next(step)),
        batch([(group("bad", 1, "m")[0], b"\0\3\0\x08")], next(step)),
    ]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("log")
    story = [record for _, record in STORY]
    first, second = batch(story[:6]), batch(story[6:], 6)
    write_segment(root / "__consumer_offsets-0", 0, first + second)
    write_segment(root / "__consumer_offsets-1", 0, b"".join(transactions()))
    # The same batch once more: a compaction was under way when the log was copied.
    write_segment(root / "__consumer_offsets-0", 6, second)
    return tables(root, chunk_bytes=300)


def test_each_group_record_is_told_by_its_predecessor(made):
    told = [row for row in made["generations"] if row["group"] == "g"]
    assert [(row["offset"], row["kind"]) for row in told] == list(
        enumerate(kind for kind, _ in STORY)
    )
    assert [row["unwritten"] for row in told[3:6]] == [0, 2, 0]


def test_members_are_those_of_the_last_record(made):
    (row,) = made["members"]
    assert (row["group"], row["member_id"], row["group_instance_id"]) == ("g", "z", "i")
    assert (row["is_leader"], row["session_timeout_ms"], row["assigned_partitions"]) == (
        True,
        45000,
        0,
    )


def test_offsets_are_what_a_coordinator_would_load(made):
    rows = made["offsets"]
    assert [(row["topic_partition"], row["committed_offset"]) for row in rows] == [
        (0, 10),
        (1, 1),
        (2, 99),
    ]
    assert rows[2]["metadata"] == "later"
    assert rows[2]["commit_time"] == datetime.fromtimestamp((NOW + 5) / 1000, UTC)


def test_transactions_of_one_producer_cost_linear_time(tmp_path):
    """Quadratic, these took 50 s."""
    count, each = 40_000, 100
    batches = []
    for base in range(0, count, each):
        commits = [commit("g", "t", number, base + number) for number in range(each - 1)]
        batches.append(batch(commits, base, TRANSACTIONAL, 7))
        batches.append(marker(base + each - 1, 7, commit=base % 1000 == 0))
    write_segment(tmp_path / "__consumer_offsets-0", 0, b"".join(batches))
    started = sum(os.times()[:4])
    rows = tables(tmp_path)["offsets"]
    assert sum(os.times()[:4]) - started < 20
    newest = (count - 1) // 1000 * 1000
    assert {(row["topic_partition"], row["committed_offset"]) for row in rows} == {
        (number, newest + number) for number in range(each - 1)
    }


def test_groups_of_every_kind_are_listed(made):
    found = made["groups"]
    assert [(row["group"], row["type"], row["state"], row["offsets"]) for row in found] == [
        ("bad", "classic", None, 0),
        ("g", "classic", "Stable", 0),
        ("newer", "consumer", None, 0),
        ("o", "simple", "Empty", 3),
    ]


def test_unreadable_values_are_problems(made):
    assert [row["problem"].split(":")[0] for row in made["problems"]] == [
        "records that another segment holds too, read once",
        *["unreadable value"] * 3,
    ]


def test_a_time_behind_the_year_9999_is_none(tmp_path):
    log = batch([commit("g", "t", 0, 1, time=10**17), commit("g", "t", 1, 1, time=-1)])
    write_segment(tmp_path / "__consumer_offsets-0", 0, log)
    made = tables(tmp_path)
    assert [row["commit_time"] for row in made["offsets"]] == [None, None]
    assert made["groups"][0]["last_change"] is None


LEFT = [
    batch([commit("emptied", "t", 0, 1), forgotten("emptied", "t", 0)], 0),
    batch([commit("deleted", "t", 0, 1)], 2),
    batch([forgotten("deleted", "t", 0), no_group("deleted")], 3),
    batch([commit("reborn", "t", 0, 1)], 5),
    batch([forgotten("reborn", "t", 0), no_group("reborn")], 6),
    batch([commit("reborn", "t", 0, 1), forgotten("reborn", "t", 0)], 8),
    batch([commit("aborted", "t", 0, 1)], 10, TRANSACTIONAL, 1),
    batch([commit("aborted-later", "t", 0, 1)], 11, TRANSACTIONAL, 1),
    marker(12, 1, commit=False),
    batch([commit("pending", "t", 0, 1)], 13, TRANSACTIONAL, 2),
    batch([commit("kept", "t", 0, 1), commit("kept", "t", 1, 1), forgotten("kept", "t", 0)], 14),
]


@pytest.mark.parametrize("chunk_bytes", [100, 100_000])
def test_groups_without_offsets_are_there_until_they_are_deleted(tmp_path, chunk_bytes):
    """As a coordinator has them: a commit that counts no more has made its group."""
    write_segment(tmp_path / "__consumer_offsets-0", 0, b"".join(LEFT))
    found = tables(tmp_path, chunk_bytes=chunk_bytes)
    assert {
        row["group"]: (row["type"], row["state"], row["offsets"]) for row in found["groups"]
    } == {
        "emptied": ("simple", "Empty", 0),
        "deleted": ("classic", "Dead", 0),
        "reborn": ("simple", "Empty", 0),
        "aborted": ("simple", "Empty", 0),
        "aborted-later": ("simple", "Empty", 0),
        "pending": ("simple", "Empty", 0),
        "kept": ("simple", "Empty", 1),
    }
    assert [row["group"] for row in found["offsets"]] == ["kept"]


def test_groups_without_offsets_are_there_in_later_runs(tmp_path):
    file, out = write_segment(tmp_path / "__consumer_offsets-0", 0, b""), tmp_path / "out"
    for number in range(1, len(LEFT) + 1):
        file.write_bytes(b"".join(LEFT[:number]))
        assert report.analyze([tmp_path / "__consumer_offsets-0"], Request(out)) == 0
    anew = tmp_path / "anew"
    assert report.analyze([tmp_path / "__consumer_offsets-0"], Request(anew)) == 0
    one, other = (parquet.read_table(each / "report" / "groups.parquet") for each in (out, anew))
    assert one.equals(other)
