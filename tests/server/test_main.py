"""Real processes: the ready line, signals, locks, a disk that lies, and what is imported."""

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from groupkeeper.protocol.registry import request_encoder, response_decoder
from groupkeeper.server import main
from groupkeeper.server.server import Server
from groupkeeper.settings.options import ServeOptions
from tests.support.requests import codes_of, commit_request, join_request

ROOT = Path(__file__).parents[2]
SERVE = [sys.executable, "-m", "groupkeeper", "serve", "--http", "off"]
READY = re.compile(r"groupkeeper ready kafka=127\.0\.0\.1:(\d+) http=off node=(\d+) data=(.+)\n")
Process = subprocess.Popen[str]
Start = Callable[..., Process]

# The server over a disk whose syncs fail as soon as a file named `broken` is there.
LYING_DISK = """
import errno, os, sys
from groupkeeper.storage.files import Files

sync = Files.sync

def broken(self, handle):
    if os.path.exists("broken"):
        raise OSError(errno.EIO, "Input/output error")
    sync(self, handle)

Files.sync = broken
from groupkeeper.cli import main
sys.exit(main(sys.argv[1:]))
"""

# Prints what is imported when the ready line is out, and ends.
IMPORTS = """
import os, sys
from groupkeeper.server import main

def report(options):
    print(*sorted(sys.modules), flush=True)
    os._exit(0)

main._after_ready = report
from groupkeeper.cli import main
main(sys.argv[1:])
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Process] = []

    def start(*arguments: str, command: list[str] = SERVE, umask: int = -1) -> Process:
        process = subprocess.Popen(
            [*command, "--listen", "127.0.0.1:0", "--data-dir", "data", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            umask=umask,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def port_of(process: Process) -> int:
    """Of the ready line."""
    assert process.stdout is not None
    ready = READY.fullmatch(process.stdout.readline())
    assert ready
    assert ready[3] == "data"
    return int(ready[1])


def ended(process: Process) -> tuple[int, str]:
    """Exit code, and what is on stderr that is not a line of the log."""
    _, err = process.communicate(timeout=20)
    return process.returncode, "".join(
        line for line in err.splitlines(keepends=True) if not line.startswith("{")
    )


class Client:
    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.stream = self.socket.makefile("rb")

    def send(self, key: int, version: int, request: Any) -> None:
        self.socket.sendall(request_encoder(key, version)(request, 1, "tester"))

    def take(self, key: int, version: int) -> Any:
        size = int.from_bytes(self.stream.read(4), "big")
        return response_decoder(key, version)(self.stream.read(size), 0, size)[1]

    def create_topic(self) -> None:
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        self.send(ApiKey.CREATE_TOPICS, 4, CreateTopicsRequest(topics=[topic], timeout_ms=5000))
        assert self.take(ApiKey.CREATE_TOPICS, 4).topics[0].error_code == 0

    def commit(self) -> int:
        """For topic `t`; the error code, 3 if it does not exist."""
        self.send(ApiKey.OFFSET_COMMIT, 8, commit_request({("t", 0): 1}))
        return codes_of(self.take(ApiKey.OFFSET_COMMIT, 8))["t", 0]


def test_the_ready_line_names_the_node_and_the_real_port(start: Start) -> None:
    process = start("--node-id", "7")
    assert process.stdout is not None
    ready = READY.fullmatch(process.stdout.readline())
    assert ready
    assert ready[2] == "7"
    assert Client(int(ready[1])).commit() == 3


def test_a_second_process_is_refused_and_the_first_keeps_serving(start: Start) -> None:
    client = Client(port_of(start()))
    code, err = ended(start())
    assert code == 1
    assert err.startswith("groupkeeper: node 0 is already running on data (pid ")
    assert err.count("\n") == 1
    assert client.commit() == 3


def test_another_node_id_on_the_same_data_is_refused_too(start: Start) -> None:
    port_of(start())
    code, err = ended(start("--node-id", "1"))
    assert (code, err.count("\n")) == (1, 1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly_while_clients_wait(start: Start, number: signal.Signals) -> None:
    process = start()
    waiting = Client(port_of(process))
    waiting.send(
        ApiKey.JOIN_GROUP, 3, join_request(session_timeout_ms=10_000)
    )  # for three seconds at least
    Client(waiting.socket.getpeername()[1]).commit()
    process.send_signal(number)
    assert ended(process) == (0, "")
    assert waiting.take(ApiKey.JOIN_GROUP, 3).error_code == 16
    assert waiting.stream.read() == b""


def test_a_kafka_port_in_use_is_one_line(start: Start) -> None:
    port = port_of(start())
    code, err = ended(start("--data-dir", "other", "--listen", f"127.0.0.1:{port}"))
    assert (code, err.count("\n")) == (1, 1)
    assert err.startswith("groupkeeper: ")
    assert "address already in use" in err


def test_an_http_port_in_use_is_one_line_and_what_was_started_is_stopped(
    start: Start, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        http = ("127.0.0.1", taken.getsockname()[1])
        options = ServeOptions(tmp_path / "data", ("127.0.0.1", 0), http=http)
        server = Server(options)
        with pytest.raises(OSError, match="in use"):
            asyncio.run(main._serve(server, options))
        code, err = ended(start("--data-dir", "data", "--http", f"127.0.0.1:{http[1]}"))
    assert (code, err.count("\n")) == (1, 1)
    assert "in use" in err
    assert f"{http[1]}" in err


def test_a_data_directory_that_cannot_be_made_is_one_line(start: Start, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    code, err = ended(start())
    assert code != 0
    assert err.count("\n") == 1


def test_others_are_let_into_nothing_in_the_data_directory(start: Start, tmp_path: Path) -> None:
    client = Client(port_of(start("--dev", "--data-dir", "data", umask=0)))
    client.create_topic()
    assert client.commit() == 0
    made = [tmp_path / "data", *(tmp_path / "data").rglob("*")]
    modes = {(path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in made}
    assert len(made) > 6
    assert modes == {(True, 0o750), (False, 0o640)}


def warnings(process: Process) -> list[str]:
    """What is logged until the process is told to stop."""
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=20)
    lines = [json.loads(line) for line in err.splitlines()]
    return [line["event"] for line in lines if line["level"] == "warning"]


def test_ports_that_other_machines_reach_are_warned_of(start: Start) -> None:
    everywhere = ("--listen", "0.0.0.0:0", "--advertise", "localhost:1", "--http", "0.0.0.0:0")
    process = start(*everywhere)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("groupkeeper ready")
    [kafka, http] = warnings(process)
    assert kafka.startswith("Kafka port without authentication")
    assert http.startswith("HTTP port without authentication")


def test_ports_on_the_loopback_are_not(start: Start) -> None:
    process = start("--listen", "localhost:0", "--http", "127.0.0.1:0")
    assert process.stdout is not None
    assert process.stdout.readline().startswith("groupkeeper ready")
    assert warnings(process) == []


def test_a_damaged_journal_is_one_line_and_costs_nothing_that_the_logs_have(
    start: Start, tmp_path: Path
) -> None:
    process = start()
    client = Client(port_of(process))
    client.create_topic()
    assert [client.commit() for _ in range(3)] == [0, 0, 0]
    process.kill()
    process.wait()
    [journal] = (tmp_path / "data" / "journals").iterdir()
    data = bytearray(journal.read_bytes())
    data[40] ^= 1
    journal.write_bytes(data)
    process = start()
    again = Client(port_of(process))
    while (error := again.commit()) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        pass
    assert error == 0
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=20)
    lines = [json.loads(line) for line in err.splitlines()]
    [what] = [line["what"] for line in lines if line["event"] == "data directory repaired"]
    assert re.search("byte 0 is damaged and a sound one follows", what)
    assert all(line["level"] in ("info", "warning") for line in lines)


def test_an_unknown_setting_is_one_line_and_exit_code_2(start: Start) -> None:
    code, err = ended(start("--set", "group.max.sizes=1"))
    assert code == 2
    assert err.count("\n") == 1
    assert "group.max.sizes" in err


def test_a_disk_that_lies_ends_the_process(start: Start, tmp_path: Path) -> None:
    """After a failed fsync it is unknown what is on the disk: better no server than a wrong
    one.
    """
    process = start(command=[sys.executable, "-c", LYING_DISK, "serve", "--http", "off", "--dev"])
    client = Client(port_of(process))
    client.create_topic()
    (tmp_path / "broken").touch()
    client.send(ApiKey.OFFSET_COMMIT, 8, commit_request({("t", 0): 1}))
    code, err = ended(process)
    assert code == 1
    assert err.startswith("groupkeeper: the disk cannot be trusted any more: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("replaced", [False, True])
def test_a_data_directory_that_goes_away_ends_the_process(
    start: Start, tmp_path: Path, replaced: bool
) -> None:
    """What is acknowledged now would be lost. Also without any request."""
    process = start()
    port_of(process)
    if replaced:
        (tmp_path / "data").rename(tmp_path / "moved")
        (tmp_path / "data").mkdir()
    else:
        shutil.rmtree(tmp_path / "data")
    code, err = ended(process)
    assert code == 1
    assert "data was removed or replaced while it was in use" in err
    assert err.count("\n") == 1
    assert not list(tmp_path.glob("data/*"))


def test_a_data_directory_of_a_newer_version_is_one_line(start: Start, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    line = b'{"format": 99, "what": "nobody knows"}'
    (tmp_path / "data" / "format").write_bytes(line + b"\n%08x\n" % crc32c(line))
    code, err = ended(start())
    assert code == 1
    assert err.startswith("groupkeeper: data is in format 99, and this version reads formats up to")
    assert err.count("\n") == 1


def test_little_is_imported_before_the_ready_line(start: Start) -> None:
    """The start-up budget: what does not serve the first client comes later, or never."""
    process = start(command=[sys.executable, "-c", IMPORTS, "serve", "--http", "127.0.0.1:0"])
    assert process.stdout is not None
    assert process.stdout.readline().startswith("groupkeeper ready ")
    modules = set(process.stdout.readline().split())
    late = {"rich", "prometheus_client", "structlog", "pyspark", "aiokafka", "numpy", "pyarrow"}
    assert "groupkeeper.connections.connection" in modules
    assert (late | {"tornado"}) & modules == set()
