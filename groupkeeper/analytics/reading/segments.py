"""Finds the segments to read: the `*.log` files of folders `__consumer_offsets-<n>` or
`__group_events-<n>`, and of archives.

Folders and files may be symbolic links: their own names count, never those of their targets.

`cover` determines the offsets of each segment of a partition, gaps between segments and overlaps. A
copy taken in the middle of a compaction has segments with overlapping offsets: the later segment
counts. A gap is due to compaction or to a missing segment; compaction is assumed if it also left
holes in a segment next to the gap or after it.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from glob import glob, has_magic
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import unquote

from groupkeeper.analytics.errors import AnalyticsError
from groupkeeper.analytics.reading import files, walk
from groupkeeper.analytics.reading.files import AnyPath, RemotePath
from groupkeeper.analytics.reading.problems import Problem
from groupkeeper.analytics.reading.walk import RELATIVE_LIMIT
from groupkeeper.protocol import group_events

OFFSETS: Final = "__consumer_offsets"
EVENTS: Final = group_events.TOPIC
TOPICS: Final = (OFFSETS, EVENTS)
ARCHIVE: Final = "archive"
"""Folder of a data directory that keeps segments as they were before compaction."""
NO_PARTITION: Final = -1

_FOLDER: Final = re.compile(f"({'|'.join(TOPICS)})-([0-9]+)")
_SEGMENT: Final = re.compile(r"\d{20}\.log")
P = TypeVar("P", bound=AnyPath)
_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]+):/")


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A `.log` file: `size` bytes to read, base offset, device and inode.

    `partition` is NO_PARTITION if the folder does not name one. The size of an inaccessible file is
    0.
    """

    path: AnyPath
    partition: int
    base: int
    size: int
    identity: tuple[int, int] = field(default=(0, 0), compare=False)
    topic: str = OFFSETS

    @property
    def is_archived(self) -> bool:
        return self.path.parent.parent.name == ARCHIVE


def expand(paths: Iterable[str]) -> list[AnyPath]:
    """Return the paths in local paths, glob patterns and URLs. Raises AnalyticsError."""
    return [path for each in paths for path in _expand(each)]


def _expand(given: str) -> list[AnyPath]:
    if not given:  # such as an unset variable; does not mean the working directory
        raise AnalyticsError("a path is empty: name a data directory, or . for this one")
    scheme = _SCHEME.match(given)
    if scheme and scheme[1] in files.SCHEMES:
        return [files.place(given)]
    if scheme and scheme[1] != "file":
        known = ", ".join(sorted(files.SCHEMES))
        raise AnalyticsError(f"{given}: no file system for {scheme[1]}: (known: file, {known})")
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


def find_segments(paths: Iterable[AnyPath], topic: str = OFFSETS) -> list[SegmentFile]:
    """Return the non-empty segments of one topic, by partition and base offset. Raises
    AnalyticsError.

    Where a partition's archive has records, it replaces the partition folder: archived records are
    as they were before compaction.
    """
    return find_topics(paths, (topic,))[topic]


def find_topics(
    paths: Iterable[AnyPath], topics: Sequence[str] = TOPICS
) -> dict[str, list[SegmentFile]]:
    """Return segments by topic, otherwise as `find_segments`; each path has to hold at least one
    topic. Segments outside of partition folders belong to the first topic.
    """
    found: dict[str, list[AnyPath]] = {topic: [] for topic in topics}
    for path in paths:
        there = [
            (topic_of(file.parent) or topics[0], file) for file in _log_files(files.absolute(path))
        ]
        if not any(topic in found for topic, _ in there):
            folders = " or ".join(f"{topic}-<n>" for topic in topics)
            raise AnalyticsError(
                f"nothing to read in {path}: no {folders} folder with segments (*.log)"
            )
        for topic, file in there:
            if topic in found:
                found[topic].append(file)
    return {topic: _segments(those, topic) for topic, those in found.items()}


def _segments(log_files: Iterable[AnyPath], topic: str) -> list[SegmentFile]:
    found: dict[AnyPath, AnyPath] = {}
    for file in log_files:
        found.setdefault(file.resolve(), file)
    in_one_place(file.parent for file in found.values())
    _check_lone(found.values())
    segments = _without_archived(
        [
            each
            for file in found.values()
            if (each := segment_file(file, partition_of(file.parent), topic))
        ]
    )
    return sorted(segments, key=lambda segment: (segment.partition, segment.base))


def in_one_place(folders: Iterable[P]) -> tuple[dict[int, P], dict[int, P]]:
    """Return folders and archive folders by partition. Raises AnalyticsError for two of one."""
    live: dict[int, P] = {}
    archived: dict[int, P] = {}
    for folder in folders:
        known = archived if folder.parent.name == ARCHIVE else live
        one = known.setdefault(partition_of(folder), folder)
        if one != folder and one.resolve() != folder.resolve():
            raise _twice(partition_of(folder), one, folder)
    for number, archive in archived.items():
        beside = live.get(number, archive)
        if beside not in (archive, archive.parent.parent / archive.name):
            raise _twice(number, beside, archive)
    return live, archived


def _twice(partition: int, one: AnyPath, other: AnyPath) -> AnalyticsError:
    if partition == NO_PARTITION:
        return AnalyticsError(f"neither {one} nor {other} names a partition: read them separately")
    return AnalyticsError(f"partition {partition} is in both {one} and {other}: name only one")


def _check_lone(log_files: Iterable[AnyPath]) -> None:
    """Reject several segments without a known partition: they may belong to different ones."""
    lone = [file for file in log_files if partition_of(file.parent) == NO_PARTITION]
    if len(lone) > 1:
        raise AnalyticsError(
            f"the partition of {lone[0]} and {len(lone) - 1} more is unknown: put the segments of "
            f"each partition into a folder {OFFSETS}-<n>"
        )


def _without_archived(segments: Iterable[SegmentFile]) -> Iterator[SegmentFile]:
    """Yield the segments; where there is an archive, only records outside of its range."""
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


def newest_segments(paths: Iterable[AnyPath]) -> dict[str, dict[int, int]]:
    """Return topic -> partition -> base offset of the last segment, which may be empty. For
    arguments and errors see `find_topics`.
    """
    found: dict[str, dict[int, int]] = {topic: {} for topic in TOPICS}
    for path in paths:
        for file in _log_files(files.absolute(path)):
            number = partition_of(file.parent)
            known = found[topic_of(file.parent) or OFFSETS]
            known[number] = max(known.get(number, 0), int(file.stem))
    return found


def partition_of(folder: AnyPath) -> int:
    """Return the partition in a folder's name, or NO_PARTITION."""
    match = _FOLDER.fullmatch(folder.name)
    return int(match[2]) if match else NO_PARTITION


def topic_of(folder: AnyPath) -> str | None:
    """Return the topic in a folder's name; None if it is not one of TOPICS."""
    match = _FOLDER.fullmatch(folder.name)
    return match[1] if match else None


def _log_files(path: AnyPath) -> Iterator[AnyPath]:
    """Yield the segments of TOPICS at or under `path`, which may be a segment itself; without
    `.log.deleted`, `.log.swap` and `.log.cleaned` files.
    """
    if not _is_there(path):
        raise AnalyticsError(f"no such file or folder: {path}")
    if path.is_file():
        if _SEGMENT.fullmatch(path.name):
            yield path
    elif topic_of(path):
        yield from log_files_in(path)
    elif isinstance(path, RemotePath):
        yield from _remote_log_files(path)
    else:
        for folder in folders_in(path):
            yield from log_files_in(folder)


def folders_in(path: Path) -> Iterator[Path]:
    """Yield the partition folders of TOPICS below a local folder."""
    for parent, folders, _ in os.walk(path):
        yield from (Path(parent, name) for name in filter(_FOLDER.fullmatch, folders))
        # Do not descend into partition folders of other topics: they have no subfolders.
        folders[:] = [name for name in folders if not re.search(r"-\d+$", name)]


def _remote_log_files(path: RemotePath) -> list[RemotePath]:
    try:
        found = list(path.files())
    except OSError as error:
        raise AnalyticsError(f"cannot read {path}: {files.one_line(error)}") from error
    return [file for file in found if topic_of(file.parent) and _SEGMENT.fullmatch(file.name)]


def _is_there(path: AnyPath) -> bool:
    try:
        return path.exists()
    except OSError as error:
        raise AnalyticsError(f"cannot read {path}: {files.one_line(error)}") from error


def log_files_in(folder: AnyPath) -> list[AnyPath]:
    """Return the segments of one partition folder, by base offset. Raises AnalyticsError."""
    try:
        found = [file for file in folder.iterdir() if _SEGMENT.fullmatch(file.name)]
        return sorted(found, key=str)
    except OSError as error:
        raise AnalyticsError(f"cannot read {folder}: {files.one_line(error)}") from error


def segment_file(file: AnyPath, partition: int, topic: str) -> SegmentFile | None:
    """Return the segment; None if the file is empty or was deleted by compaction."""
    try:
        status = files.status(file)
    except OSError:
        # A broken link counts as a segment; a file deleted by compaction does not.
        lost = SegmentFile(file, partition, int(file.stem), 0, topic=topic)
        return lost if files.is_listed(file) else None
    if not status.size:
        return None
    return SegmentFile(file, partition, int(file.stem), status.size, status.identity, topic)


Range = tuple[int, int]
Note = tuple[Problem, int, int]
"""A problem with the missing offsets [first, until)."""


@dataclass(frozen=True, slots=True)
class CoveringSegment:
    """A segment with offsets below `until`; those in ranges [first, until) of `elsewhere` are also
    in later segments.
    """

    segment: SegmentFile
    until: int
    elsewhere: tuple[Range, ...]
    notes: tuple[Note, ...]


def cover(segments: Sequence[SegmentFile]) -> Iterator[CoveringSegment]:
    """Yield the share of each segment of one partition, by base offset."""
    ends = [_end(each) for each in segments[:-1]]
    ends.append(_end(segments[-1]) if _overlap(segments, ends) else None)
    reached = 0
    for number, segment in enumerate(segments):
        notes: tuple[Note, ...] = ()
        if number == 0 and segment.base > 0:
            notes = ((Problem.BEGINS, 0, segment.base),)
        elif reached < segment.base and number and ends[number - 1] is not None:
            kind = kind_of_gap(segments[number - 1 :])
            notes = ((kind, reached, segment.base),)
        limit = segment.base + RELATIVE_LIMIT
        later = segments[number + 1 :]
        until = min(limit, later[0].base) if later else limit
        elsewhere: tuple[Range, ...] = ()
        end = ends[number]
        # An end beyond those of all later segments is a damaged offset, not an overlap.
        if end is not None and until < end <= max(each or 0 for each in (0, *ends[number + 1 :])):
            elsewhere = _held(end, later, ends[number + 1 :])
            until = next((each.base for each in later if each.base >= end), limit)
        reached = max(reached, min(end or segment.base, until))
        yield CoveringSegment(segment, until, elsewhere, notes)


def _end(segment: SegmentFile) -> int | None:
    """Return the offset after the segment's last; None if the file is unreadable."""
    try:
        return walk.end_offset(segment.path, segment.base, segment.size)
    except OSError:
        return None


def _overlap(segments: Sequence[SegmentFile], ends: Sequence[int | None]) -> bool:
    """Return whether a segment seems to reach into the next one."""
    bases = (each.base for each in segments[1:])
    return any(end is not None and end > base for end, base in zip(ends, bases, strict=True))


def _held(end: int, later: Sequence[SegmentFile], ends: Sequence[int | None]) -> tuple[Range, ...]:
    """Return the ranges below `end` that later segments hold."""
    return tuple(
        (each.base, stop)
        for each, stop in zip(later, ends, strict=True)
        if stop is not None and each.base < end
    )


def kind_of_gap(segments: Sequence[SegmentFile]) -> Problem:
    """Return COMPACTED if any of these segments has holes, else MISSING. Compaction starts at the
    beginning of a log, so holes after a gap are evidence, too.
    """
    for each in segments:
        try:
            if walk.is_compacted(each.path, each.base, each.size):
                return Problem.COMPACTED
        except OSError:
            continue
    return Problem.MISSING
