"""Where a group lives."""

import pytest

from groupkeeper.protocol.placement import java_hash, partition_of


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("my-group", -1906497762),
        ("polygenelubricants", -(2**31)),
        ("𝄞", 1772394),
    ],
)
def test_the_hash_is_javas_over_utf_16_units(text: str, value: int) -> None:
    assert java_hash(text) == value


@pytest.mark.parametrize(
    ("group", "partition"), [("", 0), ("hello", 22), ("polygenelubricants", 0)]
)
def test_the_absolute_hash_chooses_among_fifty(group: str, partition: int) -> None:
    assert partition_of(group, 50) == partition


def test_every_group_lives_in_the_only_partition() -> None:
    assert {partition_of(f"group-{n}", 1) for n in range(50)} == {0}
