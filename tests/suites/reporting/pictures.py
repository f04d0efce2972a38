"""The pictures of docs/analytics.md: of the report of two days of forty groups, made by the server
under virtual time. They are the days whose findings that page checks.
"""

import contextlib
import io
from pathlib import Path

from groupkeeper.cli import main as groupkeeper
from tests.suites.browsing.scene import IMAGES
from tests.suites.browsing.window import Window
from tests.weeks.shards import make
from tests.weeks.weeks import Size

DAYS = Size(groups=40, days=2, seed=1, partitions=50, segment_bytes=4 << 20)
"""What `python -m tests.weeks --groups 40 --days 2 --seed 1` makes."""


def make_sample(folder: Path, report: Path) -> None:
    """Make these days in a new folder, and their report. Runs event loops of its own."""
    make(DAYS, folder, 0, lambda _: None)
    with contextlib.redirect_stdout(io.StringIO()):
        assert groupkeeper(["analyze", str(folder / "data"), "--report", str(report)]) == 0
    # Pictures are of no machine.
    page = report.read_text(encoding="utf-8")
    report.write_text(page.replace(str(folder.parent), ""), encoding="utf-8")


def take(window: Window) -> None:
    """Each begins with what its sentence in docs/analytics.md names."""
    window.open()
    window.save(IMAGES / "report.jpg", 760)
    for name, height, place in (
        ("time", 760, "#rate"),
        ("group", 500, "#group-1-owners"),
        ("what-if", 760, "#what-if-1"),
    ):
        window.save(IMAGES / f"report-{name}.jpg", height, window.find(place))
