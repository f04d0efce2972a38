"""One populated server for the tests of the commands that ask a cluster."""

import time
from collections.abc import Iterator

import pytest

from tests.support.populated import populated
from tests.support.process import Server

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "log.retention.hours": "-1"}


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that has the topics and groups of `populated`."""
    server = Server(tmp_path_factory.mktemp("populated"), SETTINGS)
    server.start()
    try:
        with populated(server.bootstrap, int(time.time() * 1000)):
            yield server.bootstrap
    finally:
        server.stop()
