"""A fresh virtual environment, and a server that runs in it as a user's would.

Nothing of this checkout is on its path unless it was installed. The dependencies are a folder that
is kept from run to run, and named in a file of the environment's site-packages.
"""

import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.clients import environments
from tests.clients.server import READY

TIMEOUT_S = 60
API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)
"""ApiVersions, version 0, correlation id 1, without a client id."""
SERVE = ["serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]


class Environment:
    """A virtual environment; installing into it is done with the pip of the tests."""

    def __init__(self, python: str, folder: Path) -> None:
        command = [python, "-m", "venv", "--without-pip", str(folder / "venv")]
        subprocess.run(command, check=True, timeout=TIMEOUT_S, env=self._variables())
        self._bin = folder / "venv" / "bin"
        self.python = self._bin / "python"
        self.script = self._bin / "groupkeeper"
        [self._packages] = (folder / "venv").glob("lib/python3.*/site-packages")

    def names(self) -> set[str]:
        """What is in site-packages and beside the interpreter."""
        return {path.name for path in [*self._packages.iterdir(), *self._bin.iterdir()]}

    def add(self, lock: Path) -> None:
        """Let it have the packages of a lock file. Skips the test if this Python cannot."""
        try:
            packages = environments.packages(lock, str(self.python))
        except RuntimeError as error:
            if "No matching distribution" in str(error):
                pytest.skip(str(error))
            raise
        (self._packages / f"{lock.stem}.pth").write_text(f"{packages}\n")

    def install(self, *what: str | Path) -> None:
        command = [sys.executable, "-m", "pip", "--python", str(self.python), "install"]
        command += ["--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"]
        done = subprocess.run(
            [*command, *map(str, what)],
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            timeout=TIMEOUT_S,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    def run(self, *command: str | Path, cwd: Path, **variables: str) -> str:
        """What a command that succeeds prints."""
        done = subprocess.run(
            list(map(str, command)),
            cwd=cwd,
            env=self._variables(**variables),
            timeout=TIMEOUT_S,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def serves(self, *command: str | Path, cwd: Path, **variables: str) -> str:
        """Run a program that serves until it is stopped; what it prints after the ready line."""
        arguments = [*map(str, command), *SERVE, "--data-dir", str(cwd / "data")]
        with _started(arguments, cwd, self._variables(**variables)) as process:
            assert process.stdout is not None
            ready = READY.search(process.stdout.readline())
            if ready is None:
                process.kill()
                pytest.fail(f"not ready: {process.communicate()[1]}")
            _ask_for_versions(ready["kafka"])
            process.terminate()
            printed, errors = process.communicate(timeout=TIMEOUT_S)
            assert process.returncode == 0, errors
            return printed

    @staticmethod
    def _variables(**more: str) -> dict[str, str]:
        """Without what a developer's shell tells Python, our own settings, and this checkout."""
        return {"PATH": os.defpath, "HOME": os.environ.get("HOME", "/"), **more}


@contextmanager
def _started(
    command: list[str], cwd: Path, variables: dict[str, str]
) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _ask_for_versions(address: str) -> None:
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=TIMEOUT_S) as connection:
        connection.sendall(API_VERSIONS)
        with connection.makefile("rb") as answers:
            correlation_id, error_code, apis = struct.unpack(">4xihi", answers.read(14))
    assert (correlation_id, error_code) == (1, 0)
    assert apis > 20
