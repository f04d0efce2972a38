"""What every test shares: an environment without our variables, and calm property tests."""

import os

import pytest
from hypothesis import settings

# A loaded machine is no reason to fail; how long an example takes is not what these tests ask. What
# fails prints how to run it again (docs/testing.md).
settings.register_profile("groupkeeper", deadline=None, print_blob=True)
settings.load_profile("groupkeeper")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite", action="store_true", help="write the transcripts anew; review the diff"
    )


@pytest.fixture(autouse=True, scope="session")
def _no_settings_from_outside() -> None:
    """What the developer's shell exports must not change what a test sees."""
    for name in [name for name in os.environ if name.startswith("GROUPKEEPER_")]:
        del os.environ[name]
