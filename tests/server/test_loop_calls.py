"""The event loop of a real server makes no file call that may wait for a disk.

An audit hook of the interpreter does not see `pwrite` and `pread`, so the functions themselves are
replaced in a child process (tests/support/loop_calls.py). `make chaos ARGS=slow-topic-disk` looks
from below, with a library in front of the C library.
"""

import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

from groupkeeper.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from groupkeeper.protocol.messages.list_offsets import MAX_TIMESTAMP
from groupkeeper.protocol.messages.metadata import MetadataRequest
from tests.support.certificates import Certificates
from tests.support.process import Process, assigned
from tests.support.requests import (
    commit_request,
    create_request,
    delete_records_request,
    delete_topic_request,
    join_request,
    list_request,
    produce_request,
    records_request,
    sync_request,
)
from tests.support.wire import Address, Client, connect

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "2",
    "log.segment.bytes": "20000",
    "log.retention.bytes": "60000",
    "log.retention.check.interval.ms": "300",
}
_DELETED = b"groupkeeper_topic_segments_deleted_total"
PAGES = ("groups", "groups/g", "groups/g/why", "groups/g/rounds", "groups/g/events", "topics")

ALLOWED = {
    "/proc/": "files in memory: the metrics of the process",
    "?": "a descriptor that is no file",
}
"""Beginnings of paths that the event loop may use, and why."""


def _use(client: Client) -> None:
    """Topics, records, a group and its offsets: made, read and deleted."""
    client.call(7, create_request("t", "u", partitions=2))
    client.call(7, create_request("kept", retention_bytes="-1"))
    client.call(7, produce_request("kept", 0, b"v" * 2_000))
    client.call(11, records_request("kept", 0))  # offset 0 of "t" may be gone by now
    for number in range(100):
        answer = client.call(7, produce_request("t", number % 2, b"v" * 2_000))
        assert answer.responses[0].partition_responses[0].base_offset == number // 2
    joined = client.call(3, join_request("g"))
    member, generation = joined.member_id, joined.generation_id
    client.call(3, sync_request(member, generation, "g", {member: b"share"}))
    for offset in range(10):
        client.call(7, commit_request({("t", 0): offset}, "g", member, generation))
    for topic in ("t", "__consumer_offsets", "__group_events"):
        for partition in (0, 1):
            client.call(11, records_request(topic, partition))
    for timestamp in (0, MAX_TIMESTAMP):
        client.call(7, list_request("t", 0, timestamp))
    client.call(1, delete_records_request("t", 0, 45))
    client.call(2, DescribeLogDirsRequest(topics=None))
    client.call(7, MetadataRequest(topics=None))
    client.call(6, delete_topic_request("u"))


def _ask(http: str) -> None:
    for page in (*(f"/api/v1/{name}" for name in PAGES), "/", "/status", "/metrics", "/readyz"):
        with suppress(HTTPError):
            _page(http, page)


def _page(http: str, path: str) -> bytes:
    with urlopen(f"http://{http}{path}", timeout=20) as answer:
        body: bytes = answer.read()
    return body


def _calls(folder: Path, *mutant: str) -> Sequence[str]:
    """File calls of the event loop that are not allowed."""
    calls = folder / "calls"
    program = sys.executable, "-m", "tests.support.loop_calls", str(calls), *mutant
    arguments = ("--http", "127.0.0.1:0", "--data-dir", str(folder / "data"), *assigned(SETTINGS))
    with Process(*arguments, program=program, log=folder / "log") as process:
        ready = process.ready()
        _serve_clients(ready.kafka, ready.http)
        process.stop()
    seen = dict.fromkeys(calls.read_text().splitlines())
    return [each for each in seen if not each.partition(" ")[2].startswith(tuple(ALLOWED))]


def _serve_clients(kafka: Address, http: str) -> None:
    with connect(kafka, timeout=30) as client:
        _use(client)
    _ask(http)
    until = time.monotonic() + 20.0
    while _DELETED not in _page(http, "/metrics"):
        assert time.monotonic() < until, "retention has deleted nothing"


def test_the_event_loop_makes_no_file_call(tmp_path: Path) -> None:
    assert _calls(tmp_path) == []


def test_changed_certificates_are_loaded_elsewhere(tmp_path: Path) -> None:
    made, calls, log = Certificates(tmp_path), tmp_path / "calls", tmp_path / "log"
    program = sys.executable, "-m", "tests.support.loop_calls", str(calls)
    settings = dict(each.split("=", 1) for each in made.settings(client_auth="required"))
    listeners = {"listener.security.protocol.map": "PLAINTEXT:SSL"}
    listeners["listeners"] = "PLAINTEXT://127.0.0.1:0"
    arguments = ("--http", "off", "--data-dir", str(tmp_path / "data"))
    given = assigned({**SETTINGS, **settings, **listeners})
    with Process(*arguments, *given, program=program, log=log, listen=None) as process:
        host, port = process.ready().kafka
        until = time.monotonic() + 20.0
        while b"changed TLS files are used" not in log.read_bytes():
            plain = socket.create_connection((host, port), timeout=30)
            context = made.context(with_key=True)
            with Client(context.wrap_socket(plain, server_hostname="localhost")) as client:
                client.call(7, MetadataRequest(topics=None))
            made.renew()
            assert time.monotonic() < until, "the files are not looked at"
            time.sleep(0.2)
        process.stop()
    seen = dict.fromkeys(calls.read_text().splitlines())
    assert [each for each in seen if not each.partition(" ")[2].startswith(tuple(ALLOWED))] == []


def test_a_write_on_the_event_loop_is_noticed(tmp_path: Path) -> None:
    found = _calls(tmp_path, "mutant")
    assert any(each.startswith("pwrite ") and "/data/t-0/" in each for each in found)
    assert any(each.startswith("pread ") and "/data/" in each for each in found)


def test_a_read_on_the_event_loop_that_may_wait_is_noticed(tmp_path: Path) -> None:
    found = _calls(tmp_path, "waiting")
    assert any(each.startswith("preadv ") and "/data/kept-0/" in each for each in found)
