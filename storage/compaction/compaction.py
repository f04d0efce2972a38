"""Compaction of the closed segments of one log: only the newest record of each key is kept.

A function over files: it reads segments and writes new ones beside them, synced, with their
indexes, as `<base>.log.<token>.cleaned`. It touches nothing else, so the owner of the log can keep
working; the owner then swaps the new segments in, or removes them. In production this runs in a
separate process: job and result are JSON.

There are two passes: `key_map.py` finds the newest records, `rewriting.py` writes what is kept.

Source: Kafka's `Cleaner.doClean` and `Cleaner.groupSegmentsBySize`.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from itertools import chain
from typing import NamedTuple

from groupkeeper.protocol.record_batch import HEADER_SIZE
from groupkeeper.storage.compaction.key_map import KeyMap
from groupkeeper.storage.compaction.pieces import SourceSegment, read_pieces
from groupkeeper.storage.compaction.rewriting import Rewriter
from groupkeeper.storage.compaction.segment_writer import SegmentWriter, remove_cleaned
from groupkeeper.storage.files.files import Files
from groupkeeper.storage.log.index import OFFSET_ENTRY, TIME_ENTRY
from groupkeeper.storage.log.limits import Limits
from groupkeeper.storage.log.segment import MAX_RELATIVE_OFFSET
from groupkeeper.storage.recovery.manifest import FinishedSegment

Check = Callable[[], None]
"""Called about every MiB; an exception from it ends the compaction."""


@dataclass(slots=True, frozen=True)
class CompactionJob:
    """One compaction of one log."""

    folder: str
    token: str
    """Part of the names of the new files; unique per compaction of a folder."""
    segments: tuple[SourceSegment, ...]
    """Closed segments, consecutive from the start of the log."""
    first_dirty: int
    """Records before this offset were compacted earlier: `first_dirty` of the last result."""
    now_ms: int
    """Unix time."""
    delete_retention_ms: int
    """How long a tombstone is kept after the first compaction that finds it newest."""
    producer_id_expiration_ms: int
    """How long the state of a producer is kept after its last batch."""
    dedupe_bytes: int
    """Memory for keys. When it is full, the range ends early."""
    limits: Limits

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "CompactionJob":
        fields = json.loads(text)
        fields["segments"] = tuple(SourceSegment(*each) for each in fields["segments"])
        fields["limits"] = Limits(**fields["limits"])
        return cls(**fields)


class CleanedSegment(NamedTuple):
    """A new segment."""

    sources: tuple[int, ...]
    """Base offsets of the segments that it replaces."""
    finished: FinishedSegment
    """Its entry in the manifest."""


@dataclass(slots=True, frozen=True)
class Compacted:
    """The result of a compaction."""

    segments: tuple[CleanedSegment, ...]
    """They replace the first segments of the log; later ones were not touched."""
    first_dirty: int
    """Where the next compaction begins to map. Unchanged if there was nothing to compact."""
    blocked_by: int
    """Producer id of the open transaction before which the range ends; -1: none."""
    bytes_read: int
    """Bytes of the replaced segments."""
    bytes_written: int
    records_read: int
    records_kept: int

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Compacted":
        fields = json.loads(text)
        fields["segments"] = tuple(
            CleanedSegment(tuple(sources), FinishedSegment(*finished))
            for sources, finished in fields["segments"]
        )
        return cls(**fields)


def compact(files: Files, job: CompactionJob, check: Check = lambda: None) -> Compacted:
    """Write the compacted segments of a log.

    Raises OSError, and Corrupt with file and byte if a source is damaged; the new files are then
    removed, if the system permits.
    """
    with ExitStack() as undo:
        undo.callback(remove_cleaned, files, job.folder, job.token)
        keys = _map_keys(files, job, check)
        retention_ms, expiration_ms = job.delete_retention_ms, job.producer_id_expiration_ms
        rewriter = Rewriter(keys, job.now_ms, retention_ms, expiration_ms)
        groups = list(_groups([each for each in job.segments if each.base < keys.end], job))
        kept = 0
        segments = []
        for group in groups:
            segment, records = _rewrite(files, job, group, rewriter, check)
            segments.append(segment)
            kept += records
        if segments:
            files.sync_folder(job.folder)
        undo.pop_all()
    return Compacted(
        tuple(segments),
        keys.end,
        keys.blocked_by,
        bytes_read=sum(source.size for source in chain.from_iterable(groups)),
        bytes_written=sum(segment.finished.size for segment in segments),
        records_read=rewriter.records_read,
        records_kept=kept,
    )


def _map_keys(files: Files, job: CompactionJob, check: Check) -> KeyMap:
    end = job.segments[-1].end if job.segments else job.first_dirty
    keys = KeyMap(job.first_dirty, end, job.dedupe_bytes)
    for segment in job.segments:
        for piece in read_pieces(files, job.folder, segment, check):
            keys.take(piece)
        if keys.needs_no_more:
            break
    keys.finish()
    return keys


def _rewrite(
    files: Files,
    job: CompactionJob,
    group: Sequence[SourceSegment],
    rewriter: Rewriter,
    check: Check,
) -> tuple[CleanedSegment, int]:
    """Write one new segment; return it and the number of its records."""
    interval = job.limits.index_interval_bytes
    with closing(SegmentWriter(files, job.folder, group[0].base, job.token, interval)) as writer:
        for segment in group:
            for piece in read_pieces(files, job.folder, segment, check):
                rewriter.take(piece, writer)
        rewriter.finish(writer)
        finished = writer.finish(group[-1].end)
    return CleanedSegment(tuple(each.base for each in group), finished), writer.records


def _groups(
    segments: Sequence[SourceSegment], job: CompactionJob
) -> Iterator[tuple[SourceSegment, ...]]:
    """Yield neighbours that fit into one segment, even if all of their records are kept."""
    group: list[SourceSegment] = []
    for segment in segments:
        if group and not _fits(group, segment, job):
            yield tuple(group)
            group = []
        group.append(segment)
    if group:
        yield tuple(group)


def _fits(group: Sequence[SourceSegment], segment: SourceSegment, job: CompactionJob) -> bool:
    limits = job.limits
    sizes = [*(each.size for each in group), segment.size]
    # An index entry is added after more than this many bytes, and at most once per batch.
    interval = max(limits.index_interval_bytes + 1, HEADER_SIZE)
    entries = sum(size // interval + 1 for size in sizes)
    return (
        sum(sizes) <= limits.segment_bytes
        and entries * max(OFFSET_ENTRY, TIME_ENTRY) <= limits.index_bytes
        and segment.end - 1 - group[0].base <= MAX_RELATIVE_OFFSET
    )
