"""Folders of installed packages, one per client library: versions that clash never meet.

A folder is made with `pip install --target` from its locked requirement file, once: its name ends
in a hash of that file and of the interpreter. A worker is started with that folder as its only
place for packages (`python -S`), so it sees neither the server's packages nor another client.

Run as a script it makes all of them: `python tests/clients/environments.py`.
"""

import fcntl
import hashlib
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
CACHE = HERE.parents[1] / ".clients"
INSTALL_SECONDS = 300


def folder(name: str) -> Path:
    """The packages of requirements/<name>.txt, installed now if they were not before."""
    return packages(HERE / "requirements" / f"{name}.txt")


def packages(requirements: Path, python: str = sys.executable) -> Path:
    """The packages of a locked requirement file, for that interpreter."""
    key = hashlib.sha256(requirements.read_bytes() + _interpreter(python)).hexdigest()[:12]
    made = CACHE / f"{requirements.stem}-{key}"
    CACHE.mkdir(exist_ok=True)
    (CACHE / ".gitignore").write_text("*\n")
    with (CACHE / f"{requirements.stem}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # test processes side by side share the cache
        if not made.exists():
            _install(requirements, python, made)
    return made


@cache
def _interpreter(python: str) -> bytes:
    tag = "import sys; print(sys.implementation.cache_tag, sys.platform, end='')"
    return subprocess.run([python, "-c", tag], capture_output=True, check=True).stdout


def _install(requirements: Path, python: str, made: Path) -> None:
    unfinished = Path(tempfile.mkdtemp(dir=CACHE, prefix="unfinished-"))
    command = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"]
    command += ["--disable-pip-version-check", "--no-deps", "--target", str(unfinished)]
    try:
        done = subprocess.run(
            [*command, "--requirement", str(requirements)],
            timeout=INSTALL_SECONDS,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{requirements.name} cannot be installed:\n{done.stderr}")
        unfinished.rename(made)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


if __name__ == "__main__":
    for each in sorted((HERE / "requirements").glob("*.txt")):
        print(folder(each.stem))
