"""One Groupkeeper process for the tests that want a real server."""

from collections.abc import Iterator

import pytest

from tests.clients.server import SETTINGS
from tests.support.process import Server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    one = Server(tmp_path_factory.mktemp("server"), SETTINGS)
    one.start()
    yield one
    one.stop()
