"""The package as a zip file, for the workers of a cluster."""

import subprocess
import sys
from pathlib import Path

from tests.support.process import ROOT

USE = """
import importlib, pkgutil, sys
import groupkeeper.analytics
from groupkeeper.analytics.reading import parse_split
from groupkeeper.analytics.reading.plan import plan
from pathlib import Path

assert groupkeeper.analytics.__file__.startswith(sys.argv[1]), groupkeeper.analytics.__file__
for module in pkgutil.walk_packages(groupkeeper.analytics.__path__, "groupkeeper.analytics."):
    importlib.import_module(module.name)
splits = [split for chunk in plan([Path(sys.argv[2])]).chunks for split in chunk]
print(sum(rows.num_rows for split in splits for rows in parse_split(split)))
from groupkeeper.analytics.page import ReportHeader, render
from datetime import UTC, datetime
assert "<style>" in render({}, ReportHeader([], datetime.now(UTC), "1"))
"""


def packed(target: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "groupkeeper.analytics.archive", str(target)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_workers_import_it_read_a_log_and_write_a_report(tmp_path: Path) -> None:
    """All modules, so that nothing that they import is missing."""
    target = tmp_path / "groupkeeper.zip"
    assert packed(target).returncode == 0
    log = ROOT / "tests" / "fixtures" / "kafka-consumer-offsets"
    done = subprocess.run(
        [sys.executable, "-c", USE, str(target), str(log)],
        cwd=tmp_path,
        env={"PYTHONPATH": str(target), "NUMBA_DISABLE_JIT": "1"},  # compiling takes a while
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "300\n"), done.stderr


def test_what_cannot_be_written_is_said_in_a_line(tmp_path: Path) -> None:
    done = packed(tmp_path / "no" / "groupkeeper.zip")
    assert done.returncode == 2
    assert "No such file or directory" in done.stderr.splitlines()[-1]
