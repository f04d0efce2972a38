"""The files of one partition's log: its folder, and the archive of its segments.

They may change at any time. A segment is in the archive before compaction replaces it in the
folder, and a compacted segment is complete when its name ends in `.swap`, before those that it
replaces are removed.
"""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from groupkeeper.analytics.errors import AnalyticsError
from groupkeeper.analytics.reading.files import Place
from groupkeeper.analytics.reading.segments import (
    ARCHIVE,
    folders_in,
    partition_of,
    topic_of,
    twice,
)

_FILE: Final = re.compile(r"([0-9]{20})\.log(\.swap)?")


@dataclass(frozen=True, slots=True)
class PartitionLog:
    """A partition's folder and that of its archive, which need not be there."""

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


class Found(NamedTuple):
    """A file in a listing; size in bytes."""

    inode: int
    size: int


Segments = Mapping[int, Found]
"""By base offset, rising."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The segments of a log at a moment, empty ones too."""

    archived: Segments
    live: Segments
    swapped: Segments
    """Those that compaction is about to put in place, or was when a crash ended it."""

    @property
    def bases(self) -> list[int]:
        return sorted({*self.archived, *self.live})


def list_segments(log: PartitionLog) -> Listing:
    """A missing folder has none.

    First the folder: what is compacted in it was in the archive before, if there is one.
    """
    live, swapped = _list(log.folder)
    archived, _ = _list(log.archive)
    return Listing(archived, live, swapped)


def _list(folder: Path | None) -> tuple[Segments, Segments]:
    segments: dict[int, Found] = {}
    swapped: dict[int, Found] = {}
    if folder is not None:
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if match := _FILE.fullmatch(entry.name):
                        (swapped if match[2] else segments)[int(match[1])] = _found(entry)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise AnalyticsError(f"cannot read {folder}: {error.strerror}") from error
    return dict(sorted(segments.items())), dict(sorted(swapped.items()))


def _found(entry: os.DirEntry[str]) -> Found:
    """Zeros if it is gone."""
    try:
        status = entry.stat()
    except OSError:
        return Found(0, 0)
    return Found(status.st_ino, status.st_size)


def find_logs(paths: Iterable[Place], topic: str) -> dict[str, PartitionLog]:
    """The logs of a topic in partition folders at or under `paths`, by name in the order of
    partitions: none in folders without any. Raises AnalyticsError for a path that is no folder, and
    for a partition found in two places.
    """
    live: dict[str, Path] = {}
    archived: dict[str, Path] = {}
    for path in paths:
        if not isinstance(path, Path):
            raise AnalyticsError(f"streams read local folders only, not {path}")
        given = Path(os.path.abspath(path))
        if not given.is_dir():
            what = "a folder is needed, not a file" if given.exists() else "no such folder"
            raise AnalyticsError(f"{what}: {path}")
        for folder in [given] if topic_of(given) else folders_in(given):
            if topic_of(folder) != topic:
                continue
            if folder.parent.name == ARCHIVE:
                _add(archived, folder)
                continue
            _add(live, folder)
            if folder != given:
                # It may appear between two looks at the log.
                archived.setdefault(folder.name, folder.parent / ARCHIVE / folder.name)
    for name, folder in archived.items():
        if live.get(name, folder) not in (folder, folder.parents[1] / name):
            raise twice(partition_of(folder), live[name], folder)
    logs = (PartitionLog(live.get(name), archived.get(name)) for name in {*live, *archived})
    return {log.name: log for log in sorted(logs, key=lambda log: log.partition)}


def _add(known: dict[str, Path], folder: Path) -> None:
    one = known.setdefault(folder.name, folder)
    if one.resolve() != folder.resolve():
        raise twice(partition_of(folder), one, folder)
