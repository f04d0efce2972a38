"""
One partition: a folder of segments in Kafka's format, opened and recovered, appended to, read and
rolled.

Knows batches, not what is in them, and no journal: who writes ahead, and what a crash may cost,
is decided in store.py. One thread appends and closes; others may read meanwhile, and see a batch
only when all its bytes are in the file. What they began to read before a close they read to the
end.
"""

from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Final

from groupkeeper.storage.epochs import EpochFile
from groupkeeper.storage.errors import ACCEPT_FILE, AppendFailed, OffsetOutOfRange, SyncFailed
from groupkeeper.storage.files import Files, parent_of
from groupkeeper.storage.limits import Limits
from groupkeeper.storage.manifest import Keeper
from groupkeeper.storage.marks import Mark
from groupkeeper.storage.opening import Opening
from groupkeeper.storage.reading import bytes_from, checked_chunks, read_batches, segments_from
from groupkeeper.storage.recovery import Cover, Findings
from groupkeeper.storage.scan import FIELDS, Batch, place
from groupkeeper.storage.segment import Segment
from groupkeeper.storage.start import write_start
from groupkeeper.storage.times import kept_times, promising, run_to_end

NO_END: Final = 2**63 - 1
"""No offset is as large."""


class Log:
    """
    One partition folder. Made by `Log.open`; the folder is created by the first append.

    Whoever writes ahead may queue: a log among many then costs one write for many rounds instead
    of one for each. Readers see what is written.

    After an append has failed the log is `broken`: it refuses all further appends, and must be
    closed and opened again, which cuts off what was written in part.
    """

    def __init__(self, files: Files, folder: str, limits: Limits) -> None:
        self._files = files
        self._folder = folder
        self._limits = limits
        self._segments: tuple[Segment, ...] = ()
        self._epochs = EpochFile(files, folder)
        self._start_offset = 0
        self._next_offset = 0
        self._queued: list[tuple[bytes, Batch]] = []
        self._queued_bytes = 0
        self._unsynced = False
        self._unsynced_names = False
        self._manifest = Keeper(files, folder)
        self.durable: Mark | None = None
        """How far it was when it was synced last; None if it never was, or was empty."""
        self.repairs: list[str] = []
        self.broken = False
        self.closed = False
        self.name = folder.rpartition("/")[2]
        self.name_bytes = self.name.encode()

    @classmethod
    def open(
        cls,
        files: Files,
        folder: str,
        limits: Limits,
        cover: Cover | None = None,
        end: int = NO_END,
    ) -> "Log":
        """
        Open a folder, which may be missing, and repair what an unclean stop left.

        A torn end of the last segment is cut off, and so is what it has from offset `end` on: a
        batch that was refused. Batches that `cover` holds and the file lacks are added and synced.
        Raises Corrupt if sound batches follow a bad one and `cover` lacks what lies between.
        """
        log = cls(files, folder, limits)
        try:
            log._load(cover, end)
        except BaseException:
            log._release()
            raise
        return log

    @property
    def start_offset(self) -> int:
        """The first offset kept; the batch that holds it may begin before it."""
        return self._start_offset

    @property
    def next_offset(self) -> int:
        """Offset that the next append must start at."""
        return self._next_offset

    @property
    def end_offset(self) -> int:
        """Offset that the next queued batch must start at: next_offset and what is queued."""
        return self._queued[-1][1].last_offset + 1 if self._queued else self._next_offset

    @property
    def last_epoch(self) -> int:
        """Largest leader epoch, -1 if there is none."""
        return self._epochs.last_epoch

    @property
    def epochs(self) -> Sequence[tuple[int, int]]:
        """The leader epochs in the log and their first offsets, as far as they are known."""
        return self._epochs.entries

    @property
    def size(self) -> int:
        """Bytes of batches."""
        return sum(segment.size for segment in self._segments)

    def append(self, batches: bytes) -> None:
        """
        Write finished batches, the first of which starts at next_offset. They are not synced.

        Raises ValueError, before anything is written, if they do not fit there, and AppendFailed
        if they could not be written; the log is broken then.
        """
        if self.broken or self.closed:
            raise AppendFailed(f"{self._folder} must be opened again before it takes an append")
        assert not self._queued, "a log is appended to directly or through the queue, never both"
        self._write(batches, place(batches, self._next_offset))

    def queue(self, data: bytes, batch: Batch) -> int:
        """
        Take a finished batch that a journal holds; it is written with the next `write_queued`.
        Returns how many bytes are queued now. `batch` need not know its position.
        """
        assert batch.base_offset == self.end_offset
        self._queued.append((data, batch))
        self._queued_bytes += len(data)
        return self._queued_bytes

    def write_queued(self) -> int:
        """
        Write what is queued, in as few pieces as segments allow, and return how many bytes that
        was. For the thread that queues. Raises AppendFailed; what was not written is then in the
        journal only.
        """
        size, queued = self._queued_bytes, self._queued
        self._queued, self._queued_bytes = [], 0
        while queued and not self.broken:
            active = self._segments[-1] if self._segments else None
            run = active.fitting(batch for _, batch in queued) if active else 1
            pieces, batches = zip(*queued[:run], strict=True)
            queued = queued[run:]
            self._write(b"".join(pieces), batches)
        return size

    def _write(self, data: bytes, batches: Sequence[Batch]) -> None:
        """Batches, which `data` is made of, to the end of the last segment or a new one."""
        last = batches[-1]
        try:
            segment = self._segment_for(len(data), last.last_offset)
            segment.append(data, batches)
            self._epochs.note_all(batches)
        except OSError as error:
            self.broken = True
            raise AppendFailed(f"cannot append to {self._folder}: {error}") from error
        self._unsynced = True
        self._next_offset = last.last_offset + 1

    def _segment_for(self, size: int, last_offset: int) -> Segment:
        """
        The segment to write to: the last one, or a new one. A finished segment is synced before
        the next begins.
        """
        if self._segments:
            active = self._segments[-1]
            if active.has_room(size, last_offset):
                return active
            self._finish(active)
        else:
            self._files.make_folder(self._folder)
        return self._begin_segment()

    def has_room(self, size: int) -> bool:
        """
        Whether so many bytes go into the last segment; otherwise the next append begins a new one,
        and waits until the last one is on the disk.
        """
        last = self._next_offset + size  # no record is that small
        return not self._segments or self._segments[-1].has_room(size, last)

    def _begin_segment(self) -> Segment:
        segment = Segment(self._files, self._folder, self._next_offset, self._limits)
        self._unsynced_names = True
        self._segments = (*self._segments, segment)
        if len(self._segments) > 1:
            self._write_manifest()
        return segment

    def roll(self) -> None:
        """Begin a new segment, unless the last one is empty. Raises StorageError and OSError."""
        if self._segments and self._segments[-1].size:
            self._finish(self._segments[-1])
            self._begin_segment()

    def _finish(self, segment: Segment) -> None:
        try:
            segment.finish(self._next_offset)
        except OSError as error:
            self.broken = True
            raise SyncFailed(f"cannot sync {segment.path}: {error}") from error

    def read(self, offset: int, max_bytes: int, *, at_least_one: bool = True) -> bytes:
        """
        Whole batches from the one that holds `offset`, up to `max_bytes`, or one that is larger if
        `at_least_one`; b"" at the end. Raises OffsetOutOfRange below start_offset and beyond
        next_offset.
        """
        end = self._next_offset
        if offset == end:
            return b""
        if not self.start_offset <= offset < end:
            raise OffsetOutOfRange(f"{self.name} holds {self.start_offset} to {end}, not {offset}")
        return read_batches(self._segments, offset, max_bytes, at_least_one=at_least_one)

    def bytes_from(self, offset: int) -> int:
        """About how many bytes there are from an offset on, as the index knows."""
        return 0 if offset >= self._next_offset else bytes_from(self._segments, offset)

    def batches(self, from_offset: int = 0) -> Iterator[bytes]:
        """
        Everything from the batch that holds an offset on, for replay: chunks of whole batches of
        about a mebibyte. Raises Corrupt at a bad checksum and where an epoch goes backwards.
        """
        return checked_chunks(self._segments, from_offset)

    @property
    def max_timestamp(self) -> int:
        """The largest that a batch promises, but for one that lost a part of its records."""
        return max((segment.index.max_timestamp for segment in self._segments), default=-1)

    def promising(self, timestamp_ms: int) -> Iterator[tuple[Segment, Batch] | None]:
        """The batches that promise a record of that time or later: see storage/times.py."""
        return promising(self._segments, timestamp_ms, self._start_offset)

    def begin_at(self, offset: int) -> Generator[None, None, tuple[Segment, ...]]:
        """
        Keep nothing before an offset, which storage/start.py has made durable already. Changes
        memory only, at its very end, for the thread that appends; yields after every millisecond of
        work. Returns the segments to remove from the disk: all if nothing is kept, and the next
        append begins one. May read what is kept: raises OSError.
        """
        start = max(self._start_offset, offset)
        for segment in segments_from(self._segments, start)[:1]:
            yield from kept_times(segment, start)
        segments = self._segments
        kept = segments_from(segments, start)
        if kept and kept[-1].base_offset < start >= self._next_offset:
            kept = ()
        self._start_offset = start
        self._segments = tuple(kept)
        return segments[: len(segments) - len(kept)]

    def forget(self, offset: int) -> None:
        """`begin_at`, durable first; then the files go. Raises as `write_start`, and OSError."""
        write_start(self._files, self._folder, offset)
        for segment in run_to_end(self.begin_at(offset)):
            segment.remove()

    def settle(self) -> None:
        """`sync` of all that the last segment holds, whoever wrote it."""
        self._unsynced = self._unsynced_names = bool(self._segments)
        self.sync()

    def sync(self) -> None:
        """
        Wait until everything appended, and the names of its files, are on the disk. Raises
        SyncFailed.
        """
        if self.broken:
            raise AppendFailed(f"{self._folder} must be opened again before it can be synced")
        self.write_queued()
        try:
            if self._unsynced:
                self._unsynced = False
                for segment in self._segments[-1:]:  # none, if all records were deleted
                    segment.sync()
                    self.durable = segment.mark(self._next_offset)
            if self._unsynced_names:
                self._unsynced_names = False
                self._files.sync_folder(self._folder)
                self._files.sync_folder(parent_of(self._folder))
        except OSError as error:
            self.broken = True
            raise SyncFailed(f"cannot sync {self._folder}: {error}") from error

    def write_back(self) -> None:
        """
        Bring to the disk what the last segment has now, beside the thread that appends: a later
        `sync` is as due as before, and shorter. Raises SyncFailed.
        """
        for segment in self._segments[-1:]:
            try:
                segment.sync()
            except OSError as error:
                self.broken = True
                raise SyncFailed(f"cannot sync {segment.path}: {error}") from error

    def close(self) -> None:
        """Sync, unless the log is broken, and let go of the files. Reading is over, too."""
        if self.closed:
            return
        try:
            if not self.broken:
                self.sync()
                if self._segments:
                    self._segments[-1].write_index()
                    with suppress(OSError):  # the one that is there says less, and that is true
                        self._write_manifest()
        finally:
            self._release()

    def delete(self) -> None:
        """Remove the folder. Only for logs that were never committed to through a journal."""
        self._release()
        for name in self._files.list_folder(self._folder):
            self._files.remove(f"{self._folder}/{name}")
        self._files.remove_folder(self._folder)

    def _release(self) -> None:
        self.closed = True
        self._segments = ()  # whoever still reads in another thread closes the files

    def _load(self, cover: Cover | None, end: int) -> None:
        opening = Opening(self._files, self._folder, self._limits, cover)
        try:
            opening.run(end)
            self._segments, self._epochs = opening.segments, opening.epochs
        except BaseException:
            opening.segments = ()
            raise
        self._next_offset, self._unsynced = opening.next_offset, opening.cut
        self._manifest.read = opening.manifest
        if self._segments:
            self._start_offset = self._segments[0].base_offset
        if opening.deleted_before:
            self._forget_deleted(opening.deleted_before)
        findings = opening.findings
        if cover is not None:
            self._add(cover, findings)
            if self.last_epoch in cover.missing_epochs:
                self._manifest.note_lost_rounds(self._next_offset)
        opening.check_end(self._next_offset, end, self._manifest.read.rounds_lost_at)
        self.repairs = findings.repairs
        if opening.accepted:
            self._manifest.given_up = max(self._next_offset, opening.expected(end))
            self._write_manifest()
            self._files.remove(f"{self._folder}/{ACCEPT_FILE}")

    def _forget_deleted(self, offset: int) -> None:
        """
        Forget again what was deleted, and remove what is left of it. If a power cut took more, the
        log is empty and goes on where it was to begin.
        """
        gone = run_to_end(self.begin_at(offset))
        self._next_offset = max(self._next_offset, self._start_offset)
        for segment in gone:
            with suppress(OSError):  # the next open tries again
                segment.remove()

    def _add(self, cover: Cover, findings: Findings) -> None:
        """Append what the journal holds beyond the end, and make all of it durable here."""
        for data in cover.batches_from(self._next_offset):
            base, _, epoch, *_ = FIELDS.unpack_from(data)
            if base != self._next_offset or epoch < self.last_epoch:
                findings.gap(self._next_offset, self.last_epoch, base, epoch, cover.damage)
                self._next_offset = max(base, self._next_offset)
            self.append(data)
        # What the file holds may be in the page cache only, and the journal may be dropped soon.
        self.settle()

    def take_repairs(self) -> list[str]:
        """What the opening cut off or mended, a line each that names file and place; once."""
        repairs, self.repairs = self.repairs, []
        return repairs

    def _write_manifest(self) -> None:
        """Say in the folder what there is, if that is news. Raises OSError."""
        segments = self._segments
        finished = [one.to_manifest(other.base_offset) for one, other in pairwise(segments)]
        begun = segments[-1].base_offset if segments else None
        self._manifest.write(finished, begun, self.durable)
