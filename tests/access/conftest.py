"""A server with SASL for all tests of a module."""

from collections.abc import Iterator
from typing import Any

import pytest

from groupkeeper.connections import call
from groupkeeper.protocol.registry import request_decoder
from tests.access.secured import Secured


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with Secured(tmp_path_factory.mktemp("secured")) as server:
        yield server


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The API key of every request that was decoded."""
    keys: list[int] = []

    def counting(key: int, version: int) -> Any:
        keys.append(key)
        return request_decoder(key, version)

    monkeypatch.setattr(call, "request_decoder", counting)
    return keys
