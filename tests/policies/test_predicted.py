"""What is measured at clients, and when a forecast is near enough. The plays themselves are begun
with `python -m tests.policies.predicted`.
"""

import pytest

from groupkeeper.coordinator.policy import OFF
from tests.policies.predicted.forecasts import Forecast
from tests.policies.predicted.plays import PLAYS
from tests.policies.predicted.unread import unread_ms

ALL = frozenset(range(4))
NONE = frozenset[int]()


@pytest.mark.parametrize(
    ("processes", "unread"),
    [
        ([[(1_000, ALL)]], 0),  # nothing counts before the first assignment
        ([[(500, NONE), (1_000, ALL), (2_000, NONE), (2_500, ALL)]], 4 * 500),
        ([[(1_000, frozenset({0, 1, 2}))], [(4_000, frozenset({3}))]], 3_000),
        ([[(1_000, ALL), (3_000, frozenset({0, 1}))], [(3_100, frozenset({2, 3}))]], 2 * 100),
        ([[(1_000, ALL)], [(2_000, ALL), (3_000, NONE)]], 0),  # another one reads them
        ([[(1_000, ALL), (1_000, NONE), (1_000, ALL)]], 0),  # turns stay in order
        ([[(1_000, ALL), (9_000, NONE), (11_000, ALL)]], 4 * 1_000),  # to the end of the log
        ([], 0),
    ],
)
def test_partitions_that_no_process_owns(
    processes: list[list[tuple[int, frozenset[int]]]], unread: int
) -> None:
    assert unread_ms(processes, 4, until_ms=10_000) == unread


@pytest.mark.parametrize(
    ("predicted", "is_met"),
    [((2, 109.0), True), ((2, 91.0), True), ((2, 111.0), False), ((3, 100.0), False)],
)
def test_a_forecast_is_met_if_rebalances_are_exact_and_time_is_near(
    predicted: tuple[int, float], is_met: bool
) -> None:
    assert Forecast("2", "client", "what", (2, 100.0), predicted).is_met is is_met


def test_of_little_time_only_rebalances_count() -> None:
    assert Forecast("2", "client", "what", (2, 9.9), (2, 0.0)).is_met
    assert not Forecast("2", "client", "what", (2, 9.9), (3, 9.9)).is_met
    assert Forecast("2", "client", "what", (2, 0.0), (2, 0.0)).off == 0.0


def test_each_check_has_a_policy() -> None:
    assert [each.number for each in PLAYS] == ["2", "15", "21a", "21b", "24"]
    assert all(each.policy != OFF for each in PLAYS)
