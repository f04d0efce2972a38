"""Where a group lives."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def unit_by_unit(text: str) -> int:
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - 0x1_0000_0000 if value & 0x8000_0000 else value


@given(
    st.text(st.characters(exclude_categories=()), max_size=40),
    st.sampled_from([1, 4, 40, 128, 129, 1_000]),
)
def test_the_hash_of_a_long_id_is_that_of_all_its_units(text: str, times: int) -> None:
    assert java_hash(text * times) == unit_by_unit(text * times)


@pytest.mark.parametrize(
    ("group", "partition"), [("", 0), ("hello", 22), ("polygenelubricants", 0)]
)
def test_the_absolute_hash_chooses_among_fifty(group: str, partition: int) -> None:
    assert partition_of(group, 50) == partition


def test_every_group_lives_in_the_only_partition() -> None:
    assert {partition_of(f"group-{n}", 1) for n in range(50)} == {0}
