"""Real processes: the ready line, signals, locks, and a disk that lies."""

import asyncio
import json
import re
import shutil
import signal
import socket
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from groupkeeper.cli import main as cli
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.server import main
from groupkeeper.server.loop import WatchedSelector
from groupkeeper.server.server import Server
from groupkeeper.settings.options import Listen, ServeOptions
from tests.support.process import Process
from tests.support.requests import codes_of, commit_request, create_request, join_request
from tests.support.wire import Client, connect

Start = Callable[..., Process]

# The server over a disk whose syncs fail as soon as a file named `broken` is there.
LYING_DISK = """
import errno, os, sys
from groupkeeper.storage.files.files import Files

sync = Files.sync

def broken(self, handle):
    if os.path.exists("broken"):
        raise OSError(errno.EIO, "Input/output error")
    sync(self, handle)

Files.sync = broken
from groupkeeper.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with ExitStack() as stack:

        def start(*arguments: str, **options: Any) -> Process:
            options = {"cwd": tmp_path, **options}
            process = Process("--http", "off", "--data-dir", "data", *arguments, **options)
            return stack.enter_context(process)

        yield start


def ended(process: Process) -> tuple[int, str]:
    """Exit code, and what is on stderr that is not a line of the log."""
    code = process.wait()
    return code, "".join(
        line for line in process.errors.splitlines(keepends=True) if not line.startswith("{")
    )


def client_of(process: Process) -> Client:
    return connect(process.ready().kafka)


def create_topic(client: Client) -> None:
    assert client.call(4, create_request("t")).topics[0].error_code == 0


def commit(client: Client) -> int:
    """For topic `t`; the error code, UNKNOWN_TOPIC_OR_PARTITION if there is no such topic."""
    return codes_of(client.call(8, commit_request({("t", 0): 1})))["t", 0]


def commit_when_loaded(client: Client) -> int:
    while (error := commit(client)) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        pass
    return error


def test_the_ready_line_names_the_node_and_the_real_port(start: Start) -> None:
    ready = start("--node-id", "7").ready()
    assert ready[1:4] == ("off", 7, "data")
    assert commit(connect(ready.kafka)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_second_process_is_refused_and_the_first_keeps_serving(start: Start) -> None:
    client = client_of(start())
    code, err = ended(start())
    assert code == 1
    assert err.startswith("groupkeeper: node 0 is already running on data (pid ")
    assert err.count("\n") == 1
    assert commit(client) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly_while_clients_wait(start: Start, number: signal.Signals) -> None:
    process = start()
    waiting = client_of(process)
    waiting.send(3, join_request(session_timeout_ms=10_000))  # for three seconds at least
    commit(connect(waiting.socket.getpeername()))
    process.send_signal(number)
    assert ended(process) == (0, "")
    assert waiting.take().error_code == ErrorCode.NOT_COORDINATOR
    assert waiting.is_closed()


def test_a_backup_is_refused_until_it_is_restored(start: Start, tmp_path: Path) -> None:
    process = start()
    client = client_of(process)
    create_topic(client)
    assert commit(client) == 0
    backup, again = tmp_path / "backup", tmp_path / "again"
    assert cli(["backup", str(backup), "--data-dir", str(tmp_path / "data")]) == 0
    before = files_of(backup)
    code, err = ended(start("--data-dir", "backup"))
    assert (code, err.count("\n")) == (2, 1)
    assert "backup is a backup: restore it with `groupkeeper restore backup " in err
    assert cli(["repair", str(backup), "--write"]) == 2
    assert files_of(backup) == before
    assert cli(["restore", str(backup), "--data-dir", str(again)]) == 0
    restored = client_of(start("--data-dir", "again"))
    assert commit_when_loaded(restored) == 0


def files_of(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_kafka_port_in_use_is_one_line(start: Start) -> None:
    _, port = start().ready().kafka
    code, err = ended(start("--data-dir", "other", "--listen", f"127.0.0.1:{port}"))
    assert (code, err.count("\n")) == (1, 1)
    assert err.startswith("groupkeeper: ")
    assert f"cannot listen at 127.0.0.1:{port}: address already in use" in err
    assert err.endswith("stop what listens there, or choose another --listen\n")


def test_an_http_port_in_use_is_one_line_and_what_was_started_is_stopped(
    start: Start, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        http = ("127.0.0.1", taken.getsockname()[1])
        options = ServeOptions(tmp_path / "data", (Listen(bind=("127.0.0.1", 0)),), http=http)
        server = Server(options)
        with pytest.raises(OSError, match="in use"):
            asyncio.run(main._serve(server, options, WatchedSelector()))
        code, err = ended(start("--data-dir", "data", "--http", f"127.0.0.1:{http[1]}"))
    assert (code, err.count("\n")) == (1, 1)
    assert f"cannot listen at 127.0.0.1:{http[1]}: address already in use" in err
    assert err.endswith("stop what listens there, or choose another --http\n")


def test_a_data_directory_that_cannot_be_made_is_one_line(start: Start, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    code, err = ended(start())
    assert code != 0
    assert err.count("\n") == 1
    code, err = ended(start("--data-dir", "/proc/groupkeeper"))
    assert (code, err.count("\n")) == (1, 1)
    assert err.startswith("groupkeeper: /proc/groupkeeper cannot be used as a data directory (")
    assert err.endswith("or choose another --data-dir\n")


def test_others_are_let_into_nothing_in_the_data_directory(start: Start, tmp_path: Path) -> None:
    client = client_of(start("--dev", "--data-dir", "data", umask=0))
    create_topic(client)
    assert commit(client) == 0
    made = [tmp_path / "data", *(tmp_path / "data").rglob("*")]
    modes = {(path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in made}
    assert len(made) > 6
    assert modes == {(True, 0o750), (False, 0o640)}


def warnings(process: Process) -> list[str]:
    """What is logged until the process is told to stop."""
    process.stop()
    lines = [json.loads(line) for line in process.errors.splitlines()]
    return [line["event"] for line in lines if line["level"] == "warning"]


def test_ports_that_other_machines_reach_are_warned_of(start: Start) -> None:
    everywhere = ("--listen", "0.0.0.0:0", "--advertise", "localhost:1", "--http", "0.0.0.0:0")
    process = start(*everywhere)
    process.ready()
    [kafka, http] = warnings(process)
    assert kafka.startswith("Kafka port without authentication")
    assert http.startswith("HTTP port without authentication")


def test_ports_on_the_loopback_are_not(start: Start) -> None:
    process = start("--listen", "localhost:0", "--http", "127.0.0.1:0")
    process.ready()
    assert warnings(process) == []


def test_a_damaged_journal_is_one_line_and_costs_nothing_that_the_logs_have(
    start: Start, tmp_path: Path
) -> None:
    process = start()
    client = client_of(process)
    create_topic(client)
    assert [commit(client) for _ in range(3)] == [0, 0, 0]
    process.kill()
    [journal] = (tmp_path / "data" / "journals").iterdir()
    data = bytearray(journal.read_bytes())
    data[40] ^= 1
    journal.write_bytes(data)
    process = start()
    again = client_of(process)
    assert commit_when_loaded(again) == 0
    process.stop()
    lines = [json.loads(line) for line in process.errors.splitlines()]
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
    process = start("--dev", program=(sys.executable, "-c", LYING_DISK))
    client = client_of(process)
    create_topic(client)
    (tmp_path / "broken").touch()
    client.send(8, commit_request({("t", 0): 1}))
    code, err = ended(process)
    assert code == 1
    assert err.startswith("groupkeeper: the disk can no longer be trusted: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("replaced", [False, True])
def test_a_data_directory_that_goes_away_ends_the_process(
    start: Start, tmp_path: Path, replaced: bool
) -> None:
    """What is acknowledged now would be lost. Also without any request."""
    process = start()
    process.ready()
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
    assert err.startswith(
        "groupkeeper: data is in format 99, and this version reads format 2: start"
    )
    assert err.count("\n") == 1
