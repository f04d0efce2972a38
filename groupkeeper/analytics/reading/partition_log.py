"""Finds the files of one partition's log (its folder and the archive of its segments), and the
batches with given offsets in a segment.

Files may change at any time. A segment is archived before compaction replaces it in the folder, and
a compacted segment is complete once its name ends in `.swap`, before the segments it replaces are
removed. An open file stays readable after that.
"""

import os
import re
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from groupkeeper.analytics.errors import AnalyticsError
from groupkeeper.analytics.reading import walk
from groupkeeper.analytics.reading.files import AnyPath
from groupkeeper.analytics.reading.segments import (
    ARCHIVE,
    folders_in,
    in_one_place,
    partition_of,
    topic_of,
)
from groupkeeper.analytics.reading.walk import Header
from groupkeeper.protocol.record_batch import HEADER_SIZE, BatchHeader, read_header

_FILE: Final = re.compile(r"([0-9]{20})\.log(\.swap)?")
_ATTEMPTS: Final = 10
"""How often to look again for files that are replaced meanwhile."""
_CLOSE: Final = 128 * 1024
"""Distances in bytes that are walked rather than looked up in the index."""
NO_END: Final = 2**63 - 1

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PartitionFolders:
    """A partition's folder and the folder of its archive; either may be missing on disk."""

    folder: Path | None
    archive: Path | None

    @property
    def place(self) -> Path:
        place = self.folder or self.archive
        assert place is not None, "a log has a folder"
        return place

    @property
    def name(self) -> str:
        """Such as `__consumer_offsets-7`."""
        return self.place.name

    @property
    def topic(self) -> str:
        topic = topic_of(self.place)
        assert topic is not None, "logs are found by their topics"
        return topic

    @property
    def partition(self) -> int:
        return partition_of(self.place)


class _File(NamedTuple):
    """A segment in a listing: base offset, path, inode, and size in bytes."""

    base: int
    path: Path
    inode: int
    size: int


_Files = Sequence[_File]
"""Sorted by base offset."""


class Listing(NamedTuple):
    """The segments of a log at one moment, including empty ones, in order of preference."""

    archived: _Files
    live: _Files
    swapped: _Files
    """Compacted segments not yet renamed, or left behind by a crash."""


def list_segments(log: PartitionFolders) -> Listing:
    """List the segments; a missing folder has none. The folder is listed before the archive,
    because compaction archives a segment before it replaces it.
    """
    live, archived = _list(log.folder), _list(log.archive)
    return Listing(
        [each for each in archived if each.path.suffix == ".log"],
        [each for each in live if each.path.suffix == ".log"],
        [each for each in live if each.path.suffix == ".swap"],
    )


def _list(folder: Path | None) -> _Files:
    """Raises OSError."""
    if folder is None or not folder.is_dir():
        return []
    with os.scandir(folder) as entries:
        found = [(match, each) for each in entries if (match := _FILE.fullmatch(each.name))]
        files = [(int(match[1]), Path(each), each.stat()) for match, each in found]
    return sorted(_File(base, path, of.st_ino, of.st_size) for base, path, of in files)


def looked_at(
    log: PartitionFolders, look: Callable[[Listing], T], listing: Listing | None = None
) -> T:
    """Return the result of `look` for a listing: first `listing` if given, and new ones while
    `look` finds replaced files (FileNotFoundError). Raises AnalyticsError.
    """
    for _ in range(_ATTEMPTS):
        try:
            return look(listing or list_segments(log))
        except FileNotFoundError:
            listing = None
        except OSError as error:
            path = error.filename or log.place
            raise AnalyticsError(f"cannot read {path}: {error.strerror}") from error
    raise AnalyticsError(f"the files of {log.place} change faster than they are read")


def file_with(files: _Files, offset: int) -> _File | None:
    """Return the file that may have the offset."""
    number = bisect_right(files, offset, key=lambda each: each.base)
    return files[number - 1] if number else None


def base_behind(files: _Files, offset: int, until: int) -> int:
    """Return the base offset of the next file after `offset`, at most `until`."""
    number = bisect_right(files, offset, key=lambda each: each.base)
    return min(files[number].base, until) if number < len(files) else until


def find_logs(paths: Iterable[AnyPath], topic: str) -> dict[str, PartitionFolders]:
    """Return the logs of a topic in partition folders at or under `paths`, by name, sorted by
    partition; may be empty. Raises AnalyticsError for a path that is not a folder, and for a
    partition found in two places.
    """
    found: list[Path] = []
    given: list[Path] = []
    for path in paths:
        if not isinstance(path, Path):
            raise AnalyticsError(f"streams read local folders only, not {path}")
        if not path.is_dir():
            what = "a folder is needed, not a file" if path.exists() else "no such folder"
            raise AnalyticsError(f"{what}: {path}")
        given.append(Path(os.path.abspath(path)))
        found += [given[-1]] if topic_of(given[-1]) else folders_in(given[-1])
    live, archived = in_one_place(each for each in found if topic_of(each) == topic)
    for number, folder in live.items():
        if folder not in given:
            # An archive may be created later.
            archived.setdefault(number, folder.parent / ARCHIVE / folder.name)
    logs = (PartitionFolders(live.get(each), archived.get(each)) for each in {*live, *archived})
    return {log.name: log for log in sorted(logs, key=lambda log: log.partition)}


# -- inside a segment ----------------------------------------------------------------------------


class Hint(NamedTuple):
    """The place of a batch: the inode of its file, and its position."""

    inode: int
    position: int


NO_HINT: Final = Hint(0, 0)


class Spot(NamedTuple):
    """The place of an offset between two batches; `position` is the end of the earlier ones."""

    position: int
    before: Header | None
    """The last batch before the offset, if it is near."""
    after: Header | None
    """The first batch that ends after the offset; it may begin before it."""


class OpenSegment:
    """An open segment file in its present state. Positions come from the index, the hint, or a walk
    over batch headers. Raises OSError, and FileNotFoundError if the listed file was replaced.
    """

    def __init__(self, file: _File, hint: Hint = NO_HINT) -> None:
        self.path = file.path
        self.base = file.base
        self._file = file.path.open("rb")
        status = os.fstat(self._file.fileno())
        self.size = status.st_size
        self.inode = status.st_ino
        self._hint = hint.position if hint.inode == self.inode else 0
        self._index: list[int] | None = None
        if self.inode != file.inode:
            self.close()
            raise FileNotFoundError(file.path)

    def close(self) -> None:
        self._file.close()

    def read(self, start: int, end: int) -> bytes:
        """Read [start, end); fewer bytes if the file was truncated since it was opened."""
        self._file.seek(start)
        return self._file.read(end - start)

    def locate(self, offset: int) -> Spot:
        """Return the place of an offset. Batches with an impossible base offset are skipped."""
        near, lowest = self._near(offset)
        tail: deque[Header] = deque(maxlen=walk.TAIL)
        beyond = 0
        for header in walk.headers(self._file, near, self.size):
            tail.append(header)
            beyond += header.base >= offset
            if beyond > walk.AROUND:
                break
        good = walk.in_order(tail, lowest)
        before = next((each for each in reversed(good) if each.until <= offset), None)
        after = next((each for each in good if each.until > offset), None)
        return Spot(self.header(before).end if before else near, before, after)

    def last(self) -> Header | None:
        """Return the last whole and sound batch; None if there is none.

        No checksum covers base offsets: a batch after a gap counts only if another one follows it,
        or if there are more gaps, as compaction leaves them.
        """
        near, lowest = self._near(NO_END)
        good = walk.in_order(deque(walk.headers(self._file, near, self.size), walk.TAIL), lowest)
        gaps = [other for one, other in pairwise(good) if one.until < other.base]
        if good and good[0].position == 0 and good[0].base > self.base:
            gaps.append(good[0])
        holes = len(gaps) > 1 or any(each.records < each.until - each.base for each in good)
        if good and good[-1] in gaps and not holes:
            good.pop()
        return next((each for each in reversed(good) if self.is_sound(each.position)), None)

    def boundary(self, start: int, wanted: int) -> int | None:
        """Return the base offset of the first batch at or after position `wanted`, given that a
        batch starts at `start`; None if there is none.
        """
        position, base = walk.boundary(self._file, self.size, self._places(), start, wanted)
        return base if position < self.size else None

    def header(self, found: Header) -> BatchHeader:
        """Return the full header of a batch, with its position in the file."""
        header = read_header(self.read(found.position, found.position + HEADER_SIZE))
        header.position = found.position
        return header

    def is_sound(self, position: int) -> bool:
        return walk.is_sound(self._file, position, self.size)

    def _near(self, offset: int) -> tuple[int, int]:
        """Return the position of a sound batch shortly before `offset`, or of the first batch, and
        the lowest offset possible there.
        """
        near, lowest = 0, self.base
        if self._hint and self.is_sound(self._hint):
            base = self._base_at(self._hint)
            if base < offset:
                near, lowest = self._hint, base
        if self.size - near > _CLOSE:
            places = self._places()
            number = bisect_left(places, offset, key=self._base_at) - 1
            place = places[number] if number >= 0 else 0
            if place > near and self.is_sound(place):
                return place, self.base
        return near, lowest

    def _places(self) -> list[int]:
        if self._index is None:
            self._index = walk.read_index(self.path, self.size)
        return self._index

    def _base_at(self, position: int) -> int:
        return int.from_bytes(self.read(position, position + 8), "big", signed=True)
