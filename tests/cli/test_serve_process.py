"""The real process: what a user sees of `groupkeeper serve`."""

import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

READY = re.compile(r"groupkeeper ready kafka=127.0.0.1:(\d+) http=(\S+) node=0 data=(\S+)\n")
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "groupkeeper", "serve", "--listen", "127.0.0.1:0"]
        pipe = subprocess.PIPE
        started.append(
            subprocess.Popen([*command, *arguments], stdout=pipe, stderr=pipe, text=True)
        )
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def ready(process: "subprocess.Popen[str]") -> re.Match[str]:
    assert process.stdout is not None
    found = READY.fullmatch(process.stdout.readline())
    assert found
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_that_it_is_ready_serves_and_stops(start: Start, number: signal.Signals) -> None:
    process = start("--dev", "--http", "127.0.0.1:0")
    _, http, data = ready(process).groups()
    assert b'"ready": true' in urlopen(f"http://{http}/readyz", timeout=5).read()
    assert b"\ngroupkeeper_members 0.0\n" in urlopen(f"http://{http}/metrics", timeout=5).read()
    assert Path(data).is_dir()
    process.send_signal(number)
    out, _ = process.communicate(timeout=10)
    assert process.returncode == 0
    assert out == ""
    assert not Path(data).exists()


def test_a_second_process_on_the_same_data_is_refused_in_one_line(
    start: Start, tmp_path: Path
) -> None:
    ready(start("--data-dir", str(tmp_path), "--http", "off"))
    second = start("--data-dir", str(tmp_path), "--http", "off")
    out, err = second.communicate(timeout=10)
    assert (second.returncode, out) == (1, "")
    assert err.startswith("groupkeeper: ")
    assert err.count("\n") == 1


def test_a_port_in_use_is_one_line(start: Start, tmp_path: Path) -> None:
    port = ready(start("--dev", "--http", "off"))[1]
    second = start("--dev", "--http", f"127.0.0.1:{port}")
    _, err = second.communicate(timeout=10)
    assert second.returncode == 1
    assert err.splitlines()[-1].startswith("groupkeeper: ")
    assert port in err
