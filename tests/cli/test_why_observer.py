"""`groupkeeper why --http` of an observer, on a cluster that stores no causes."""

import asyncio
import json

import pytest

from groupkeeper.cli import main
from groupkeeper.observe.http_exchange import HttpAnswer, HttpRequest
from groupkeeper.observe.http_server import HttpServer
from tests.client.stub import cluster
from tests.support.event_node import CLUSTER, EventNode
from tests.support.written_log import WrittenLog, member

Capture = pytest.CaptureFixture[str]
LIVE = {
    "state": "PreparingRebalance",
    "state_ms": 3_000,
    "generation": 1,
    "members": [],
    "rebalance": None,
}


def node() -> EventNode:
    """A node with a generation of the group, and without stored events."""
    made = EventNode(None)
    made.offsets = WrittenLog()
    made.offsets.group(0, 1, member("a", 0))
    return made


async def told(capsys: Capture, *more: str) -> tuple[str, str]:
    async with cluster(node()) as address:
        call = ["why", "g", "--bootstrap-server", address, "--since", "2025-11-22T12:00Z"]
        assert await asyncio.to_thread(main, [*call, "--timeout", "5", *more]) == 0
    out, err = capsys.readouterr()
    return out, err


async def test_an_observer_that_is_named_tells_the_present(capsys: Capture) -> None:
    async def api(request: HttpRequest) -> HttpAnswer:
        assert request.path == "groups/g"
        return HttpAnswer(200, json.dumps({"cluster": CLUSTER, "live": LIVE}).encode())

    server = HttpServer({"/api/v1/": api})
    host, port = await server.start(("127.0.0.1", 0))
    try:
        out, err = await told(capsys, "--http", f"{host}:{port}")
    finally:
        await server.close()
    assert "Inferred, 99 %: a (on 10.0.0.7) joined the empty group." in " ".join(out.split())
    assert out.splitlines()[-1] == "Now: PreparingRebalance for 3.0 s, generation 1, 0 members."
    assert err.count("\n") == 1  # that causes are inferred


async def test_one_that_does_not_answer_is_a_line(capsys: Capture) -> None:
    out, err = await told(capsys, "--http", "127.0.0.1:1")
    assert out.splitlines()[-1].startswith("Now: Stable, 1 member.")
    assert "groupkeeper: no HTTP port of Groupkeeper answers at 127.0.0.1:1 (" in err


async def test_no_port_is_asked_that_was_not_named(capsys: Capture) -> None:
    out, err = await told(capsys)
    assert out.splitlines()[-1].startswith("Now: Stable, 1 member.")
    assert "HTTP port" not in err
