"""Plans which bytes of which segments to read, cut into splits and packed into chunks.

A partition folder (`__consumer_offsets-<n>`) holds segments `<20 digits>.log` and sparse `.index`
files, whose 8-byte entries (int32 offset minus the segment's base, int32 position) give positions
where a batch starts. Segments larger than a chunk are cut at batches, found from such a position
or, without an index, by a walk over batch headers; small ones are packed together. The folder may
belong to a running broker: its newest index is padded with zeros, its last batch may be torn, and
files may be replaced or deleted at any time.

A `Selection` limits the records. Kafka's placement puts all records of a group into one partition,
so a selection by group reads only one folder, provided that the number of partitions is known: the
file `format` of a Groupkeeper data directory states it, a copy of a broker's folders does not.
"""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import Final, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from crc32c import crc32c

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
from groupkeeper.protocol.placement import partition_of as partition_of_group

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Selection:
    """Filter by group, partition of the log, key type, time of record in [since, until), in epoch
    ms, and log offset in [first, end), for each partition. None: no limit.

    A row without a value to compare is included: transaction markers have no group, and rows about
    damage have none of these.
    """

    groups: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    key_types: frozenset[int] | None = None
    since: int | None = None
    until: int | None = None
    count: int | None = None
    """Number of partitions of the log, if the caller has it."""
    first: int | None = None
    end: int | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that `mask` compares; none if all rows of a partition are included."""
        has_times = self.since is not None or self.until is not None
        asked = (
            ("group", self.groups is not None),
            ("key_type", self.key_types is not None),
            ("timestamp_ms", has_times),
            ("offset", self.first is not None or self.end is not None),
        )
        return tuple(name for name, is_asked in asked if is_asked)

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        """Return a boolean mask of the included rows of a batch that has `columns`."""
        wanted = pa.repeat(True, batch.num_rows)
        for name in self.columns:
            column = batch.column(name)
            for check in self._checks(name, column):
                wanted = pc.and_(wanted, pc.or_(check.fill_null(False), pc.is_null(column)))
        return wanted

    def _checks(self, name: str, column: pa.Array) -> list[pa.Array]:
        if name in ("timestamp_ms", "offset"):
            is_time = name == "timestamp_ms"
            low, high = (self.since, self.until) if is_time else (self.first, self.end)
            late = [] if low is None else [pc.greater_equal(column, low)]
            return late if high is None else [*late, pc.less(column, high)]
        values = self.groups if name == "group" else self.key_types
        return [pc.is_in(column, pa.array(sorted(values or ()), column.type))]

    def may_have(self, partition: int, count: int | None) -> bool:
        """Return whether a partition of the log can have included records. `count`: number of
        partitions according to its folder; None if unknown.
        """
        if self.partitions is not None and partition not in self.partitions:
            return False
        count = self.count or count
        if self.groups is None or count is None or not 0 <= partition < count:
            return True
        return any(partition_of_group(group, count) == partition for group in self.groups)

    def overlaps(self, first: int, end: int) -> bool:
        """Return whether records with offsets in [first, end) can be included."""
        return (self.first is None or self.first < end) and (self.end is None or first < self.end)

    def within(self, other: "Selection") -> "Selection":
        """Return the intersection with another selection."""
        since, until, first, end = (
            [each for each in pair if each is not None]
            for pair in (
                (self.since, other.since),
                (self.until, other.until),
                (self.first, other.first),
                (self.end, other.end),
            )
        )
        return Selection(
            _both(self.groups, other.groups),
            _both(self.partitions, other.partitions),
            _both(self.key_types, other.key_types),
            max(since, default=None),
            min(until, default=None),
            self.count or other.count,
            max(first, default=None),
            min(end, default=None),
        )


def _both(
    one: frozenset[_Value] | None, other: frozenset[_Value] | None
) -> frozenset[_Value] | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other


EVERYTHING: Final = Selection()


def partition_count(data: AnyPath) -> int | None:
    """Return the number of partitions in the file `format` of a data directory, a line of JSON and
    its checksum; None without a valid file.
    """
    try:
        line, _, said = (data / "format").read_bytes().partition(b"\n")
        shards = json.loads(line)["shards"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    is_sound = said.strip() == b"%08x" % crc32c(line)
    return shards if is_sound and isinstance(shards, int) and shards > 0 else None


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
    partition: int | None = None,
    topic: str = OFFSETS,
    selection: Selection = EVERYTHING,
) -> Plan:
    """Plan the reading of the selected records of one topic under `paths`: data folders, partition
    folders or single segments.

    A split ends at the first batch boundary at or after `chunk_bytes` bytes. The plan is empty if
    all segments are empty. `partition` applies to segments outside of partition folders. Raises
    AnalyticsError for a path that is missing or has no log of the topic, and for a partition found
    in two folders.
    """
    return plan_segments(find_segments(paths, partition, topic), chunk_bytes, selection)


def plan_topics(
    paths: Iterable[AnyPath], chunk_bytes: int | None = None, partition: int | None = None
) -> dict[str, Plan]:
    """Plan the reading of both topics as `plan` does; each path has to hold at least one of them. A
    lone segment outside of partition folders is taken for the offsets log.
    """
    found = find_topics(paths, partition)
    return {topic: plan_segments(segments, chunk_bytes) for topic, segments in found.items()}


def plan_segments(
    segments: Sequence[SegmentFile],
    chunk_bytes: int | None = None,
    selection: Selection = EVERYTHING,
) -> Plan:
    """Plan the reading of the segments that `find_segments` returned."""
    folders = {each.data for each in segments} if selection.groups is not None else ()
    counts = {folder: partition_count(folder) for folder in folders}
    segments = [
        each for each in segments if selection.may_have(each.partition, counts.get(each.data))
    ]
    size = sum(segment.size for segment in segments)
    limit = chunk_bytes or chunk_bytes_for(size)
    splits: list[Split] = []
    partitions = 0
    for _, of_one in groupby(segments, key=lambda segment: segment.partition):
        partitions += 1
        covered = list(cover(list(of_one)))
        for each in covered:
            parts = cut(each, limit, last=each is covered[-1], since=selection.since)
            splits += (
                replace(part, selection=selection)
                for part in parts
                if selection.overlaps(part.first, part.until)
            )
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
