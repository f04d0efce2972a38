"""The server under kills compacts all the time: its settings, how often it did, when to kill it."""

import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

SETTINGS = {
    "log.cleaner.backoff.ms": "20",
    "log.cleaner.delete.retention.ms": "100",
    "log.cleaner.min.cleanable.ratio": "0.1",
    "log.roll.ms": "2000",
    "offsets.topic.segment.bytes": "8192",
}
"""Segments of a second or two, compacted as soon as there are any."""
UNFINISHED = ("cleaned", "swap")
"""Ends of names of files that a compaction writes and puts into place."""
POLL_SECONDS = 0.001
KILLS_FOR_ONE = 4
"""So many kills at most for each compaction that came to its end, or there were too few."""
ENDED = re.compile(r"log compacted")


class Compactions:
    """What a data directory and the log of its servers tell of compactions."""

    def __init__(self, data_dir: Path, log: Path, chance: Random) -> None:
        self._data_dir = data_dir
        self._log = log
        self._chance = chance
        self.interrupted: Counter[str] = Counter()
        """Kills, by what the compaction that they ended had left."""

    @property
    def ended(self) -> int:
        """How many, over the lives of all servers."""
        return len(ENDED.findall(self._log.read_text(errors="replace")))

    def wait(self, least: float, most: float) -> None:
        """Until the time is up, or a file of a random kind is there, if one is waited for."""
        end = time.monotonic() + self._chance.uniform(least, most)
        kind = self._chance.choice((*UNFINISHED, ""))
        latest = time.monotonic() + most if kind else end
        time.sleep(least)
        while time.monotonic() < latest:
            if kind and kind in self.unfinished():
                return
            time.sleep(POLL_SECONDS)

    def killed(self) -> None:
        """Look at what a kill has left."""
        self.interrupted.update(self.unfinished())

    def unfinished(self) -> set[str]:
        """The kinds of files that are there."""
        return {kind for name in self._names() for kind in UNFINISHED if name.endswith(f".{kind}")}

    def _names(self) -> Iterator[str]:
        for folder in self._data_dir.glob("__consumer_offsets-*"):
            yield from (file.name for file in folder.iterdir())

    def too_few(self, kills: int) -> str:
        """What to say if there were not enough to tell anything."""
        least, ended = kills // KILLS_FOR_ONE, self.ended
        return "" if ended >= least else f"{ended} compactions came to their end, not {least}"
