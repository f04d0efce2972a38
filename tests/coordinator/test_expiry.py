"""Retention: which offsets grow old, counted from when, and when the group goes too (KIP-211)."""

import pytest

from coordinator.facts import GroupDeleted, OffsetsRemoved
from tests.support.scene import Scene, topics

DAY, CHECK, LONG = 86_400_000, 600_000, 1_800_000_000
SHORT = {"offsets_retention_ms": DAY, "max_session_timeout_ms": LONG}


def test_a_simple_groups_offsets_count_from_their_commit() -> None:
    scene = Scene(**SHORT)
    scene.commit("admin", topic="old")
    scene.advance(DAY // 2)
    scene.commit("admin", topic="new")
    scene.advance(DAY // 2 + CHECK)
    assert [t.name for t in scene.fetch(None).topics] == ["new"]


def test_the_group_goes_with_its_last_offset() -> None:
    scene = Scene(**SHORT)
    scene.commit("admin")
    scene.advance(DAY + CHECK)
    assert scene.groups() == {}
    assert scene.noted(GroupDeleted)[0].expired is True
    scene.crash()
    assert scene.groups() == {}


def test_a_group_that_had_members_counts_from_the_moment_it_became_empty() -> None:
    scene = Scene(**SHORT)
    scene.form("alice", session=LONG)
    scene.commit("alice")
    scene.advance(DAY)
    scene.leave("alice")
    scene.advance(DAY - CHECK)
    assert scene.offset() == 7
    scene.advance(2 * CHECK)
    assert scene.state == "Dead"


def test_the_moment_survives_a_crash() -> None:
    scene = Scene(**SHORT)
    scene.form("alice", session=LONG)
    scene.commit("alice")
    scene.advance(DAY)
    scene.leave("alice")
    scene.crash()
    scene.advance(DAY - CHECK)
    assert scene.offset() == 7


def test_a_stable_consumer_group_loses_only_topics_nobody_subscribes_to() -> None:
    scene = Scene(**SHORT)
    scene.form("alice", session=LONG, protocols={"range": topics("mine")})
    scene.commit("alice", topic="mine")
    scene.commit("alice", topic="other")
    scene.advance(DAY + CHECK)
    assert [t.name for t in scene.fetch(None).topics] == ["mine"]


def test_during_a_rebalance_nothing_expires() -> None:
    scene = Scene(**SHORT)
    scene.form("alice", session=LONG, rebalance=LONG)
    scene.commit("alice", topic="other")
    scene.knock("late", session=LONG)
    scene.join("alice")
    scene.advance(DAY + CHECK)
    assert scene.state == "PreparingRebalance"
    assert scene.offset("other") == 7


@pytest.mark.parametrize(("kind", "metadata"), [("connect", topics("t")), ("consumer", b"\xff")])
def test_with_members_of_unknown_wishes_nothing_expires(kind: str, metadata: bytes) -> None:
    scene = Scene(**SHORT)
    scene.form("worker", session=LONG, type=kind, protocols={"range": metadata})
    scene.commit("worker", topic="other")
    scene.advance(DAY + CHECK)
    assert scene.offset("other") == 7


def test_a_retention_of_its_own_replaces_the_groups() -> None:
    scene = Scene(**SHORT)
    scene.commit("admin", topic="short", version=2, retention_time_ms=1)
    scene.commit("admin", topic="long", version=2, retention_time_ms=3 * DAY)
    scene.advance(CHECK)
    assert [t.name for t in scene.fetch(None).topics] == ["long"]
    scene.advance(2 * DAY)
    assert scene.offset("long") == 7


def test_a_group_without_offsets_goes_even_with_pending_ids() -> None:
    scene = Scene(**SHORT)
    scene.knock("alice", session=LONG)
    scene.advance(CHECK)
    assert scene.groups() == {}
    assert scene.knock("alice").outcome == "UNKNOWN_MEMBER_ID"


def test_a_group_with_members_never_goes() -> None:
    scene = Scene(**SHORT)
    scene.form("alice", session=LONG)
    scene.advance(3 * DAY)
    assert scene.state == "Stable"


def test_expired_offsets_are_counted() -> None:
    scene = Scene(**SHORT)
    scene.commit("admin", partitions=(0, 1))
    scene.advance(DAY + CHECK)
    (fact,) = scene.noted(OffsetsRemoved)
    assert (fact.offsets, fact.expired) == (2, True)
