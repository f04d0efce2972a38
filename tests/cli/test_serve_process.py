"""The real process: what a user sees of `groupkeeper serve`."""

import os
import signal
from pathlib import Path
from urllib.request import urlopen

import pytest

from groupkeeper.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.support.process import Process
from tests.support.requests import commit_request, fetch_request
from tests.support.wire import connect


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_that_it_is_ready_serves_and_stops(number: signal.Signals) -> None:
    with Process("--dev", "--http", "127.0.0.1:0") as process:
        ready = process.ready()
        http, data = ready.http, ready.data_dir
        assert ready.node_id == 0
        assert b'"ready": true' in urlopen(f"http://{http}/readyz", timeout=60).read()
        metrics = urlopen(f"http://{http}/metrics", timeout=60).read()
        assert b"\ngroupkeeper_members 0.0\n" in metrics
        assert Path(data).is_dir()
        process.send_signal(number)
        assert process.wait(60) == 0
    assert process.output == ""
    assert not Path(data).exists()


def test_in_memory_it_serves_touches_no_disk_and_forgets(tmp_path: Path) -> None:
    offsets = []
    for _ in range(2):
        with Process("--memory", "--http", "off", cwd=tmp_path) as process:
            ready = process.ready()
            assert ready.data_dir == "memory"
            client = connect(ready.kafka)
            offsets.append(client.call(8, fetch_request("g")).groups[0].topics)
            topic = CreatableTopic(name="orders", num_partitions=1, replication_factor=1)
            client.call(4, CreateTopicsRequest(topics=[topic], timeout_ms=1000))
            committed = client.call(8, commit_request({("orders", 0): 7}))
            assert committed.topics[0].partitions[0].error_code == 0
            assert client.call(8, fetch_request("g")).groups[0].topics != []
            assert files_of(process) == []
            client.close()
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
    assert offsets == [[], []]
    assert list(tmp_path.iterdir()) == []


def files_of(process: Process) -> list[str]:
    """What it has open and could write to, without pipes, sockets and devices."""
    opened = [os.readlink(each) for each in Path(f"/proc/{process.pid}/fd").iterdir()]
    return [path for path in opened if path.startswith("/") and not path.startswith("/dev/")]


def test_a_second_process_on_the_same_data_is_refused_in_one_line(tmp_path: Path) -> None:
    arguments = ("--data-dir", str(tmp_path), "--http", "off")
    with Process(*arguments) as first:
        first.ready()
        with Process(*arguments) as second:
            assert second.wait(60) == 1
    assert second.output == ""
    assert second.errors.startswith("groupkeeper: ")
    assert second.errors.count("\n") == 1


def test_a_port_in_use_is_one_line() -> None:
    with Process("--dev", "--http", "off") as first:
        _, port = first.ready().kafka
        with Process("--dev", "--http", f"127.0.0.1:{port}") as second:
            assert second.wait(60) == 1
    assert second.errors.splitlines()[-1].startswith("groupkeeper: ")
    assert str(port) in second.errors
