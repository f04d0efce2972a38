"""Plans which bytes of which segments to read, cut into splits and packed into chunks.

A partition folder (`__consumer_offsets-<n>`) holds segments `<20 digits>.log` and sparse `.index`
files, whose 8-byte entries (int32 offset minus the segment's base, int32 position) give positions
where a batch starts. Segments larger than a chunk are cut at batches, found from such a position
or, without an index, by a walk over batch headers; small ones are packed together. The folder may
belong to a running broker: its newest index is padded with zeros, its last batch may be torn, and
files may be replaced or deleted at any time.

A `Selection` limits the records. `placement.of_groups` drops partitions that cannot hold a group.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import Final, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from groupkeeper.analytics.reading import walk
from groupkeeper.analytics.reading.files import AnyPath, place
from groupkeeper.analytics.reading.segments import (
    ARCHIVE,
    NO_PARTITION,
    OFFSETS,
    CoveringSegment,
    Note,
    Range,
    SegmentFile,
    cover,
    find_segments,
    find_topics,
    partition_of,
)
from groupkeeper.analytics.reading.topic_log import place_of


@dataclass(frozen=True, slots=True)
class Selection:
    """Filter by group, and by time of the record in [since, until), in epoch ms. None: no limit.

    A row without a value to compare is included: transaction markers have no group, and rows about
    damage have neither.
    """

    group: str | None = None
    since: int | None = None
    until: int | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that `mask` compares; none if all rows are included."""
        has_times = self.since is not None or self.until is not None
        asked = (("group", self.group is not None), ("timestamp_ms", has_times))
        return tuple(name for name, is_asked in asked if is_asked)

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        """Return a boolean mask of the included rows of a batch that has `columns`."""
        wanted = pa.repeat(True, batch.num_rows)
        for name, compare, limit in (
            ("group", pc.equal, self.group),
            ("timestamp_ms", pc.greater_equal, self.since),
            ("timestamp_ms", pc.less, self.until),
        ):
            if limit is not None:
                wanted = pc.and_(wanted, compare(batch.column(name), limit).fill_null(True))
        return wanted


EVERYTHING: Final = Selection()
SMALLEST_CHUNK: Final = 4 * 1024 * 1024
LARGEST_CHUNK: Final = 64 * 1024 * 1024
CHUNKS_PER_CORE: Final = 3
NO_END: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Split:
    """Bytes [start, end) of one segment, with offsets in [first, until). `last`: the log ends here,
    so a torn batch is still being written.

    `identity` is as in `files.Status`; (0, 0) disables its check. Batches with offsets in
    `elsewhere` are read from other segments, and those outside of `only` by other tasks. Records
    outside of the selection are left out.
    """

    path: str
    partition: int
    start: int
    end: int
    last: bool
    first: int = 0
    until: int = NO_END
    identity: tuple[int, int] = (0, 0)
    elsewhere: tuple[Range, ...] = ()
    only: Range = (0, NO_END)
    notes: tuple[Note, ...] = ()
    topic: str = OFFSETS
    selection: Selection = EVERYTHING

    @property
    def size(self) -> int:
        return self.end - self.start


Chunk = tuple[Split, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Non-empty chunks to read in parallel, in log order; `size` is their number of bytes."""

    chunks: tuple[Chunk, ...]
    partitions: int
    segments: int
    size: int


def plan(
    paths: Iterable[AnyPath],
    chunk_bytes: int | None = None,
    topic: str = OFFSETS,
    selection: Selection = EVERYTHING,
) -> Plan:
    """Plan the reading of the selected records of one topic under `paths`: data folders, partition
    folders or single segments.

    A split ends at the first batch boundary at or after `chunk_bytes` bytes. The plan is empty if
    all segments are empty. Raises AnalyticsError for a path that is missing or has no log of the
    topic, and for a partition found in two folders.
    """
    return plan_segments(find_segments(paths, topic), chunk_bytes, selection)


def plan_topics(paths: Iterable[AnyPath], chunk_bytes: int | None = None) -> dict[str, Plan]:
    """Plan the reading of both topics as `plan` does; each path has to hold at least one of them. A
    lone segment outside of partition folders is taken for the offsets log.
    """
    found = find_topics(paths)
    return {topic: plan_segments(segments, chunk_bytes) for topic, segments in found.items()}


def plan_segments(
    segments: Sequence[SegmentFile],
    chunk_bytes: int | None = None,
    selection: Selection = EVERYTHING,
) -> Plan:
    """Plan the reading of the segments that `find_segments` returned."""
    size = sum(segment.size for segment in segments)
    limit = chunk_bytes or chunk_bytes_for(size)
    splits: list[Split] = []
    partitions = 0
    for _, of_one in groupby(segments, key=lambda segment: segment.partition):
        partitions += 1
        covered = list(cover(list(of_one)))
        for each in covered:
            parts = cut(each, limit, last=each is covered[-1], since=selection.since)
            splits += (replace(part, selection=selection) for part in parts)
    size = sum(split.size for split in splits)
    return Plan(tuple(pack(splits, limit)), partitions, len(segments), size)


def data_folders(plan: Plan) -> list[str]:
    """Return the folders with the partition folders of a plan; they may hold other topics, too."""
    splits = (split for chunk in plan.chunks for split in chunk)
    parents = {place(each.path).parent for each in splits}
    above = (each.parent for each in parents if partition_of(each) != NO_PARTITION)
    return sorted({str(each.parent if each.name == ARCHIVE else each) for each in above})


def chunk_bytes_for(size: int) -> int:
    """Return a chunk size that gives each core a few chunks, so that cores finish together, but
    large enough that starting a task costs less than reading its chunk.
    """
    wanted = size // (CHUNKS_PER_CORE * (os.cpu_count() or 1))
    return min(max(wanted, SMALLEST_CHUNK), LARGEST_CHUNK)


def cut(
    covered: CoveringSegment, limit: int, *, last: bool, since: int | None = None
) -> Iterator[Split]:
    """Yield splits that cover the segment, start at batches and have at least `limit` bytes, except
    the last. With `since`, they cover the records from that time on.
    """
    segment = covered.segment
    begin = 0, segment.base
    if since is not None:
        begin = place_of(segment.path, segment.base, segment.size, since)
    places = [begin, *_boundaries(segment, limit, begin[0]), (segment.size, covered.until)]
    for (start, first), (end, until) in pairwise(places):
        yield Split(
            str(segment.path),
            segment.partition,
            start,
            end,
            last=last and end == segment.size,
            first=first,
            until=until,
            identity=segment.identity,
            elsewhere=covered.elsewhere,
            notes=covered.notes if start == 0 else (),
            topic=segment.topic,
        )


def _boundaries(segment: SegmentFile, limit: int, start: int) -> Iterator[tuple[int, int]]:
    """Yield positions and base offsets of the batches where a segment is cut."""
    # A remainder of less than half a chunk is not worth a split of its own.
    if segment.size - start <= limit * 3 // 2:
        return
    places = walk.read_index(segment.path, segment.size)
    try:
        with segment.path.open("rb") as file:
            while segment.size - start > limit * 3 // 2:
                start, base = walk.boundary(file, segment.size, places, start, start + limit)
                if start >= segment.size:
                    return
                yield start, base
    except OSError:
        # The task that reads the file reports the error.
        return


class _Sized(Protocol):
    """An object with a size in bytes."""

    @property
    def size(self) -> int: ...


_Part = TypeVar("_Part", bound=_Sized)


def pack(splits: Iterable[_Part], limit: int) -> Iterator[tuple[_Part, ...]]:
    """Pack consecutive splits into chunks of up to `limit` bytes; a larger split is one chunk."""
    waiting: list[_Part] = []
    held = 0
    for split in splits:
        if waiting and held + split.size > limit:
            yield tuple(waiting)
            waiting, held = [], 0
        waiting.append(split)
        held += split.size
    if waiting:
        yield tuple(waiting)
