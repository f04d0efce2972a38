"""Who may open how many files."""

import pytest

from groupkeeper.server.descriptors import LEAST, TOPIC_LOGS, share


@pytest.mark.parametrize("limit", [256, 1_024, 4_096, 65_536, 1_048_576])
def test_what_is_shared_fits_with_a_reserve(limit: int) -> None:
    connections, topic_logs = share(limit, 50)
    assert connections + topic_logs + 2 * 50 + 64 <= limit
    assert connections >= topic_logs >= LEAST or topic_logs == LEAST


def test_more_files_are_more_connections() -> None:
    few, (many, topic_logs) = share(1_024, 50)[0], share(100_000, 50)
    assert few < many
    assert topic_logs == TOPIC_LOGS


def test_however_low_the_limit_is_some_connections_are_served() -> None:
    assert share(64, 50)[0] == LEAST
