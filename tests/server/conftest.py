"""Fixtures of the server's tests: a whole server in memory, and the log lines."""

import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from groupkeeper.observe import logs
from tests.support.served import Served

Lines = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """Start servers in memory; settings are ``key=value``."""
    started: list[Served] = []

    def serve(*assignments: str, **options: Any) -> Served:
        started.append(Served(*assignments, **options))
        return started[-1]

    yield serve
    for served in started:
        served.close()


@pytest.fixture
def served(serve: Callable[..., Served]) -> Served:
    """A server in memory with four partitions of the offsets topic."""
    return serve("offsets.topic.num.partitions=4")


@pytest.fixture
def lines() -> Iterator[Lines]:
    """What was logged so far, from info on."""
    stream = io.StringIO()
    logs.configure(stream)

    def lines() -> list[dict[str, Any]]:
        assert logs.flush(20)
        return [json.loads(line) for line in stream.getvalue().splitlines()]

    yield lines
    logs.configure()
