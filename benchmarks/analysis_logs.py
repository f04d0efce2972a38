"""The logs that `benchmarks.analysis` reads: two hours of 300 groups, and as many commits as a size
needs.

Made by `tests.weeks`: the server's own records and events of two hours with their rebalances, and
commits of quiet times between them until the offsets log is large enough. All sizes tell of the
same groups and the same two hours; what differs is how often they commit. A log is made once and
kept.
"""

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.weeks.shards import DATA, make
from tests.weeks.weeks import Size

GROUPS: Final = 300
PARTITIONS: Final = 50
GROUP: Final = "payments.service-team-001"
"""One of them."""
FEW: Final = 0.1
"""The share of commits in transactions in logs that are like those of a broker."""
_RECORD_BYTES: Final = 103
"""Of the offsets log for each record, with its share of a batch's header."""
_MARKER_BYTES: Final = 30
"""More for each record of a transaction, of which most have two to four: its marker."""
_FORMAT: Final = 1
_ABOUT: Final = "made.json"
_KINDS: Final = {"mixed": FEW, "plain": 0.0, "transactional": 1.0}
MB: Final = 10**6


@dataclass(frozen=True, slots=True)
class Log:
    """A data directory. `size`: bytes of the offsets log; `events`: of the event log."""

    data: Path
    kind: str
    size: int
    events: int
    records: int

    @property
    def name(self) -> str:
        return f"{self.size / MB:,.0f} MB {self.kind}"


def log_of(folder: Path, megabytes: int, kind: str = "mixed", groups: int = GROUPS) -> Log:
    """The log of about this size in a folder, made if it is not there. `kind`: which commits are in
    transactions.
    """
    place = folder / f"{megabytes}-{kind}-{groups}"
    about = place / _ABOUT
    if not about.exists() or json.loads(about.read_text())["format"] != _FORMAT:
        shutil.rmtree(place, ignore_errors=True)
        records = _make(place, megabytes, kind, groups)
        about.write_text(json.dumps({"format": _FORMAT, "records": records}))
    sizes = (_bytes(place / DATA, topic) for topic in ("__consumer_offsets", "__group_events"))
    return Log(place / DATA, kind, *sizes, json.loads(about.read_text())["records"])


def _make(place: Path, megabytes: int, kind: str, groups: int) -> int:
    """Returns how many records the offsets log has, markers included."""
    from groupkeeper.analytics.reading import parse_split
    from groupkeeper.analytics.reading.plan import plan

    size = Size(
        groups=groups,
        days=2 / 24,
        seed=1,
        shards=2,
        partitions=PARTITIONS,
        incidents_a_day=12,
        segment_bytes=1 << 26,
        prefix=GROUP.rpartition("-")[0],
        transactional=_KINDS[kind],
    )
    each = _RECORD_BYTES + _MARKER_BYTES * _KINDS[kind]
    make(size, place, round(megabytes * MB / each))
    chunks = plan([place / DATA]).chunks
    splits = (split for chunk in chunks for split in chunk)
    return sum(len(rows) for split in splits for rows in parse_split(split, names=["offset"]))


def _bytes(data: Path, topic: str) -> int:
    return sum(file.stat().st_size for file in data.glob(f"{topic}-*/*.log"))


def cached(data: Path) -> None:
    """Read all files once, so that no case waits for the disk."""
    for file in data.glob("*/*.log"):
        with file.open("rb") as opened:
            while opened.read(1 << 24):
                pass
    os.sync()
