"""Retention: which offsets grow old, counted from when, and when the group goes too (KIP-211)."""

from typing import Any

import pytest

from groupkeeper.coordinator.deletion import PIECE_OFFSETS
from groupkeeper.coordinator.facts import GroupDeleted, OffsetsRemoved
from groupkeeper.coordinator.group import Group
from groupkeeper.coordinator.step import Step
from tests.support.scene import WALL, Scene

DAY, CHECK, LONG = 86_400_000, 600_000, 1_800_000_000
SHORT: dict[str, Any] = {"offsets_retention_ms": DAY, "max_session_timeout_ms": LONG}
ONCE: dict[str, Any] = {"offsets_retention_ms": DAY, "offsets_retention_check_interval_ms": DAY}


def test_a_group_that_goes_with_its_last_offset_in_a_later_piece_has_expired() -> None:
    scene = Scene(**ONCE)
    scene.commit("admin", partitions=range(PIECE_OFFSETS))
    scene.commit("admin", partitions=range(PIECE_OFFSETS, PIECE_OFFSETS + 10))
    scene.advance(2 * DAY)
    assert [fact.why for fact in scene.noted(GroupDeleted)] == ["expired"]


@pytest.mark.parametrize("committed", [False, True])
def test_a_group_without_offsets_goes_unused(committed: bool) -> None:
    scene = Scene(**SHORT)
    scene.form("alice")
    if committed:
        scene.commit("alice")
        scene.forget_topics("t")
    scene.leave("alice")
    scene.advance(CHECK)
    assert [(fact.why, fact.who) for fact in scene.noted(GroupDeleted)] == [("unused", None)]


def test_the_moment_survives_a_crash() -> None:
    scene = Scene(**SHORT)
    scene.form("alice", session=LONG)
    scene.commit("alice")
    scene.advance(DAY)
    scene.leave("alice")
    scene.crash()
    scene.advance(DAY - CHECK)
    assert scene.offset() == 7


def test_expired_offsets_are_counted() -> None:
    scene = Scene(**SHORT)
    scene.commit("admin", partitions=(0, 1))
    scene.advance(DAY + CHECK)
    (fact,) = scene.noted(OffsetsRemoved)
    assert (fact.offsets, fact.why, fact.who) == (2, "expired", None)


# -- many of them ----------------------------------------------------------------------------------


def one_piece(scene: Scene) -> Step:
    """Go to the next deadline and handle it."""
    due = scene.partition.next_deadline()
    assert due is not None
    scene.now = max(scene.now, due)
    size = len(scene.log)
    step = scene.ring()
    step.records = scene.log[size:]
    return step


def test_expiry_is_done_in_pieces() -> None:
    scene = Scene(**ONCE)
    for group in ("a", "b", "c"):
        scene.commit("admin", group_id=group, partitions=range(5_000))
    pieces = [one_piece(scene)]
    while scene.groups():
        pieces.append(one_piece(scene))
    written = [len(piece.records) for piece in pieces if piece.records]
    assert sum(written) == 15_003
    assert max(written) <= PIECE_OFFSETS
    assert scene.wall - WALL < DAY + 1_200, "one piece follows the other"
    scene.crash()
    assert scene.groups() == {}


def test_a_piece_keeps_what_is_young_and_loses_nothing_of_the_old() -> None:
    scene = Scene(**ONCE)
    scene.commit("admin", partitions=range(9_000))
    scene.advance(DAY // 2)
    scene.commit("admin", partitions=range(1, 9_000, 2))
    scene.advance(DAY // 2 + 200)
    assert list(scene.group.offsets["t"]) == list(range(1, 9_000, 2))


def test_a_piece_looks_at_so_many_offsets_at_most() -> None:
    scene = Scene(**ONCE | {"offsets_retention_ms": 2 * DAY})
    scene.commit("admin", partitions=range(9_000))
    kept, whole = [], 9_000 // PIECE_OFFSETS
    for _ in range(whole + 1):
        one_piece(scene)
        kept.append(scene.partition.groups.expiry_check.kept)
    assert kept == [PIECE_OFFSETS * (at + 1) for at in range(whole)] + [0]
    assert scene.partition.next_deadline() == scene.now + DAY


def test_a_piece_is_durable_before_the_next_one() -> None:
    scene = Scene(**ONCE)
    scene.commit("admin", partitions=range(9_000))
    scene.hold = True
    scene.advance(DAY + 1_000)
    assert len(scene.group.offsets["t"]) == 9_000 - PIECE_OFFSETS
    assert scene.partition.next_deadline() is None, "a slow disk is waited for, not asked"
    scene.hold = False
    scene.flush()
    assert (scene.partition.next_deadline() or 0) <= scene.now, "due at once"
    scene.advance(1_000)
    assert scene.partition.groups == {}


def test_very_many_groups_are_several_pieces() -> None:
    scene = Scene(**ONCE)
    for number in range(PIECE_OFFSETS + 100):
        scene.partition.groups[f"g{number}"] = Group(f"g{number}", -1, is_stored=True)
    assert len(one_piece(scene).records) == PIECE_OFFSETS
    assert len(one_piece(scene).records) == 100


def test_the_tombstones_of_a_piece_are_far_below_the_largest_message() -> None:
    limit = 1_048_588
    scene = Scene(**ONCE)
    for base in range(0, 90, 30):
        scene.commit("admin", group_id="g" * 32_000, partitions=range(base, base + 30))
    sizes = []
    while scene.groups():
        sizes.append(sum(len(key) for key, _ in one_piece(scene).records))
    assert sum(sizes) > 90 * 32_000
    assert max(sizes) < limit // 8


def test_groups_may_go_and_come_between_the_pieces() -> None:
    scene = Scene(**ONCE)
    for group in ("a", "b", "c"):
        scene.commit("admin", group_id=group, partitions=range(5_000))
    for _ in range(100):
        one_piece(scene)
        scene.delete("b", "c")
        scene.commit("admin", group_id="c")
    assert scene.groups() == {"c": "Empty"}
