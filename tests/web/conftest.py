"""The API of a server in memory."""

import pytest

from tests.support.served import Served
from tests.support.web import Web


@pytest.fixture
def web(served: Served) -> Web:
    return Web(served)
