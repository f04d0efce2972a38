"""What has happened to the logs of groups: counted from the calls that changed the disk."""

import re
from collections import Counter
from collections.abc import Iterable

STARTED = "--- a process started"
"""A line among the calls."""

_PATTERNS = (
    ("write", re.compile(r"write data/(?P<log>\S+\.log) (?P<size>\d+) at (?P<at>\d+)")),
    ("truncate", re.compile(r"truncate data/(?P<log>\S+\.log) to (?P<size>\d+)")),
    ("create", re.compile(r"create data/(?P<log>__consumer_offsets\S+\.log)")),
    ("swap", re.compile(r"rename \S+\.log\.\w+\.cleaned to (?P<log>\S+\.log)\.swap")),
    ("swapped", re.compile(r"rename \S+\.log\.swap to (?P<log>\S+\.log)")),
    ("archive", re.compile(r"link \S+\.log as data/archive/(?P<log>\S+\.log)")),
    ("empty", re.compile(r"remove data/archive/(?P<log>\S+\.log)")),
    ("journal", re.compile(r"create data/journals/\S+")),
    ("discard", re.compile(r"remove data/(?P<log>\S+\.log)\.\w+\.cleaned")),
)


class Tally:
    """Reads the calls of a disk in their order."""

    def __init__(self, segment_bytes: int) -> None:
        self.counts: Counter[str] = Counter()
        self._segment_bytes = segment_bytes
        self._sizes: dict[str, int] = {}
        self._last: dict[str, str] = {}
        """The newest segment of each log."""
        self._swaps: dict[str, int] = {}
        """Segments that are being swapped, and by which process."""
        self._process = 0

    def read(self, calls: Iterable[str]) -> None:
        for call in calls:
            if call == STARTED:
                self._process += 1
                continue
            for kind, pattern in _PATTERNS:
                found = pattern.fullmatch(call)
                if found is not None:
                    getattr(self, f"_{kind}")(**found.groupdict())
                    break

    def _create(self, log: str) -> None:
        self._sizes[log] = 0

    def _write(self, log: str, size: str, at: str) -> None:
        folder = log.partition("/")[0]
        before = self._last.get(folder)
        if at == "0" and before is not None and log > before:
            fits = self._sizes[before] + int(size) <= self._segment_bytes
            self.counts["rolled by age" if fits else "rolled by size"] += 1
        self._last[folder] = max(log, before or "")
        self._sizes[log] = int(size) + int(at)

    def _truncate(self, log: str, size: str) -> None:
        self._sizes[log] = int(size)

    def _swap(self, log: str) -> None:
        self._swaps[log] = self._process

    def _swapped(self, log: str) -> None:
        late = self._swaps.pop(log, self._process) != self._process
        self.counts["swap completed by a start" if late else "swapped"] += 1

    def _archive(self, log: str) -> None:
        self.counts["archived"] += 1

    def _empty(self, log: str) -> None:
        self.counts["removed from the archive"] += 1

    def _journal(self) -> None:
        self.counts["journal begun"] += 1

    def _discard(self, log: str) -> None:
        self.counts["unfinished compaction removed"] += 1
