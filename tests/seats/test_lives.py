"""Lives of groups with policies, from seeds; `python -m tests.seats` runs more."""

import pytest

from tests.seats.__main__ import lived

MUST_HAPPEN = {
    "member taken at once",
    "member taken with a rebalance",
    "seat ended",
    "seat ended with the group",
    "seat reserved",
    "seat taken at once",
    "seat taken with a rebalance",
}


PLANNED = {
    "life with expected members",
    "life with grace",
    "life with leader preference",
    "life with minimal interval",
    "life with scale window",
    "life with target size",
    "life with uniform",
    "life with watch",
    "newcomer without partitions",
    "seat reserved",
    "standby took over",
    "step of the server",
}


@pytest.mark.parametrize("part", range(3))
def test_no_partition_is_assigned_twice_and_no_seat_is_lost(part: int) -> None:
    happened, broken = lived(range(part * 50, part * 50 + 50))
    assert broken == []
    assert happened.keys() >= MUST_HAPPEN


@pytest.mark.parametrize("part", range(3))
def test_no_partition_is_assigned_twice_with_any_policies(part: int) -> None:
    happened, broken = lived(range(part * 50, part * 50 + 50), "all")
    assert broken == []
    assert happened.keys() >= PLANNED
