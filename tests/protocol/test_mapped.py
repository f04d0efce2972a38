"""Arrays that are made while they are read, and arrays that are freed in slices."""

from typing import Any

import pytest

from groupkeeper.protocol.mapped import FREED_IN_A_SLICE, bulk, free, mapped
from groupkeeper.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsResponse


def described(count: int) -> list[DescribedGroup]:
    return [DescribedGroup(group_id=f"g{number}") for number in range(count)]


def test_the_rows_of_a_bulk_array_are_read_as_often_as_wanted_in_its_order() -> None:
    rows = bulk(["a", "b", "c"], [2, 0, 0])
    assert [*rows] == [*rows] == ["c", "a", "a"]
    assert (len(rows), rows[1]) == (3, "a")
    assert [*bulk(["a", "b"])] == ["a", "b"]


@pytest.mark.parametrize("within", [False, True])
def test_a_slice_frees_a_bounded_number_of_rows(within: bool) -> None:
    """Also where an array is made of the rows."""
    rows: list[Any] = described(3 * FREED_IN_A_SLICE + 1)
    groups = mapped(lambda row: row, bulk(rows)) if within else bulk(rows)
    response = DescribeGroupsResponse(groups=groups)
    left = [len(rows) for _ in free(response)]
    assert left == [1 + FREED_IN_A_SLICE * times for times in (2, 1, 0)]
    assert rows == []
    assert len(response.groups) == 0


def test_a_short_array_is_freed_in_one_slice_and_others_are_left_alone() -> None:
    rows, plain = described(FREED_IN_A_SLICE), described(2)
    assert [*free(DescribeGroupsResponse(groups=bulk(rows)))] == []
    assert rows == []
    assert [*free(DescribeGroupsResponse(groups=plain))] == []
    assert len(plain) == 2
