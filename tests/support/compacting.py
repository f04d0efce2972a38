"""A folder of closed segments that is compacted again and again, without a log around it."""

from collections.abc import Callable
from dataclasses import replace

from crc32c import crc32c

from groupkeeper.protocol.record_batch import check_crc, iter_batches
from groupkeeper.storage.compaction.compaction import Compacted, CompactionJob, compact
from groupkeeper.storage.compaction.pieces import SourceSegment
from groupkeeper.storage.compaction.segment_writer import cleaned_suffix
from groupkeeper.storage.files.files import Files
from groupkeeper.storage.files.whole import overwrite, read_whole
from groupkeeper.storage.log.index import Index
from groupkeeper.storage.log.limits import Limits
from groupkeeper.storage.log.segment import segment_path
from groupkeeper.storage.recovery.manifest import FinishedSegment
from tests.support.raw_batches import headers_of

FOLDER = "data/orders-0"
TOKEN = "token"
HOUR = 3_600_000
DAY = 24 * HOUR


class Folder:
    """Segments, and how far they are compacted."""

    def __init__(self, files: Files, folder: str = FOLDER, limits: Limits | None = None) -> None:
        files.make_folder(folder)
        self.files = files
        self.folder = folder
        self.limits = limits or Limits()
        self.segments: list[SourceSegment] = []
        self.first_dirty = 0
        self.retention_ms = DAY
        self.expiration_ms = DAY
        self.dedupe_bytes = 1 << 30

    @property
    def end(self) -> int:
        return self.segments[-1].end if self.segments else 0

    def add(self, *batches: bytes, base: int | None = None, end: int | None = None) -> None:
        """Write a closed segment, which begins where the last one ends."""
        data = b"".join(batches)
        base = self.end if base is None else base
        if end is None:
            end = headers_of(data)[-1].next_offset if data else base
        overwrite(self.files, segment_path(self.folder, base), data, sync=True)
        self.segments.append(SourceSegment(base, end, len(data), crc32c(data)))

    def job(self, now_ms: int) -> CompactionJob:
        return CompactionJob(
            self.folder,
            TOKEN,
            tuple(self.segments),
            self.first_dirty,
            now_ms,
            self.retention_ms,
            self.expiration_ms,
            self.dedupe_bytes,
            self.limits,
        )

    def compact(self, now_ms: int, check: Callable[[], None] = lambda: None) -> Compacted:
        """Compact and swap, as the owner of a log does."""
        job = self.job(now_ms)
        assert CompactionJob.from_json(job.to_json()) == job
        result = compact(self.files, job, check)
        assert Compacted.from_json(result.to_json()) == result
        self.swap(result)
        return result

    def swap(self, result: Compacted) -> None:
        """Check the new segments, and put them into the places of their sources."""
        replaced = sum(len(segment.sources) for segment in result.segments)
        assert [base for segment in result.segments for base in segment.sources] == [
            each.base for each in self.segments[:replaced]
        ]
        ends = {each.base: each.end for each in self.segments}
        for segment in result.segments:
            assert segment.finished.base == segment.sources[0]
            assert segment.finished.end == ends[segment.sources[-1]]
            self._check(segment.finished)
            for base in segment.sources:
                stem = segment_path(self.folder, base).removesuffix(".log")
                for suffix in (".index", ".timeindex", ".log"):
                    self.files.remove(stem + suffix)
            path = segment_path(self.folder, segment.finished.base)
            stem = path.removesuffix(".log")
            for name in (f"{stem}.index", f"{stem}.timeindex", path):
                self.files.rename(name + cleaned_suffix(TOKEN), name)
        self.segments[:replaced] = [
            SourceSegment(*segment.finished[:4]) for segment in result.segments
        ]
        self.first_dirty = result.first_dirty

    def _check(self, finished: FinishedSegment) -> None:
        """What must be true of every new segment."""
        path = segment_path(self.folder, finished.base)
        data = self._cleaned(path)
        assert (finished.size, finished.crc) == (len(data), crc32c(data))
        assert finished.compacted
        index = Index(self.limits.index_interval_bytes)
        expected = finished.base
        for header in iter_batches(data):
            assert check_crc(data, header)
            assert header.base_offset >= expected
            expected = header.next_offset
            relative = header.last_offset - finished.base
            index.add(relative, header.position, header.size, header.max_timestamp)
        assert expected <= finished.end
        stem = path.removesuffix(".log")
        assert self._cleaned(f"{stem}.index") == index.offset_file()
        assert self._cleaned(f"{stem}.timeindex") == index.time_file()
        assert finished.index_crc == crc32c(index.time_file(), crc32c(index.offset_file()))

    def _cleaned(self, path: str) -> bytes:
        return read_whole(self.files, path + cleaned_suffix(TOKEN))

    def read(self, base: int) -> bytes:
        """The batches of one segment."""
        return read_whole(self.files, segment_path(self.folder, base))

    def contents(self) -> bytes:
        """All batches."""
        return b"".join(self.read(each.base) for each in self.segments)

    def forget_checksums(self) -> None:
        """As a folder has them that came without a manifest."""
        self.segments = [replace_crc(each) for each in self.segments]


def replace_crc(segment: SourceSegment) -> SourceSegment:
    return segment._replace(crc=None)


def with_limits(folder: Folder, **limits: int) -> Folder:
    folder.limits = replace(folder.limits, **limits)
    return folder
