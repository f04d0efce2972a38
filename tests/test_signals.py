"""Tests may send signals to the processes that they start, however pytest was started."""

import signal
import subprocess
import sys

from tests.support.process import ROOT

SHOW = "import signal; print([signal.getsignal(each) for each in (%d, %d, %d)])"
IGNORED = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)


def test_a_child_is_interrupted_by_signals() -> None:
    command = [sys.executable, "-c", SHOW % IGNORED]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "SIG_IGN" not in shown, shown


def test_the_same_in_the_background_and_under_nohup() -> None:
    program = (
        "import signal, sys, pytest\n"
        f"for each in {[int(each) for each in IGNORED]}: signal.signal(each, signal.SIG_IGN)\n"
        f"sys.exit(pytest.main(['-q', '{__file__}', '-k', 'interrupted']))\n"
    )
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert ran.returncode == 0, ran.stdout
