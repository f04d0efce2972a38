"""Compaction without a server; and a stand-in for it, in tests of what happens to its result."""

from collections.abc import Callable, Sequence

from crc32c import crc32c

from groupkeeper.storage.compaction.compaction import (
    CleanedSegment,
    Compacted,
    CompactionJob,
    compact,
)
from groupkeeper.storage.compaction.pieces import SourceSegment
from groupkeeper.storage.compaction.swap import Swap
from groupkeeper.storage.files.files import Files
from groupkeeper.storage.files.whole import overwrite
from groupkeeper.storage.log.index import Index
from groupkeeper.storage.log.log import Log
from groupkeeper.storage.log.scan import Batch, valid_batches
from groupkeeper.storage.log.segment import INDEX_SUFFIXES, LOG_SUFFIX, Segment, segment_stem
from groupkeeper.storage.recovery.manifest import FinishedSegment
from tests.support.batches import TIME

TOKEN = "0badcafe"


def every_third(batch: Batch) -> bool:
    """Which batches most tests keep."""
    return batch.base_offset % 3 == 0


def clean(
    files: Files, log: Log, *groups: int, keep: Callable[[Batch], bool] = every_third
) -> Compacted:
    """Write a new segment for each run of so many finished segments; their last batches stay."""
    finished, new = list(log.finished), []
    for count in groups or (len(finished),):
        run, finished = finished[:count], finished[count:]
        new.append(_write(files, log, run, keep))
    written = sum(each.finished.size for each in new)
    return Compacted(tuple(new), new[-1].finished.end, -1, 0, written, 0, 0)


def _write(
    files: Files, log: Log, run: Sequence[tuple[Segment, int]], keep: Callable[[Batch], bool]
) -> CleanedSegment:
    base, end = run[0][0].base_offset, run[-1][1]
    index, data = Index(log.limits.index_interval_bytes), b""
    for segment, _ in run:
        for batch in valid_batches(segment.window(), 0, segment.base_offset):
            if keep(batch) or batch.last_offset == end - 1:
                index.add(batch.last_offset - base, len(data), batch.size, batch.max_timestamp)
                data += segment.read(batch.position, batch.size)
    contents = (index.offset_file(), index.time_file(), data)
    stem = segment_stem(log.folder, base)
    for suffix, content in zip((*INDEX_SUFFIXES, LOG_SUFFIX), contents, strict=True):
        overwrite(files, f"{stem}{suffix}.{TOKEN}.cleaned", content, sync=True)
    files.sync_folder(log.folder)
    index_crc = crc32c(contents[1], crc32c(contents[0]))
    entry = FinishedSegment(base, end, len(data), crc32c(data), index_crc, compacted=True)
    return CleanedSegment(tuple(segment.base_offset for segment, _ in run), entry)


def compact_log(log: Log, now_ms: int = TIME) -> None:
    """Compact all finished segments of an open log, and put the result into it."""
    sources = tuple(
        SourceSegment(segment.base_offset, end, segment.size, None) for segment, end in log.finished
    )
    job = CompactionJob(
        folder=log.folder,
        token=TOKEN,
        segments=sources,
        first_dirty=log.first_dirty,
        now_ms=now_ms,
        delete_retention_ms=0,
        producer_id_expiration_ms=0,
        dedupe_bytes=1 << 20,
        limits=log.limits,
    )
    swap = Swap(log, compact(log.files, job))
    swap.prepare(TOKEN)
    assert swap.switch()
    swap.finish()
