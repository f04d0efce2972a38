"""Topic names: legal ones, illegal ones, colliding ones."""

import pytest

from groupkeeper.topics import names


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "...", "__x", "x" * 249, "-"])
def test_legal_names(name):
    assert names.complaint(name) is None


@pytest.mark.parametrize(
    "name", ["", ".", "..", "x" * 250, "a b", "a/b", "a\\b", "a\0", "a\n", "ä", "a:b", "٣"]
)
def test_illegal_names(name):
    assert "invalid" in names.complaint(name)


def test_dots_and_underscores_collide():
    assert names.collision_key("a.b_c") == names.collision_key("a_b.c")
    assert names.collision_key("a.b") != names.collision_key("a-b")
