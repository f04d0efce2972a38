"""Async tests of this folder run under virtual time: waiting takes none."""

from collections.abc import Callable

import pytest

from tests.support.virtual_loop import VirtualLoop


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> dict[str, Callable[[], VirtualLoop]]:
    return {"virtual": VirtualLoop}
