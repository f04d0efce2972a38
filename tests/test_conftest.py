"""The command line of pytest, as `make test ARGS=...` passes it."""

import subprocess
import sys

from tests.support.process import ROOT


def test_a_path_that_does_not_exist_is_named_at_once() -> None:
    command = [sys.executable, "-m", "pytest", "-n1", "tests/storage", "tests/stroage/test_log.py"]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert ran.returncode == 4
    assert ran.stderr.splitlines()[0] == "ERROR: no such file or folder: tests/stroage/test_log.py"
    assert not ran.stdout
