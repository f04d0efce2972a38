"""The command line of pytest, as `make test ARGS=...` passes it, and what tests share."""

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from groupkeeper.server.collector import keep_collections_short
from tests.support.collector import THRESHOLD
from tests.support.process import ROOT


def test_a_path_that_does_not_exist_is_named_at_once() -> None:
    command = [sys.executable, "-m", "pytest", "-n1", "tests/storage", "tests/stroage/test_log.py"]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert ran.returncode == 4
    assert ran.stderr.splitlines()[0] == "ERROR: no such file or folder: tests/stroage/test_log.py"
    assert not ran.stdout


def test_tests_of_a_group_run_in_one_process(tmp_path: Path) -> None:
    """They share fixtures that take minutes; a version of pytest kept the groups from working."""
    (tmp_path / "test_group.py").write_text(
        "import os\n"
        "import pytest\n"
        "@pytest.mark.xdist_group('a')\n"
        "@pytest.mark.parametrize('number', range(8))\n"
        "def test_it(number):\n"
        "    open(f'{os.getpid()}.pid', 'w').close()\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-n2", "--dist", "loadgroup", "-c", os.devnull]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert ran.returncode == 0, ran.stdout
    assert len([*tmp_path.glob("*.pid")]) == 1


@pytest.mark.xdist_group("collector")
@pytest.mark.parametrize("number", range(2))
def test_garbage_is_collected_as_usual_after_a_test_that_changes_that(number: int) -> None:
    """What tests leave was never freed after one that ran `observe`: a process took 7 GB."""
    assert gc.get_threshold() == THRESHOLD
    assert not [each for each in gc.callbacks if type(each).__module__.startswith("groupkeeper")]
    assert not gc.get_freeze_count()
    keep_collections_short()
    gc.freeze()
