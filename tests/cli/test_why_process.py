"""`groupkeeper why` as a process, against a server that runs."""

import json
import queue
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from groupkeeper.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.support.process import PROGRAM, ROOT, Process, Ready
from tests.support.requests import join_request, sync_request
from tests.support.wire import Client, connect

WAIT_S = 20.0


@pytest.fixture
def ready() -> Iterator[Ready]:
    with Process("--dev", "--memory", "--http", "127.0.0.1:0") as process:
        yield process.ready()


def why(ready: Ready, *arguments: str) -> list[str]:
    host, port = ready.kafka
    address = ("--bootstrap-server", f"{host}:{port}", "--http", ready.http)
    return [*PROGRAM, "why", "g", *address, *arguments]


def settle(client: Client) -> str:
    """A member joins alone; its id."""
    member_id = client.call(3, join_request("g")).member_id
    client.call(3, sync_request(member_id, 1, "g", {member_id: b"plan"}))
    return str(member_id)


def leave(client: Client, member_id: str) -> None:
    member = MemberIdentity(member_id=member_id, reason="the consumer is being closed")
    client.call(5, LeaveGroupRequest(group_id="g", members=[member]))


def test_rounds_and_the_present_of_a_server(ready: Ready) -> None:
    client = connect(ready.kafka)
    leave(client, settle(client))
    ran = subprocess.run(why(ready, "--json"), capture_output=True, text=True, cwd=ROOT, check=True)
    client.close()
    first, last, now = map(json.loads, ran.stdout.splitlines())
    assert (first["cause"]["code"], first["outcome"]) == ("member_joined", "completed")
    assert (last["cause"]["code"], last["outcome"]) == ("member_left", "emptied")
    assert last["cause"]["reason"] == "the consumer is being closed"
    assert (now["kind"], now["state"], now["generation"]) == ("live", "Empty", 2)
    assert ran.stderr == ""


def test_watching_shows_each_round_and_whom_it_waits_for(ready: Ready) -> None:
    one, two = connect(ready.kafka), connect(ready.kafka)
    member_id = settle(one)
    with watching(ready) as (process, lines):
        assert wait_for(lines, kind="round")["cause"]["code"] == "member_joined"
        assert wait_for(lines, kind="live")["state"] == "Stable"
        two.send(3, join_request("g"))  # waits for the first, which does not rejoin
        live = wait_for(lines, kind="live")
        assert (live["state"], live["waiting_for"]) == ("PreparingRebalance", [member_id])
        leave(one, member_id)
        second = two.take()
        two.call(3, sync_request(second.member_id, second.generation_id, "g"))
        found = wait_for(lines, kind="round")
        assert (found["round"], found["outcome"]) == (2, "completed")
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_S) == 130
    one.close()
    two.close()


@contextmanager
def watching(
    ready: Ready,
) -> Iterator[tuple["subprocess.Popen[str]", "queue.Queue[dict[str, Any]]"]]:
    lines: queue.Queue[dict[str, Any]] = queue.Queue()
    process = subprocess.Popen(
        why(ready, "--watch", "--json"), stdout=subprocess.PIPE, text=True, cwd=ROOT
    )

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(json.loads(line))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield process, lines
    finally:
        process.kill()
        process.wait()
        reader.join()


def wait_for(lines: "queue.Queue[dict[str, Any]]", kind: str) -> dict[str, Any]:
    """The next object of this kind."""
    while True:
        found = lines.get(timeout=WAIT_S)
        if found["kind"] == kind:
            return found
