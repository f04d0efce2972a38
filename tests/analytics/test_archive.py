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


def test_workers_import_it_read_a_log_and_write_a_report(tmp_path: Path) -> None:
    """All modules, so that nothing that they import is missing."""
    target = tmp_path / "groupkeeper.zip"
    pack = [sys.executable, "-m", "zipfile", "-c", str(target), str(ROOT / "groupkeeper")]
    subprocess.run(pack, check=True)
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
