"""Fixtures of connections: one behind a fake socket, and what real ones decode."""

from typing import Any

import pytest

from groupkeeper.connections import call
from groupkeeper.protocol.registry import request_decoder
from tests.support.fake_socket import Bench


@pytest.fixture
async def bench() -> Bench:
    return Bench()


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The API key of every request that was decoded."""
    keys: list[int] = []

    def counting(key: int, version: int) -> Any:
        keys.append(key)
        return request_decoder(key, version)

    monkeypatch.setattr(call, "request_decoder", counting)
    return keys
