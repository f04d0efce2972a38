"""Who may open how many files."""

import pytest

from groupkeeper.server.descriptors import LEAST, TOPIC_LOGS, share


@pytest.mark.parametrize("limit", [256, 1_024, 4_096, 65_536, 1_048_576])
def test_what_is_shared_fits_with_a_reserve(limit: int) -> None:
    shared = share(limit, 50)
    assert shared.connections + shared.topic_logs + 2 * 50 + 64 <= limit
    assert shared.connections >= shared.topic_logs >= LEAST or shared.topic_logs == LEAST


def test_more_files_are_more_connections() -> None:
    few, many = share(1_024, 50), share(100_000, 50)
    assert few.connections < many.connections
    assert many.topic_logs == TOPIC_LOGS


def test_however_low_the_limit_is_some_connections_are_served() -> None:
    assert share(64, 50).connections == LEAST
