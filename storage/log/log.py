"""An open log: one partition folder of segments in Kafka's format, with appends, reads and rolls.

Theory of operation. A log stores finished batches and does not look at their records. One thread
appends, rolls, syncs and closes. Other threads may read at the same time: a segment's size grows
only when all bytes of a batch are in the file, so a reader never sees a partial batch, and a read
that began before `close` completes.

A log has no journal, and an append is not synced. opening.py builds a log from its folder and
repairs it; store.py decides what is journaled first and what a crash may cost.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from itertools import pairwise

from groupkeeper.storage.errors import AppendFailed, Loss, OffsetOutOfRange, SyncFailed
from groupkeeper.storage.files.files import Files, parent_of
from groupkeeper.storage.log.chunks import checked_chunks
from groupkeeper.storage.log.limits import Limits
from groupkeeper.storage.log.reading import bytes_from, read_batches, timestamp_at
from groupkeeper.storage.log.scan import Batch, locate_batches
from groupkeeper.storage.log.segment import Replacement, Segment, Stand, segments_from, spliced
from groupkeeper.storage.log.start import write_start
from groupkeeper.storage.log.times import newest, promising
from groupkeeper.storage.recovery.findings import Contents
from groupkeeper.storage.recovery.marks import Mark
from groupkeeper.storage.recovery.recovery_point import make_point


class Log:
    """One partition folder, returned by `open_log`. The first append creates the folder.

    After a failed append or sync the log is `failed`: it takes no more appends and must be closed
    and reopened, which cuts off partial writes.
    """

    def __init__(self, files: Files, folder: str, limits: Limits, contents: Contents) -> None:
        self.files = files
        self.folder = folder
        self.limits = limits
        """May be replaced at any time; takes effect with the next append."""
        self._segments = contents.segments
        self._epochs = contents.epochs
        self._manifest = contents.manifest
        self._unsynced = contents.unsynced
        self._unsynced_names = False
        self.name = folder.rpartition("/")[2]
        self.start_offset = self._segments[0].base_offset if self._segments else 0
        """The first offset that is kept; its batch may begin before it."""
        self.next_offset = contents.next_offset
        """The base offset of the next append."""
        self.durable: Mark | None = None
        """The end of the log at its last sync; None if it was never synced, or was empty."""
        self.repairs: list[str] = []
        """Messages about what was cut off or repaired on opening, with file and place."""
        self.losses: Sequence[Loss] = ()
        """The losses among these repairs, which an operator has accepted."""
        self.lock: AbstractContextManager[object] = nullcontext()
        """Held while the list of segments changes; a real lock if several threads change it."""
        self._compacted_away = 0
        """Bytes removed by compaction since the log was opened."""
        self.failed = False
        self.closed = False

    @property
    def last_epoch(self) -> int:
        """The largest leader epoch, or -1."""
        return self._epochs.last_epoch

    @property
    def epochs(self) -> Sequence[tuple[int, int]]:
        """The known leader epochs of the log with their first offsets."""
        return self._epochs.entries

    @property
    def finished(self) -> Sequence[tuple[Segment, int]]:
        """All segments before the active one, with the base offset of the next; all are synced."""
        return [(one, other.base_offset) for one, other in pairwise(self._segments)]

    @property
    def first_dirty(self) -> int:
        """Records before this offset are compacted."""
        return self._manifest.first_dirty

    @property
    def size(self) -> int:
        """Total bytes of all batches."""
        return sum(segment.size for segment in self._segments)

    @property
    def uncompacted_size(self) -> int:
        """`size` plus the bytes removed by compaction since the log was opened: it never falls."""
        return self.size + self._compacted_away

    @property
    def segments(self) -> Sequence[Segment]:
        """All current segments, oldest first."""
        return self._segments

    def take_repairs(self) -> list[str]:
        repairs, self.repairs = self.repairs, []
        return repairs

    # -- appending -----------------------------------------------------------------------------

    def append(self, data: bytes, batches: Sequence[Batch] = ()) -> None:
        """Write finished batches, the first of which starts at `next_offset`, without a sync.

        `batches` describes the data, if the caller has that. Raises ValueError, before anything is
        written, if the batches do not continue the log, and AppendFailed if the write fails; the
        log is `failed` then.
        """
        if self.failed or self.closed:
            raise AppendFailed(f"{self.folder} must be opened again before it takes an append")
        self.write(data, batches or locate_batches(data, self.next_offset))

    def fitting(self, batches: Iterable[Batch]) -> int:
        """Return how many of these batches one `write` may take: at least one."""
        return self._segments[-1].fitting(batches, self.limits) if self._segments else 1

    def write(self, data: bytes, batches: Sequence[Batch]) -> None:
        """Append described `batches` that are known to fit, without checks."""
        last = batches[-1]
        try:
            self._segment_for(len(data), last).append(data, batches)
            self._epochs.note_all(batches)
        except OSError as error:
            self.failed = True
            raise AppendFailed(f"cannot append to {self.folder}: {error}") from error
        self._unsynced = True
        self.next_offset = last.last_offset + 1

    def has_room(self, size: int, timestamp: int) -> bool:
        """Return whether a batch of this size and largest timestamp fits into the last segment.

        If not, the next append syncs that segment and begins a new one.
        """
        if not self._segments:
            return True
        active, last_offset = self._segments[-1], self.next_offset + size  # an upper bound
        has_room = active.has_room(size, last_offset, self.limits)
        return has_room and not active.is_too_old(timestamp, self.limits)

    def _segment_for(self, size: int, last: Batch) -> Segment:
        """Return the last segment, or a new one, for batches of this size that end with `last`.

        A segment is synced before the next one begins.
        """
        if self._segments:
            active, limits = self._segments[-1], self.limits
            is_old = active.is_too_old(last.max_timestamp, limits)
            if not is_old and active.has_room(size, last.last_offset, limits):
                return active
            self._finish(active)
        else:
            self.files.make_folder(self.folder)
        return self._begin_segment()

    def _begin_segment(self) -> Segment:
        segment = Segment(self.files, self.folder, self.next_offset, self.limits)
        self._unsynced_names = True
        with self.lock:
            self._segments = (*self._segments, segment)
        if len(self._segments) > 1:
            self.write_manifest()
        return segment

    def _finish(self, segment: Segment) -> None:
        with self._failing(f"cannot sync {segment.path}"):
            segment.finish(self.next_offset)

    def roll(self) -> None:
        """Begin a new segment unless the last one is empty. Raises StorageError and OSError."""
        if self._segments and self._segments[-1].size:
            self._finish(self._segments[-1])
            self._begin_segment()

    def skip_to(self, offset: int) -> None:
        """Raise `next_offset` to at least this offset, when the records before it are lost."""
        self.next_offset = max(self.next_offset, offset)

    # -- reading -------------------------------------------------------------------------------

    def read(
        self, offset: int, max_bytes: int, *, at_least_one: bool = True, cached: bool = False
    ) -> bytes:
        """Return whole batches from the one that holds `offset` on; b"" at the end of the log.

        They are at most `max_bytes`, or one larger batch if `at_least_one`. `cached`: from memory
        only. Raises OffsetOutOfRange below `start_offset` and beyond `next_offset`, Corrupt, and
        NotCached.
        """
        end = self.next_offset
        if offset == end:
            return b""
        if not self.start_offset <= offset < end:
            raise OffsetOutOfRange(f"{self.name} holds {self.start_offset} to {end}, not {offset}")
        segments = self._segments
        return read_batches(segments, offset, max_bytes, at_least_one=at_least_one, cached=cached)

    def timestamp_at(self, offset: int) -> int | None:
        """Return the timestamp of the batch that holds an offset: see `reading.timestamp_at`."""
        return timestamp_at(self._segments, offset)

    def bytes_from(self, offset: int) -> int:
        """Estimate how many bytes follow an offset, from the index; reads no file."""
        return 0 if offset >= self.next_offset else bytes_from(self._segments, offset)

    def batches(self, from_offset: int = 0) -> Iterator[bytes]:
        """Yield all batches from the one that holds an offset on, verified, for replay.

        In chunks of whole batches of about 1 MiB. Raises Corrupt at a wrong checksum and where an
        epoch decreases.
        """
        return checked_chunks(self._segments, from_offset)

    def promising(self, timestamp_ms: int) -> Iterator[tuple[Segment, Batch] | None]:
        """Yield the batches whose headers promise a record of that time or later: see times.py."""
        return promising(self._segments, timestamp_ms, self.start_offset)

    def newest(self) -> Iterator[tuple[Segment, Batch] | None]:
        """Yield the batches that promise a record of the largest timestamp: see times.py."""
        return newest(self._segments, self.start_offset)

    # -- deleting ------------------------------------------------------------------------------

    def begin_at(self, offset: int) -> tuple[Segment, ...]:
        """Raise `start_offset` in memory, after start.py has made it durable.

        For the thread that appends. Returns the segments whose files can be removed: all of them if
        no record is kept, and the next append begins a new one.
        """
        start = max(self.start_offset, offset)
        with self.lock:
            segments = self._segments
            kept = segments_from(segments, start)
            if kept and kept[-1].base_offset < start >= self.next_offset:
                kept = ()
            self.start_offset = start
            self._segments = tuple(kept)
        return segments[: len(segments) - len(kept)]

    def delete_before(self, offset: int) -> None:
        """Durably set the start of the log to an offset, and remove the segments before it.

        Raises as `write_start`, and OSError.
        """
        write_start(self.files, self.folder, offset)
        for segment in self.begin_at(offset):
            segment.remove()

    # -- compaction ----------------------------------------------------------------------------

    def switch(self, replacements: Sequence[Replacement], first_dirty: int) -> bool:
        """Durably replace segments by their compacted copies: a step of swap.py.

        For the thread that appends. Returns False, and changes nothing, if the log was closed or
        the source segments are gone. Raises AppendFailed: the log is `failed` then.
        """
        segments = None if self.failed or self.closed else spliced(self._segments, replacements)
        if segments is None:
            return False
        self._manifest.first_dirty = first_dirty
        try:
            self.write_manifest(segments)
        except OSError as error:
            self.failed = True
            raise AppendFailed(f"cannot write the manifest of {self.folder}: {error}") from error
        with self.lock:
            segments = spliced(self._segments, replacements)
            if segments is None:
                self.failed = True
                raise AppendFailed(f"records of {self.folder} were deleted during a compaction")
            size, self._segments = self.size, segments
            self._compacted_away += size - self.size
        return True

    # -- syncing and closing -------------------------------------------------------------------

    def sync(self, *, with_point: bool = False, with_parent: bool = True) -> None:
        """Wait until all appends and the names of the files are on disk. Raises SyncFailed.

        `with_point`: also make a recovery point of the end. Without `with_parent`, the caller has
        to sync the data directory, which holds the folder's name.
        """
        if self.failed:
            raise AppendFailed(f"{self.folder} must be opened again before it can be synced")
        with self._failing(f"cannot sync {self.folder}"):
            stand = self.stand()  # None if all records were deleted
            if stand is not None and self._unsynced:
                self._unsynced = False
                stand.segment.sync()
                self.durable = stand.segment.mark(stand)
            if stand is not None and with_point and self.durable is not None:
                make_point(stand, self._epochs)
                self.durable = stand.segment.mark(stand)
            self._sync_names(with_parent=with_parent)

    def _sync_names(self, *, with_parent: bool = True) -> None:
        if self._unsynced_names:
            self._unsynced_names = False
            self.files.sync_folder(self.folder)
            if with_parent:
                self.files.sync_folder(parent_of(self.folder))

    def sync_all(self) -> None:
        """`sync` with a recovery point, also of data that an earlier process left unsynced."""
        self._unsynced = self._unsynced_names = bool(self._segments)
        self.sync(with_point=True)

    def stand(self) -> Stand | None:
        """Return the end of the last segment, for `checkpoint`. For the thread that appends."""
        return self._segments[-1].stand(self.next_offset) if self._segments else None

    def checkpoint(self, stand: Stand) -> Mark | None:
        """Sync everything before `stand` and make a recovery point there. Thread-safe.

        Returns the mark, or None, without doing anything, if the log takes no more appends. A
        `sync` is still due afterwards, and takes less time. Raises SyncFailed.
        """
        if self.failed or self.closed:
            return None
        with self._failing(f"cannot sync {stand.segment.path}"):
            stand.segment.sync()
            make_point(stand, self._epochs)
            return stand.segment.mark(stand)

    def save(self, mark: Mark) -> None:
        """Write a mark of `checkpoint` to the manifest, if no journal has it. Raises SyncFailed."""
        with self._failing(f"cannot sync {self.folder}"):
            self._sync_names()
        self.durable = mark
        with suppress(OSError):  # the old manifest covers less, and is still true
            self.write_manifest()

    @contextmanager
    def _failing(self, what: str) -> Iterator[None]:
        """Mark the log as failed on an OSError of a sync, and raise SyncFailed instead."""
        try:
            yield
        except OSError as error:
            self.failed = True
            raise SyncFailed(f"{what}: {error}") from error

    def close(self, *, with_parent: bool = True) -> None:
        """Sync, unless the log is `failed`, and release the files, which ends all reading.

        In this order: the segment; its name; the manifest, whose mark says that the segment is on
        disk. Without `with_parent`, the caller has to sync the data directory. Raises SyncFailed.
        """
        try:
            if not self.failed and not self.closed:
                self.sync(with_point=True, with_parent=with_parent)
                if self._segments:
                    self._segments[-1].write_index()
                    with suppress(OSError):  # the old manifest covers less, and is still true
                        self.write_manifest()
        finally:
            self._release()

    def delete(self) -> None:
        """Remove the folder. Only for a log that no flush ever wrote to."""
        self._release()
        for name in self.files.list_folder(self.folder):
            self.files.remove(f"{self.folder}/{name}")
        self.files.remove_folder(self.folder)

    def _release(self) -> None:
        self.closed = True
        self._segments = ()  # a reader in another thread keeps its segments, and so their files

    def write_manifest(self, segments: Sequence[Segment] | None = None) -> None:
        """Update the manifest, for the given segments or the current ones. Raises OSError."""
        segments = self._segments if segments is None else segments
        finished = [one.to_manifest(other.base_offset) for one, other in pairwise(segments)]
        begun = segments[-1].base_offset if segments else None
        self._manifest.write(finished, begun, self.durable)
