"""The commands at the beginning of docs/security.md, each as it stands there, in one shell.

What differs: the names of the host and the numbers of ports; and `pip`, which would fetch a
release, and is only looked at.
"""

import contextlib
import os
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
MOST = 10
DONE, ANSWER_S = "-- done", 60.0
_BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^.*<<END\n(?:.*\n)*?END\n|^.+\n", re.MULTILINE)


def commands() -> list[str]:
    block = _BLOCK.search(PAGE)
    assert block is not None
    return _COMMAND.findall(block[1])


class Shell:
    """A shell that is told one command after the other."""

    def __init__(self, folder: Path) -> None:
        programs = folder / "bin"
        programs.mkdir()
        (programs / "groupkeeper").write_text(
            f'#!/bin/sh\nexec "{sys.executable}" -m groupkeeper "$@"\n'
        )
        (programs / "pip").write_text("#!/bin/sh\n")
        for each in programs.iterdir():
            each.chmod(0o755)
        path = f"{programs}:{os.environ['PATH']}"
        (folder / "work").mkdir()
        with (folder / "errors").open("w") as errors:
            self._process = subprocess.Popen(
                ["bash"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=folder / "work",
                env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
                start_new_session=True,
            )
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)

    def run(self, command: str) -> tuple[int, str]:
        """Exit code, and what it printed so far."""
        assert self._process.stdin is not None
        self._process.stdin.write(f'{command}echo "{DONE} $?"\n')
        self._process.stdin.flush()
        said = self.until(f"{DONE} ")
        printed, _, code = said.rpartition(f"{DONE} ")
        return int(code), printed

    def until(self, beginning: str) -> str:
        """Everything up to a line that begins so."""
        said = ""
        while True:
            line = self._lines.get(timeout=ANSWER_S)
            said += line
            if line.startswith(beginning):
                return said

    def end(self) -> None:
        """The shell, and what runs in its background."""
        os.killpg(self._process.pid, signal.SIGTERM)
        try:
            self._process.wait(ANSWER_S)
        finally:
            with contextlib.suppress(ProcessLookupError):  # all of it has ended
                os.killpg(self._process.pid, signal.SIGKILL)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    running = Shell(tmp_path)
    yield running
    running.end()


def test_the_commands_of_the_page_lead_to_scram_over_tls(shell: Shell, tmp_path: Path) -> None:
    found = commands()
    assert 0 < len(found) <= MOST
    port = "0"
    for each in found:
        command = each.replace("kafka.example", "localhost").replace(":9644", ":0")
        code, printed = shell.run(command.replace(":9093", f":{port}"))
        assert code == 0, (command, printed, (tmp_path / "errors").read_text())
        if command.endswith("&\n"):
            ready = shell.until("groupkeeper ready") if "ready" not in printed else printed
            where = re.search(r"kafka=localhost:(\d+) |kafka=\S+:(\d+) ", ready)
            assert where is not None
            port = where[1] or where[2]
    work = tmp_path / "work"
    code, printed = shell.run("groupkeeper users list --json --command-config admin.properties\n")
    assert code == 0 and re.findall(r'"user": ?"(\w+)"', printed) == ["admin", "billing"]
    code, _ = shell.run("groupkeeper users list --command-config billing.properties\n")
    assert code == 1
    for each in ("admin.password", "billing.properties", "certificates/server.pem"):
        assert (work / each).stat().st_mode & 0o077 == 0


def test_the_extras_of_the_page_are_there() -> None:
    wanted = re.search(r"^pip install '\.\[(.+)\]'$", commands()[0], re.MULTILINE)
    assert wanted is not None
    extras = re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert set(wanted[1].split(",")) <= set(extras)
