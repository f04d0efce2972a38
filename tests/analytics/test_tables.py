"""What is derived from records, on a log with a known story."""

import time

import pytest

from groupkeeper.analytics import tables
from groupkeeper.analytics.modern import modern_groups
from tests.analytics.logs import (
    NOW,
    TRANSACTIONAL,
    batch,
    commit,
    forgotten,
    group,
    marker,
    no_group,
    write_segment,
)

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

STORY = [
    ("created", group("g", 0)),
    ("rebalance", group("g", 1, ("a", "i"), "b", leader="b")),
    ("static replacement", group("g", 1, ("a2", "i"), "b", leader="b")),
    ("rewrite", group("g", 1, "b", ("a2", "i"), leader="b")),
    ("rebalance", group("g", 4, "b", leader="b")),
    ("emptied", group("g", 5)),
    ("rebalance", group("g", 6, "c")),
    ("reset", group("g", 2, "c")),
    ("emptied", group("g", 2)),
    ("deleted", no_group("g")),
    ("created", group("g", 0)),
    ("rebalance", group("g", 1, ("z", "i"), leader="z")),
]


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
def records(spark, tmp_path_factory):
    root = tmp_path_factory.mktemp("log")
    story = [record for _, record in STORY]
    first, second = batch(story[:6]), batch(story[6:], 6)
    write_segment(root / "__consumer_offsets-0", 0, first + second)
    write_segment(root / "__consumer_offsets-1", 0, b"".join(transactions()))
    # The same batch once more: a compaction was under way when the log was copied.
    write_segment(root / "__consumer_offsets-0", 6, second)
    return spark.read.format("consumer_offsets").load(str(root)).persist()


@pytest.fixture(scope="module")
def events(records):
    return tables.group_events(records).persist()


@pytest.fixture(scope="module")
def modern(records):
    return modern_groups(records, {}).persist()


@pytest.fixture(scope="module")
def committed(records):
    return tables.offsets(records).persist()


def test_each_group_record_is_told_by_its_predecessor(events, records):
    told = [row for row in tables.generations(events, records).collect() if row["group"] == "g"]
    assert [(row["offset"], row["kind"]) for row in told] == list(
        enumerate(kind for kind, _ in STORY)
    )
    assert [row["unwritten"] for row in told[3:6]] == [0, 2, 0]


def test_members_are_those_of_the_last_record(events, modern):
    (row,) = tables.members(events, modern).collect()
    assert (row["group"], row["member_id"], row["group_instance_id"]) == ("g", "z", "i")
    assert (row["is_leader"], row["session_timeout_ms"], row["assigned_partitions"]) == (
        True,
        45000,
        0,
    )


def test_offsets_are_what_a_coordinator_would_load(committed):
    rows = committed.selectExpr("*", "unix_millis(commit_time) AS ms").collect()
    assert [(row["topic_partition"], row["committed_offset"]) for row in rows] == [
        (0, 10),
        (1, 1),
        (2, 99),
    ]
    assert (rows[2]["metadata"], rows[2]["ms"]) == ("later", NOW + 5)


def test_transactions_of_one_producer_cost_linear_time(spark, tmp_path):
    """Quadratic, these took 50 s."""
    count, each = 40_000, 100
    batches = []
    for base in range(0, count, each):
        commits = [commit("g", "t", number, base + number) for number in range(each - 1)]
        batches.append(batch(commits, base, TRANSACTIONAL, 7))
        batches.append(marker(base + each - 1, 7, commit=base % 1000 == 0))
    write_segment(tmp_path / "__consumer_offsets-0", 0, b"".join(batches))
    records = spark.read.format("consumer_offsets").load(str(tmp_path))
    started = time.monotonic()
    rows = tables.offsets(records).collect()
    assert time.monotonic() - started < 20
    newest = (count - 1) // 1000 * 1000
    assert {(row["topic_partition"], row["committed_offset"]) for row in rows} == {
        (number, newest + number) for number in range(each - 1)
    }


def test_groups_of_every_kind_are_listed(events, modern, committed):
    found = tables.groups(events, modern, committed).collect()
    assert [(row["group"], row["type"], row["state"], row["offsets"]) for row in found] == [
        ("bad", "classic", None, 0),
        ("g", "classic", "Stable", 0),
        ("newer", "consumer", None, 0),
        ("o", "simple", "Empty", 3),
    ]


def test_unreadable_values_are_problems(events, modern, records):
    found = tables.problems(records, events, modern).collect()
    assert [row["problem"].split(":")[0] for row in found] == [
        "records that another segment holds too, read once",
        *["unreadable value"] * 3,
    ]
