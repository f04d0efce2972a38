"""The Pythons of this machine, by minor version: those of pyenv, and `python3.N` on the PATH."""

import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

THIS = sys.version_info.minor
OLDEST = 11
"""What pyproject.toml asks for."""


def _candidates() -> Iterator[tuple[int, str]]:
    yield THIS, sys.executable
    for python in sorted(Path.home().glob(".pyenv/versions/3.*/bin/python"), reverse=True):
        yield int(python.parts[-3].split(".")[1]), str(python)
    for folder in map(Path, os.get_exec_path()):
        for python in folder.glob("python3.*"):
            if named := re.fullmatch(r"python3\.(\d+)", python.name):
                yield int(named[1]), str(python)


_FOUND: dict[int, list[str]] = defaultdict(list)
for _minor, _python in _candidates():
    _FOUND[_minor].append(_python)

SUPPORTED = sorted(minor for minor in _FOUND if minor >= OLDEST)
TOO_OLD = sorted((minor for minor in _FOUND if minor < OLDEST), reverse=True)


def starting(minor: int) -> str | None:
    """One that starts: pyenv puts names on the PATH that do nothing but say what is missing."""
    for python in _FOUND[minor]:
        probe = [python, "-c", f"import sys, venv; sys.exit(sys.version_info[:2] != (3, {minor}))"]
        if subprocess.run(probe, check=False, capture_output=True).returncode == 0:
            return python
    return None


def find(minor: int) -> str:
    """As `starting`. Skips the test if there is none."""
    skipped = f"none of these starts as Python 3.{minor}: {_FOUND[minor]}"
    return starting(minor) or pytest.skip(skipped)
