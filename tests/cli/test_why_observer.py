"""`groupkeeper why --http` of an observer, on a cluster that stores no causes."""

import asyncio
import json
from typing import Any

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


async def observer_told(
    capsys: Capture, events: list[Any] | None, *more: str, status: int = 200
) -> tuple[str, str]:
    """With an observer that has these events; None: a port that is not that of an observer."""

    async def api(request: HttpRequest) -> HttpAnswer:
        about: dict[str, Any] = {"cluster": CLUSTER, "live": LIVE}
        if request.path == "groups/g/events":
            assert request.query == "limit=1000"
            about |= {"events": events or [], "observes": None if events is None else "kafka:9092"}
            about |= {"error": "50 records are left to read"}
            return HttpAnswer(status, json.dumps(about).encode())
        assert request.path == "groups/g"
        return HttpAnswer(200, json.dumps(about).encode())

    server = HttpServer({"/api/v1/": api})
    host, port = await server.start(("127.0.0.1", 0))
    try:
        return await told(capsys, "--http", f"{host}:{port}", *more)
    finally:
        await server.close()


def stored(number: int = 0) -> list[Any]:
    """A round of an observer's events, which are later than the records of the cluster."""
    who = {"member": "b-1", "client_id": "b", "host": "10.0.0.8", "instance": None}
    cause = {"code": "member_left", "who": who}
    sure = {"source": "log", "confidence": 0.98}
    started = {"type": "rebalance_started", "cause": cause, "from_state": "Stable", **sure}
    gone = {"type": "member_removed", "who": who, "cause": cause, **sure}
    over = {"type": "rebalance_abandoned", "why": "emptied", **sure}
    envelope = {
        "v": 1,
        "group": "g",
        "epoch": 0,
        "node": -1,
        "state": "Empty",
        "mono_ms": 0,
        "round": 1,
        "generation": 2,
    }
    at_ms = 1_795_870_800_000 + 1_000 * number
    return [
        {**envelope, "seq": 3 * number + seq, "at_ms": at_ms, **each}
        for seq, each in enumerate((started, gone, over))
    ]


async def test_an_observer_tells_what_it_has_stored(capsys: Capture) -> None:
    out, err = await observer_told(capsys, stored())
    assert "Inferred, 98 %: b-1 (on 10.0.0.8) left" in " ".join(out.split())
    assert "joined the empty group" not in out
    assert out.splitlines()[-1] == "Now: PreparingRebalance for 3.0 s, generation 1, 0 members."
    assert err.startswith("groupkeeper: causes are inferred by the observer at 127.0.0.1:")
    assert err.count("\n") == 1


async def test_no_more_events_are_asked_for_and_that_is_told(capsys: Capture) -> None:
    events = [each for number in range(334) for each in stored(number)][:1_000]
    _, err = await observer_told(capsys, events)
    assert "an observer tells the last 1000 events of a group, since 2026-11-28" in err
    _, err = await observer_told(capsys, events, "--json", "--since", "2026-11-29T00:00")
    assert "an observer tells" not in err


async def test_events_that_cannot_be_read_are_counted(capsys: Capture) -> None:
    _, err = await observer_told(capsys, [*stored(), {"v": 99}])
    assert "skipped 1 record that is no event (a group event of version 99" in err


async def test_an_observer_whose_events_cannot_be_read_is_told(capsys: Capture) -> None:
    """Its partition is not read to its end yet."""
    out, err = await observer_told(capsys, stored(), status=503)
    assert "joined the empty group" in out and "Now: PreparingRebalance" in out
    assert "50 records are left to read: the observer's causes are not shown" in err


async def test_an_observer_that_has_stored_nothing_tells_the_present(capsys: Capture) -> None:
    out, err = await observer_told(capsys, [])
    assert "Inferred, 99 %: a (on 10.0.0.7) joined the empty group." in " ".join(out.split())
    assert out.splitlines()[-1] == "Now: PreparingRebalance for 3.0 s, generation 1, 0 members."
    assert err.count("\n") == 1  # that causes are inferred


async def test_a_port_that_is_not_that_of_an_observer_tells_the_present(capsys: Capture) -> None:
    out, _ = await observer_told(capsys, None)
    assert "Inferred, 99 %: a (on 10.0.0.7) joined the empty group." in " ".join(out.split())


async def test_one_that_does_not_answer_is_a_line(capsys: Capture) -> None:
    out, err = await told(capsys, "--http", "127.0.0.1:1")
    assert out.splitlines()[-1].startswith("Now: Stable, 1 member.")
    assert "groupkeeper: no HTTP port of Groupkeeper answers at 127.0.0.1:1 (" in err


async def test_no_port_is_asked_that_was_not_named(capsys: Capture) -> None:
    out, err = await told(capsys)
    assert out.splitlines()[-1].startswith("Now: Stable, 1 member.")
    assert "HTTP port" not in err
