"""`groupkeeper observe` as a process beside a server: ready, serving, killed, stopped, refused."""

import asyncio
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from groupkeeper.cli import main
from groupkeeper.cli.observe import left_to_read
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from groupkeeper.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from groupkeeper.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.client.stub import StubNode, cluster
from tests.support.observing import READY, observing
from tests.support.populated import PAIR
from tests.support.process import PROGRAM, READY_S, ROOT, STOP_S

Capture = pytest.CaptureFixture[str]


def test_a_cluster_is_observed(bootstrap: str, tmp_path: Path, capsys: Capture) -> None:
    data = tmp_path / "observer"
    with observing(bootstrap, data) as observer:
        observer.caught_up()
        names = {each["group"] for each in observer.get("/api/v1/groups")["groups"]}
        assert PAIR in names
        rounds = observer.get(f"/api/v1/groups/{PAIR}/rounds")["rounds"]
        assert {each["source"] for each in rounds} == {"log"}
        observer.asked()
        assert "groupkeeper_observer_ask_failures_total 0.0" in observer.text("/metrics")
        assert observer.get(f"/api/v1/groups/{PAIR}/lag")["group"] == PAIR
        assert main(["status", "--http", observer.http]) == 0
        out = capsys.readouterr().out
        assert f"observer, by {bootstrap}, of cluster" in out
        rows = [each.split() for each in out.splitlines() if each.startswith("  ")]
        assert [each[0] for each in rows][:6] == [
            *("partitions", "records", "causes", "disk", "loop", "events")
        ]
        assert rows[1][2:] == ["read,", "0", "left"]
        assert rows[2][1:3] == ["known", "from"]
        # The same directory, in use by a running process.
        assert main(["observe", "--bootstrap-server", bootstrap, "--data", str(data)]) == 1
        observer.popen.kill()
        observer.popen.wait(STOP_S)
    with observing(bootstrap, data, "--no-ask") as observer:
        observer.caught_up()
        assert observer.get(f"/api/v1/groups/{PAIR}/rounds")["rounds"] == rounds
        with pytest.raises(urllib.error.HTTPError, match="404"):
            observer.get(f"/api/v1/groups/{PAIR}/lag")
        assert "groupkeeper_observer_asks_total 0.0" in observer.text("/metrics")
        observer.popen.send_signal(signal.SIGTERM)
        assert observer.popen.wait(STOP_S) == 0
    assert "is in use by another observer: stop it, or choose" in capsys.readouterr().err


FULL = """
import errno, sys
from groupkeeper.cli import main
from groupkeeper.storage.files.files import Files
write = Files.write
def full(self, handle, data, position):
    if b"rebalance_" in data:
        raise OSError(errno.ENOSPC, "No space left on device")
    write(self, handle, data, position)
Files.write = full
sys.exit(main(sys.argv[1:]))
"""


def test_a_full_disk_ends_it_with_a_line(bootstrap: str, tmp_path: Path) -> None:
    words = ["--bootstrap-server", bootstrap, "--data", str(tmp_path / "data")]
    ended = subprocess.run(
        [sys.executable, "-c", FULL, "observe", *words, "--http", "127.0.0.1:0"],
        capture_output=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
        timeout=READY_S,
        check=False,
    )
    assert ended.returncode == 1
    assert READY.match(ended.stdout)
    *_, line = ended.stderr.splitlines()
    assert line.startswith("groupkeeper: ")
    assert "No space left on device" in line


def test_a_cluster_that_does_not_answer_is_one_line(tmp_path: Path, capsys: Capture) -> None:
    words = ["--bootstrap-server", "127.0.0.1:1", "--data", str(tmp_path / "data")]
    assert main(["observe", *words, "--timeout", "2"]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("groupkeeper: no Kafka node answers at 127.0.0.1:1 (")
    assert not (tmp_path / "data").exists()


def test_what_the_system_does_not_give_is_one_line(
    bootstrap: str, tmp_path: Path, capsys: Capture
) -> None:
    words = ["observe", "--bootstrap-server", bootstrap, "--data"]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        http = f"127.0.0.1:{taken.getsockname()[1]}"
        assert main([*words, str(tmp_path / "data"), "--http", http]) == 1
        assert capsys.readouterr().err == (
            f"groupkeeper: cannot listen at {http}: address already in use: stop what listens "
            "there, or choose another --http\n"
        )
    assert main([*words, "/proc/observer", "--http", "127.0.0.1:0"]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("groupkeeper: /proc/observer cannot be used as a data directory (")
    assert line.endswith("make it writable, or choose another --data")


async def test_an_error_of_the_topic_is_told_as_it_is(tmp_path: Path) -> None:
    node = StubNode(1)
    node.answers["Metadata"] = metadata_of(node, ErrorCode.INVALID_TOPIC_EXCEPTION)
    async with cluster(node) as address:
        words = ["--bootstrap-server", address, "--data", str(tmp_path / "data")]
        told = await errors_of("observe", *words)
    assert told == ("groupkeeper: Metadata: INVALID_TOPIC_EXCEPTION (topic __consumer_offsets)")


def metadata_of(node: StubNode, error: ErrorCode) -> Callable[[Any], MetadataResponse]:
    """Describes topics with an error, or with one partition that the node leads."""

    def metadata(asked: Any) -> MetadataResponse:
        led = MetadataResponsePartition(partition_index=0, leader_id=1)
        partitions = [] if error else [led]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=node.port)],
            topics=[
                MetadataResponseTopic(name=each.name, error_code=error, partitions=partitions)
                for each in asked.topics or []
            ],
        )

    return metadata


def empty_log(node: StubNode) -> None:
    """Answers of a node whose topic has no records."""

    def list_offsets(asked: Any) -> ListOffsetsResponse:
        row = ListOffsetsPartitionResponse(partition_index=0, offset=0)
        names = [each.name for each in asked.topics]
        topics = [ListOffsetsTopicResponse(name=each, partitions=[row]) for each in names]
        return ListOffsetsResponse(topics=topics)

    def fetch(_: Any) -> FetchResponse:
        row = PartitionData(partition_index=0, high_watermark=0, records=b"")
        topic = FetchableTopicResponse(topic="__consumer_offsets", partitions=[row])
        return FetchResponse(responses=[topic])

    node.answers |= {"ListOffsets": list_offsets, "Fetch": fetch}


async def test_a_cluster_without_the_topic_is_told_until_it_has_it(tmp_path: Path) -> None:
    node = StubNode(1)
    node.answers["Metadata"] = metadata_of(node, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    empty_log(node)
    async with cluster(node) as address:
        words = ["--bootstrap-server", address, "--data", str(tmp_path / "data"), "--no-ask"]
        pipe = asyncio.subprocess.PIPE
        running = await asyncio.create_subprocess_exec(
            *(*PROGRAM, "observe", *words, "--http", "127.0.0.1:0"),
            stdout=pipe,
            stderr=pipe,
            cwd=ROOT,
        )
        assert running.stdout is not None and running.stderr is not None
        try:
            line = json.loads(await asyncio.wait_for(running.stderr.readline(), READY_S))
            assert line["event"] == "the cluster has no topic __consumer_offsets"
            at = line["http"]
            paths = ("/healthz", "/readyz", "/api/v1/groups", "/")
            answers = [await asyncio.to_thread(answer_of, at, each) for each in paths]
            assert [status for status, _ in answers] == [200, 503, 503, 503]
            assert answers[1][1]["reason"] == answers[2][1]["error"]
            assert answers[1][1]["reason"].startswith("the cluster has no topic __consumer_offsets")
            told = await errors_of("status", "--http", at)
            assert told == f"groupkeeper: {at} is not ready: {answers[1][1]['reason']}"
            node.answers["Metadata"] = metadata_of(node, ErrorCode.NONE)
            ready = READY.fullmatch(
                (await asyncio.wait_for(running.stdout.readline(), 30)).decode()
            )
            assert ready is not None and ready[1] == at
            assert (await asyncio.to_thread(answer_of, at, "/api/v1/groups"))[0] == 200
        finally:
            running.kill()
            await running.wait()


def answer_of(at: str, path: str) -> tuple[int, Any]:
    """Status and JSON of an answer."""
    connection = http.client.HTTPConnection(at, timeout=READY_S)
    connection.request("GET", path)
    answer = connection.getresponse()
    found = answer.status, json.loads(answer.read())
    connection.close()
    return found


async def errors_of(*words: str) -> str:
    """What a command says on standard error that fails."""
    running = await asyncio.create_subprocess_exec(
        *PROGRAM, *words, stderr=asyncio.subprocess.PIPE, cwd=ROOT
    )
    _, told = await asyncio.wait_for(running.communicate(), READY_S)
    assert running.returncode == 1
    return told.decode().strip()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--http", "9644"], "'9644' is not HOST:PORT"),
        (["--bootstrap-server", "kafka"], "'kafka' is not host:port"),
        (["--data", __file__], "is a file"),
        (["--timeout", "0"], "0 is not 0.001 to 3600 seconds"),
    ],
)
def test_wrong_options_are_usage_errors(words: list[str], line: str, capsys: Capture) -> None:
    assert main(["observe", *words]) == 2
    assert line in capsys.readouterr().err


def test_another_directory_is_refused_in_one_line(
    bootstrap: str, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "notes.txt").touch()
    assert main(["observe", "--bootstrap-server", bootstrap, "--data", str(tmp_path)]) == 1
    assert "has other data than an observer's: choose an empty --data" in capsys.readouterr().err


def test_a_terminal_shows_what_is_left_to_read(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with left_to_read() as show:
        show(51_000)
        show(0)
    assert "51,000 records of __consumer_offsets are left to read" in capsys.readouterr().err


def test_nothing_is_shown_without_a_terminal(capsys: Capture) -> None:
    with left_to_read() as show:
        show(51_000)
    assert capsys.readouterr().err == ""
