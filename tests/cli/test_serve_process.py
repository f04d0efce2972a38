"""The real process: what a user sees of `groupkeeper serve`."""

import signal
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.support.process import Process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_that_it_is_ready_serves_and_stops(number: signal.Signals) -> None:
    with Process("--dev", "--http", "127.0.0.1:0") as process:
        _, http, node_id, data = process.ready()
        assert node_id == 0
        assert b'"ready": true' in urlopen(f"http://{http}/readyz", timeout=5).read()
        assert b"\ngroupkeeper_members 0.0\n" in urlopen(f"http://{http}/metrics", timeout=5).read()
        assert Path(data).is_dir()
        process.send_signal(number)
        assert process.wait(10) == 0
    assert process.output == ""
    assert not Path(data).exists()


def test_a_second_process_on_the_same_data_is_refused_in_one_line(tmp_path: Path) -> None:
    arguments = ("--data-dir", str(tmp_path), "--http", "off")
    with Process(*arguments) as first:
        first.ready()
        with Process(*arguments) as second:
            assert second.wait(10) == 1
    assert second.output == ""
    assert second.errors.startswith("groupkeeper: ")
    assert second.errors.count("\n") == 1


def test_a_port_in_use_is_one_line() -> None:
    with Process("--dev", "--http", "off") as first:
        _, port = first.ready().kafka
        with Process("--dev", "--http", f"127.0.0.1:{port}") as second:
            assert second.wait(10) == 1
    assert second.errors.splitlines()[-1].startswith("groupkeeper: ")
    assert str(port) in second.errors
