"""`analyze` that a signal ends. All of its processes have its standard output, which is closed when
the last one has ended.
"""

import os
import signal
import subprocess
import sys

import pytest

from groupkeeper.cli import INTERRUPTED
from tests.analytics.endless import WORK_S
from tests.support.process import ROOT

ENDED_S = WORK_S / 2


@pytest.fixture
def busy(broker_copy, tmp_path):
    """The command, when both of its workers are busy."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.analytics.endless", broker_copy],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        cwd=ROOT,
    )
    with process:
        try:
            assert [process.stdout.readline() for _ in range(2)] == [b"busy\n"] * 2
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all_processes_and_leaves_no_file(busy, number, tmp_path):
    assert [*tmp_path.glob("groupkeeper-analyze-*")]
    busy.send_signal(number)
    assert busy.communicate(timeout=ENDED_S) == (b"", b"\n")
    assert busy.returncode == INTERRUPTED
    assert not [*tmp_path.glob("groupkeeper-*")]


def test_workers_of_a_command_that_was_killed_end(busy):
    busy.kill()
    assert busy.communicate(timeout=ENDED_S)[0] == b""
