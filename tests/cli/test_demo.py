"""`groupkeeper demo` as a process. `--rewrite` writes its output into README.md."""

import asyncio
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from groupkeeper.cli.demo.stage import DemoProcesses, StageError
from tests.support.process import PROGRAM, ROOT

README = ROOT / "README.md"
COMMAND = "$ make demo\n"
CONSUMER = "groupkeeper.client.demo_consumer"
WAIT_S = 60.0
VARIES = (
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}Z", "TIME"),
    (r"127\.0\.0\.1:\d+", "127.0.0.1:PORT"),
    (r"(consumer-\d)-[0-9a-f]{8}\b", r"\1-ID"),
    (r"\b(\d+|one) heartbeats? came( every)?", "HEARTBEATS came"),
    (r"\b\d+(\.\d+)? (ms|s)\b", "DURATION"),
    (r"\s+", " "),
    (r"Last to join was [^,]*, DURATION after the start[^.]*\. (?=Consumption began)", ""),
)
"""What differs from run to run: times, ports, ids, durations, where lines break for them, and the
sentence of a first rebalance whose second consumer took more than a second to start.
"""

pytestmark = [pytest.mark.clients, pytest.mark.slow]


def normalised(text: str) -> str:
    for pattern, word in VARIES:
        text = re.sub(pattern, word, text)
    return text


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder)}


def children(pid: int) -> list[int]:
    """Processes that this one started, from /proc."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(") ")[2].split()[1])
        except OSError:
            continue
        if parent == pid:
            found.append(int(stat.parent.name))
    return found


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_readme_begins_with_the_output_of_a_run(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    ran = subprocess.run(
        [*PROGRAM, "demo"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        env=environment(tmp_path),
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert [*tmp_path.iterdir()] == []
    readme = README.read_text(encoding="utf-8")
    before, command, behind = readme.partition(COMMAND)
    shown, fence, after = behind.partition("```")
    if request.config.getoption("--rewrite"):
        README.write_text(before + command + ran.stdout + fence + after, encoding="utf-8")
        return
    assert normalised(shown) == normalised(ran.stdout)


@contextmanager
def on_a_terminal(folder: Path, *arguments: str) -> Iterator[tuple["subprocess.Popen[bytes]", int]]:
    ours, its = pty.openpty()
    process = subprocess.Popen(
        [*PROGRAM, "demo", *arguments], stdin=its, stdout=its, env=environment(folder)
    )
    os.close(its)
    try:
        yield process, ours
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(WAIT_S)
        os.close(ours)


def read_until(terminal: int, words: str) -> str:
    text, deadline = "", time.monotonic() + WAIT_S
    while words not in text:
        assert time.monotonic() < deadline, text
        text += os.read(terminal, 65_536).decode(errors="replace")
    return text


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_all_processes_at_once(tmp_path: Path, number: signal.Signals) -> None:
    with on_a_terminal(tmp_path) as (process, terminal):
        read_until(terminal, "1. consumer-1")
        started = children(process.pid)
        assert started
        process.send_signal(number)
        assert process.wait(WAIT_S) == 130
    assert all(map(is_gone, started))
    assert [*tmp_path.iterdir()] == []


def test_what_is_kept_runs_until_a_signal_which_is_no_failure(tmp_path: Path) -> None:
    with on_a_terminal(tmp_path, "--keep") as (process, terminal):
        shown = read_until(terminal, "--http 127.0.0.1:")
        assert "run until Ctrl-C. See http://127.0.0.1:" in shown
        started = children(process.pid)
        assert len(started) == 3  # the server and two consumers
        process.send_signal(signal.SIGINT)
        read_until(terminal, "All processes have ended")
        assert process.wait(WAIT_S) == 0
    assert all(map(is_gone, started))


async def test_a_process_that_ends_by_itself_is_an_error_with_its_last_line() -> None:
    async with DemoProcesses("orders") as stage:
        await stage.start("consumer-9", "orders", "g", "consumer-9", "--busy-s", "long")
        with pytest.raises(StageError, match=r"consumer-9 ended with code 2: .*--busy-s.*'long'"):
            await _check_until_it_fails(stage)


async def _check_until_it_fails(stage: DemoProcesses) -> None:
    for _ in range(600):
        stage.check()
        await asyncio.sleep(0.1)


def test_a_consumer_ends_with_the_process_that_started_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = "127.0.0.1:{1}".format(*silent.getsockname())
        ran = subprocess.run(
            [sys.executable, "-m", CONSUMER, address, "orders", "g", "consumer-1"],
            input=b"",
            timeout=WAIT_S,
            cwd=ROOT,
            check=False,
        )
    assert ran.returncode == 0
