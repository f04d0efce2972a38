"""The two tiers of tests: `make test` runs the short one, `make test-all` both."""

from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parent
LONG: Final = frozenset(
    ("benchmarks", "chaos", "clients", "fuzz", "kills", "packaging", "simulation", "weeks")
)
"""Folders of which only the tests marked `smoke` are in the short tier: they take half of the time,
and prove what seldom changes with a commit.
"""


def is_long(item: pytest.Item) -> bool:
    """Whether a test is in the long tier only."""
    if item.get_closest_marker("smoke") is not None:
        return False
    is_in_folder = TESTS in item.path.parents and item.path.relative_to(TESTS).parts[0] in LONG
    return is_in_folder or any(item.get_closest_marker(name) for name in ("slow", "spark"))
