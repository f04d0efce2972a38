"""The API of a server process, over sockets: many connections."""

import http.client
import json
import socket
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from groupkeeper.observe.http_exchange import ANSWERS, CONNECTIONS
from groupkeeper.web.follow import FOLLOWERS
from tests.support.process import Process, Ready
from tests.support.requests import join_request
from tests.support.wire import connect

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def ready() -> Iterator[Ready]:
    with Process(
        "--dev", "--memory", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"
    ) as process:
        yield process.ready()


def get(ready: Ready, path: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(ready.http, timeout=30)
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, json.loads(body)


def open_stream(ready: Ready) -> socket.socket:
    host, _, port = ready.http.rpartition(":")
    stream = socket.create_connection((host, int(port)), timeout=30)
    stream.sendall(b"GET /api/v1/follow HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return stream


def read_to(stream: socket.socket, end: bytes) -> bytes:
    """What comes until these bytes are in it."""
    data = b""
    while end not in data:
        part = stream.recv(65536)
        assert part, f"the server hung up after {data!r}"
        data += part
    return data


def test_streams_leave_room_for_other_answers(ready: Ready) -> None:
    assert FOLLOWERS < ANSWERS < CONNECTIONS
    streams = [open_stream(ready) for _ in range(CONNECTIONS)]
    try:
        answers = [read_to(each, b"\r\n\r\n").split(b" ")[1] for each in streams]
        assert Counter(answers) == {b"200": FOLLOWERS, b"503": CONNECTIONS - FOLLOWERS}
        assert get(ready, "/api/v1/groups")[0] == 200
        assert get(ready, "/healthz")[0] == 200
        with connect(ready.kafka) as client:
            client.call(3, join_request("followed"))
        read_to(streams[answers.index(b"200")], b'"group":"followed"')
    finally:
        for each in streams:
            each.close()
