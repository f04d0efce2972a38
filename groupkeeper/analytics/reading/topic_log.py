"""The log of a topic partition beside the logs that are analysed: where it ended at some time, and
which batch holds an offset.

It may be of a running broker, and files may go away. What cannot be found out is None: an offset or
a time before the first record that is there, damaged segments, other formats.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from groupkeeper.analytics.reading import files
from groupkeeper.analytics.reading.files import Place
from groupkeeper.analytics.reading.topic_segment import (
    Batch,
    NotKnown,
    TopicSegment,
    first_time,
)
from groupkeeper.analytics.reading.walk import disagreeing

_SEGMENT: Final = re.compile(r"\d{20}\.log")
_OPEN_MOST: Final = 4
"""So many segments are open: that of the end, and those in which slow groups read."""
_HOUR_MS: Final = 3_600_000


class TopicLog:
    """A folder with segments. Close it at the end. Raises OSError."""

    def __init__(self, folder: Place) -> None:
        found = sorted((int(each.stem), each) for each in _segments_in(folder))
        self._paths = [path for _, path in found]
        self._bases = [base for base, _ in found]
        self._sizes = [files.status(path).size for path in self._paths]
        self._open: dict[int, TopicSegment] = {}
        self._times: list[int] | None = None
        self._dated: list[int] = []

    @property
    def length(self) -> tuple[int, int]:
        """Of two copies of a log, that of the longer one is greater."""
        return (self._bases[-1], self._sizes[-1]) if self._bases else (-1, -1)

    @property
    def start(self) -> int | None:
        """The first offset that is there; None without segments."""
        return self._bases[0] if self._bases else None

    def close(self) -> None:
        for each in self._open.values():
            each.close()
        self._open.clear()

    def end_at(self, time: int) -> int | None:
        """The offset behind the last record at a time (epoch milliseconds); None: not known.

        It is searched in the last segment whose first batch is not later. A timestamp there that is
        out of order by an hour or more does not count.
        """
        with suppress(OSError, NotKnown):
            times = self._first_times()
            number = bisect_right(times, time) - 1
            if number >= 0:
                return self._segment(self._dated[number]).end_at(time)
            is_whole = bool(times) and self._dated[0] == 0 and self.start == 0
            return 0 if is_whole else None
        return None

    def from_offset(self, offset: int) -> Batch | None:
        """The first batch that ends behind an offset; None if there is none.

        Raises NotKnown, and OSError.
        """
        first = max(bisect_right(self._bases, offset) - 1, 0)
        for number in range(first, len(self._bases)):
            found = next(self._segment(number).from_offset(offset), None)
            if found is not None:
                return found
        return None

    def _first_times(self) -> list[int]:
        """Rising times of the first batches of the segments in `_dated`."""
        if self._times is None:
            times = [first_time(path) for path in self._paths]
            hours = [each // _HOUR_MS for each in times]
            wrong = {*disagreeing(hours, 0, 2**63)}
            self._dated = [number for number in range(len(times)) if number not in wrong]
            self._times = []
            for number in self._dated:
                self._times.append(max([times[number], *self._times[-1:]]))
        return self._times

    def _segment(self, number: int) -> TopicSegment:
        found = self._open.pop(number, None)
        if found is None:
            if len(self._open) >= _OPEN_MOST:
                self._open.pop(next(iter(self._open))).close()
            until = self._bases[number + 1] if number + 1 < len(self._bases) else None
            path, base, size = self._paths[number], self._bases[number], self._sizes[number]
            found = TopicSegment(path, base, size, until)
        self._open[number] = found
        return found


def _segments_in(folder: Place) -> Iterable[Place]:
    return (each for each in folder.iterdir() if _SEGMENT.fullmatch(each.name))


class TopicLogs:
    """The logs of topics in some data folders, each of which is listed once."""

    def __init__(self, data: Iterable[str]) -> None:
        self._data = [files.place(each) for each in data]
        self._folders: dict[str, list[Place]] | None = None

    def open(self, topic: str, partition: int) -> TopicLog | None:
        """The log of a topic partition: the longest one, if several brokers have it. None if it is
        in none of the folders.
        """
        found: TopicLog | None = None
        for folder in self._listed().get(f"{topic}-{partition}", ()):
            with suppress(OSError):
                one = TopicLog(folder)
                if one.start is not None and (found is None or one.length > found.length):
                    found = one
        return found

    def _listed(self) -> dict[str, list[Place]]:
        if self._folders is None:
            self._folders = {}
            for data in self._data:
                with suppress(OSError):
                    for each in data.iterdir():
                        self._folders.setdefault(each.name, []).append(each)
        return self._folders
