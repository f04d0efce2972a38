"""A fresh virtual environment, and a server that runs in it as a user's would.

Nothing of this checkout is on its path unless it was installed. The dependencies are a folder that
is kept from run to run, and named in a file of the environment's site-packages.
"""

import os
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest

from groupkeeper.protocol.messages.api_versions import ApiVersionsRequest
from tests.clients import environments
from tests.support.process import Process
from tests.support.wire import connect

TIMEOUT_S = 60


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

    def share(self, *distributions: str) -> None:
        """Let it have distributions of the interpreter of the tests."""
        for each in map(distribution, distributions):
            for name in {file.parts[0] for file in each.files or ()} - {"..", "__pycache__"}:
                if not (self._packages / name).exists():
                    (self._packages / name).symlink_to(str(each.locate_file(name)))

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
        with Process(
            *("--http", "127.0.0.1:0", "--data-dir", str(cwd / "data")),
            program=[*map(str, command)],
            cwd=cwd,
            environment=self._variables(**variables),
        ) as process:
            with connect(process.ready().kafka) as client:
                assert len(client.call(0, ApiVersionsRequest()).api_keys) > 20
            assert process.stop(TIMEOUT_S) == 0, process.tail()
            return process.output

    @staticmethod
    def _variables(**more: str) -> dict[str, str]:
        """Without what a developer's shell tells Python, our own settings, and this checkout."""
        return {"PATH": os.defpath, "HOME": os.environ.get("HOME", "/"), **more}
