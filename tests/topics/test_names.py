"""Topic names: legal ones, illegal ones, colliding ones."""

import pytest

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.topics import names


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "...", "__x", "x" * 249, "-"])
def test_legal_names(name: str) -> None:
    assert names.check_name(name) is None


@pytest.mark.parametrize(
    "name", ["", ".", "..", "x" * 250, "a b", "a/b", "a\\b", "a\0", "a\n", "ä", "a:b", "٣"]
)
def test_illegal_names(name: str) -> None:
    refusal = names.check_name(name)
    assert refusal is not None
    assert refusal.error == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert "invalid" in (refusal.message or "")


def test_dots_and_underscores_collide() -> None:
    assert names.collision_key("a.b_c") == names.collision_key("a_b.c")
    assert names.collision_key("a.b") != names.collision_key("a-b")
