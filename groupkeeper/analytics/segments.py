"""Finds the segments to read: the `*.log` files of `__consumer_offsets-<n>` folders and archives.

Folders and files may be symbolic links: names count as they are given, never as they resolve.
"""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from glob import glob, has_magic
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from groupkeeper.analytics import walk
from groupkeeper.analytics.errors import AnalyticsError

TOPIC: Final = "__consumer_offsets"
ARCHIVE: Final = "archive"
"""The folder in a data folder that keeps segments as they were before compaction."""
NO_PARTITION: Final = -1

_FOLDER: Final = re.compile(re.escape(TOPIC) + r"-(\d+)")
_SEGMENT: Final = re.compile(r"\d{20}\.log")
_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]+):/")


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A `.log` file with `size` in bytes to read, first offset `base`, and its device and inode.

    The partition is NO_PARTITION if the folder does not name one. A file that cannot be looked at
    has size 0.
    """

    path: Path
    partition: int
    base: int
    size: int
    identity: tuple[int, int] = field(default=(0, 0), compare=False)

    @property
    def is_archived(self) -> bool:
        return self.path.parent.parent.name == ARCHIVE


def expand(paths: Iterable[str]) -> list[Path]:
    """Local paths from paths, `file:` URLs and patterns with `*`, `?` or `[`. Raises
    AnalyticsError.
    """
    return [path for each in paths for path in _expand(each)]


def _expand(given: str) -> list[Path]:
    scheme = _SCHEME.match(given)
    if scheme and scheme[1] != "file":
        raise AnalyticsError(f"{given}: only local files are read, not {scheme[1]}:")
    name = given
    if scheme:
        rest = given.removeprefix("file:")
        name = unquote(f"/{rest.lstrip('/')}")
    if has_magic(name) and not os.path.exists(name):
        found = sorted(glob(name))
        if not found:
            raise AnalyticsError(f"no file or folder matches {given}")
        return [Path(each) for each in found]
    return [Path(name)]


def find_segments(paths: Iterable[Path], partition: int | None = None) -> list[SegmentFile]:
    """Segments that are not empty, by partition and base offset. Raises AnalyticsError.

    Of a partition and its archive, the archive counts where it has the records: there they are as
    they were before compaction. `partition` is that of segments whose folder does not name one.
    """
    folders: dict[int, Path] = {}
    archives: dict[int, Path] = {}
    found: dict[Path, Path] = {}
    for path in paths:
        # Not resolve(): a link's name says which partition it is, its target's need not.
        given = Path(os.path.abspath(path))
        files = list(_log_files(given))
        if not files:
            raise AnalyticsError(
                f"nothing to read in {path}: no {TOPIC}-<n> folder with segments (*.log)"
            )
        for file in files:
            known = archives if file.parent.parent.name == ARCHIVE else folders
            number = partition_of(file.parent)
            one = known.setdefault(number, file.parent)
            if one.resolve() != file.parent.resolve():
                raise _twice(number, one, file.parent)
            found.setdefault(file.resolve(), file)
    for number, archive in archives.items():
        live = folders.get(number, archive)
        if live not in (archive, archive.parents[1] / archive.name):
            raise _twice(number, live, archive)
    _check_lone(found.values(), partition)
    segments = _without_archived([*filter(None, (_segment(f, partition) for f in found.values()))])
    return sorted(segments, key=lambda segment: (segment.partition, segment.base))


def _twice(partition: int, one: Path, other: Path) -> AnalyticsError:
    if partition == NO_PARTITION:
        return AnalyticsError(f"segments in {one} and {other} name no partition: read them apart")
    return AnalyticsError(f"partition {partition} is there twice, in {one} and {other}: name one")


def _check_lone(files: Iterable[Path], partition: int | None) -> None:
    """Several segments of which no folder says the partition may be of several partitions."""
    lone = [file for file in files if partition_of(file.parent) == NO_PARTITION]
    if len(lone) > 1 and partition is None:
        raise AnalyticsError(
            f"the partition of {lone[0]} and {len(lone) - 1} more is not known, as they are in no "
            f"{TOPIC}-<n> folder: say partition (--partition N) if they are of one"
        )


def _without_archived(segments: Iterable[SegmentFile]) -> Iterator[SegmentFile]:
    """The segments, but of those that also have archived records only what is before these."""
    archived: dict[int, list[int]] = {}
    for each in segments:
        if each.is_archived:
            archived.setdefault(each.partition, []).append(each.base)
    for each in segments:
        bases = archived.get(each.partition, [])
        if each.is_archived or not bases or each.base > max(bases):
            yield each
        elif size := walk.size_before(each.path, each.size, min(bases)):
            yield replace(each, size=size)


def partition_of(folder: Path) -> int:
    """The partition in a folder's name, or NO_PARTITION."""
    match = _FOLDER.fullmatch(folder.name)
    return int(match[1]) if match else NO_PARTITION


def _log_files(path: Path) -> Iterator[Path]:
    """Segments at or under `path`, without `.log.deleted`, `.log.swap` and `.log.cleaned`."""
    if not path.exists():
        raise AnalyticsError(f"no such file or folder: {path}")
    if path.is_file():
        if _SEGMENT.fullmatch(path.name):
            yield path
    elif _FOLDER.fullmatch(path.name):
        yield from log_files_in(path)
    else:
        for parent, folders, _ in os.walk(path):
            for name in filter(_FOLDER.fullmatch, folders):
                yield from log_files_in(Path(parent, name))
            # Partition folders have no subfolders: do not descend into those of other topics.
            folders[:] = [name for name in folders if not re.search(r"-\d+$", name)]


def log_files_in(folder: Path) -> list[Path]:
    """The segments of one partition folder, by base offset. Raises AnalyticsError."""
    try:
        return sorted(file for file in folder.iterdir() if _SEGMENT.fullmatch(file.name))
    except OSError as error:
        raise AnalyticsError(f"cannot read {folder}: {error.strerror}") from error


def _segment(file: Path, partition: int | None) -> SegmentFile | None:
    """None for an empty file and for one that compaction has deleted."""
    number = partition_of(file.parent)
    if number == NO_PARTITION and partition is not None:
        number = partition
    return segment_file(file, number)


def segment_file(file: Path, partition: int) -> SegmentFile | None:
    """None for an empty file and for one that compaction has deleted."""
    try:
        status = file.stat()
    except OSError:
        # A link that leads nowhere is there; a file that compaction has deleted is not.
        return SegmentFile(file, partition, int(file.stem), 0) if os.path.lexists(file) else None
    if not status.st_size:
        return None
    identity = (status.st_dev, status.st_ino)
    return SegmentFile(file, partition, int(file.stem), status.st_size, identity)
