"""One Spark session for all tests that need one: starting it costs more than they do."""

from pathlib import Path

import pytest

FIXTURE = Path(__file__).parent.parent / "fixtures" / "kafka-consumer-offsets"


@pytest.fixture(scope="session")
def broker_copy():
    """The folders of `__consumer_offsets` copied from a live Apache Kafka broker."""
    return FIXTURE


@pytest.fixture(scope="session")
def spark():
    from tests.support.spark import open_session

    session = open_session("groupkeeper-tests")
    yield session
    session.stop()
