"""Groups of the newer protocols, and groups that change from one protocol to another."""

import pytest

from groupkeeper.analytics.reading.groups import topic_names
from groupkeeper.analytics.reading.plan import plan
from tests.analytics.logs import batch, commit, group, no_group, tables, write_segment
from tests.analytics.newer_logs import (
    ORDERS,
    current,
    epoch,
    gone,
    key,
    member,
    share_member,
    streams_member,
    target,
)


def whole(name, members, number):
    """A stable consumer group."""
    each = [record for one in members for record in (member(name, one), current(name, one, number))]
    return [epoch(name, number), target(name, number), *each]


LOG = [
    whole("stable", ["a", "b"], 5),
    [epoch("empty", 7), target("empty", 7)],
    [epoch("assigning", 7), target("assigning", 6), member("assigning", "m")],
    [*whole("reconciling", ["a"], 3), current("reconciling", "a", 3, 1, state=1)],
    [*whole("behind", ["a"], 3), epoch("behind", 4), target("behind", 4)],
    whole("deleted", ["m"], 3),
    [gone(record) for record in whole("deleted", ["m"], 3)],
    [epoch("share", 2, kind=11), target("share", 2, kind=12), share_member("share", "m")],
    [epoch("share-deleted", 2, kind=11)],
    [gone(epoch("share-deleted", 2, kind=11))],
    [epoch("streams", 2, kind=17), target("streams", 2, kind=20), streams_member("streams", "m")],
    [group("upgraded", 1, "m"), commit("upgraded", "orders", 0, 5)],
    [no_group("upgraded"), *whole("upgraded", ["new"], 2), current("upgraded", "new", 2, 0, 1)],
    whole("downgraded", ["m"], 4),
    [*(gone(record) for record in whole("downgraded", ["m"], 4)), group("downgraded", 5, "m")],
    [group("recreated", 1, "m")],
    [no_group("recreated")],
    whole("recreated", ["m"], 1),
    [(key(15, "left"), None)],
    [commit("left-offsets", "orders", 0, 5), gone(epoch("left-offsets", 1))],
]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("log")
    batches, base = [], 0
    for each in LOG:
        batches.append(batch(each, base))
        base += len(each)
    write_segment(root / "__consumer_offsets-0", 0, b"".join(batches))
    (root / "orders-0").mkdir()
    (root / "orders-0" / "partition.metadata").write_text("topic_id: AAECAwQFBgcICQoLDA0ODw\n")
    return tables(root, chunk_bytes=500)


def test_states_follow_from_epochs(made):
    found = made["groups"]
    names = ("type", "state", "generation", "member_count")
    assert {row["group"]: tuple(row[name] for name in names) for row in found} == {
        "stable": ("consumer", "Stable", 5, 2),
        "empty": ("consumer", "Empty", 7, 0),
        "assigning": ("consumer", "Assigning", 7, 1),
        "reconciling": ("consumer", "Reconciling", 3, 1),
        "behind": ("consumer", "Reconciling", 4, 1),
        "deleted": ("consumer", "Dead", None, 0),
        "share": ("share", "Stable", 2, 1),
        "share-deleted": ("share", "Dead", None, 0),
        "streams": ("streams", "NotReady", 2, 1),
        "upgraded": ("consumer", "Stable", 2, 1),
        "downgraded": ("classic", "Stable", 5, 1),
        "recreated": ("consumer", "Stable", 1, 1),
        "left": ("other", "Dead", None, 0),
        "left-offsets": ("simple", "Empty", None, 0),
    }


def test_a_conversion_is_no_deletion(made):
    kinds = {}
    for row in made["generations"]:
        kinds.setdefault(row["group"], []).append((row["kind"], row["generation"]))
    assert kinds["upgraded"] == [("rebalance", 1), ("converted", None), ("epoch", 2)]
    assert kinds["downgraded"] == [("epoch", 4), ("converted", None), ("converted", 5)]
    assert kinds["recreated"] == [("rebalance", 1), ("deleted", None), ("epoch", 1)]
    assert kinds["share-deleted"] == [("epoch", 2), ("deleted", None)]


def test_members_have_epochs_and_assignments(made):
    (row,) = [row for row in made["members"] if row["group"] == "upgraded"]
    assert (row["member_id"], row["client_id"], row["member_epoch"]) == ("new", "client", 2)
    assert (row["rebalance_timeout_ms"], row["subscribed_topics"]) == (1000, ["orders"])
    (topic,) = row["assignment"]
    assert (topic["topic"], topic["partitions"]) == ("orders", [0, 1])
    assert row["assigned_partitions"] == 2


def test_topics_have_names_where_their_folders_are(tmp_path):
    write_segment(tmp_path / "__consumer_offsets-0", 0, batch([no_group("g")]))
    for name, text in ("my-topic-12", "topic_id: AAECAwQFBgcICQoLDA0ODw"), ("bad-1", "?"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "partition.metadata").write_text(f"version: 0\n{text}\n")
    assert topic_names(plan([tmp_path])) == {ORDERS: "my-topic"}
