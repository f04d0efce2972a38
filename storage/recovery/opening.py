"""Opens a log: compares its folder with its manifest and the journals, and repairs it.

Everything that a crash explains is cut off or restored, and reported in `Log.repairs`. If anything
else is missing this raises Corrupt, unless an operator has accepted the loss.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from groupkeeper.storage.compaction.swap import complete_swaps, settle_brokers_files
from groupkeeper.storage.errors import ACCEPT_FILE, Corrupt, Loss
from groupkeeper.storage.files.files import Files, parent_of
from groupkeeper.storage.journal.journals import JournalCover
from groupkeeper.storage.log.epochs import FILE_NAME as EPOCH_FILE
from groupkeeper.storage.log.epochs import EpochFile
from groupkeeper.storage.log.limits import Limits
from groupkeeper.storage.log.log import Log
from groupkeeper.storage.log.scan import FIELDS
from groupkeeper.storage.log.segment import Segment, base_of, segment_path
from groupkeeper.storage.log.start import FILE_NAME as START_FILE
from groupkeeper.storage.log.start import read_start
from groupkeeper.storage.recovery.findings import Contents, Findings
from groupkeeper.storage.recovery.manifest import FILE_NAME as MANIFEST_FILE
from groupkeeper.storage.recovery.manifest import FinishedSegment, ManifestFile
from groupkeeper.storage.recovery.marks import Mark, RecoveryPoint, newest
from groupkeeper.storage.recovery.recovery import KnownLog, mend_tail, sound_end
from groupkeeper.storage.recovery.salvage import SoundSegment, fill, mend, scan

NO_END: Final = 2**63 - 1
"""Stands for "no limit" among offsets and sizes."""


def open_log(
    files: Files,
    folder: str,
    limits: Limits,
    cover: JournalCover | None = None,
    end: int = NO_END,
    read_most: int = NO_END,
) -> Log:
    """Open the log of a folder, which may be missing, and repair the traces of an unclean stop.

    A torn end of the last segment is cut off, and so are its batches from offset `end` on, for a
    batch that was refused. Batches that `cover` has and the folder lacks are added and synced.
    Raises Corrupt if the log has lost records, StorageError and OSError.

    The part of the last segment before its recovery point is compared with a checksum, unless it
    has more than `read_most` bytes. Then, as in earlier segments, damage is found when it is read.
    """
    found = LogFolder(files, folder, limits, cover, end, read_most)
    log = Log(files, folder, limits, found.read())
    found.drop_deleted(log)
    if cover is not None:
        found.add_from_journal(log, cover)
    found.check_end(log)
    found.finish(log)
    return log


def accept_loss(files: Files, folder: str) -> None:
    """Durably let the next opening of a log keep what is left of it. Raises OSError."""
    files.make_folder(folder)
    files.close(files.open(f"{folder}/{ACCEPT_FILE}", create=True))
    files.sync_folder(folder)
    files.sync_folder(parent_of(folder))


class LogFolder:
    """The folder of a log while it is opened."""

    def __init__(
        self,
        files: Files,
        folder: str,
        limits: Limits,
        cover: JournalCover | None,
        end: int,
        read_most: int,
    ) -> None:
        self._files = files
        self._folder = folder
        self._limits = limits
        self._cover = cover
        self._end = end
        self._read_most = read_most
        self._manifest = ManifestFile(files, folder)
        self._accepted = ACCEPT_FILE in files.list_folder(folder)
        self._findings = Findings(folder, accepted=self._accepted)
        if self._manifest.damage:
            self._findings.repairs.append(self._manifest.damage)
        if self._accepted or MANIFEST_FILE in files.list_folder(folder):
            complete_swaps(files, folder, self._manifest, self._findings)
        else:
            settle_brokers_files(files, folder)
        names = files.list_folder(folder)
        self._names = frozenset(names)
        self._bases = sorted(base for base in map(base_of, names) if base is not None)
        self._written_anew: set[int] = set()
        """Base offsets of segments that were rewritten without their unsound parts."""
        self._start = self._read_start() if START_FILE in names else 0
        """Records before this offset were deleted."""

    def _read_start(self) -> int:
        """Return the offset in the start checkpoint. Raises Corrupt and OSError.

        If a loss was accepted, a damaged checkpoint is removed: better to have deleted records back
        than to have none.
        """
        try:
            return read_start(self._files, self._folder)
        except Corrupt:
            if not self._accepted:
                raise
        path = f"{self._folder}/{START_FILE}"
        self._files.remove(path)
        self._findings.repairs.append(f"{path} was damaged: removed, deleted records may be back")
        return 0

    def read(self) -> Contents:
        """Return the segments, their epochs and where they end. Raises Corrupt and OSError."""
        finished = self._finished_segments()
        segments = [self._segment(base) for base in self._bases]
        for segment in segments:
            segment.finished = finished.get(segment.base_offset)
        for segment in segments[:-1]:
            self._cut_excess(segment)
        if self._accepted and segments:
            segments = self._salvage(segments)
        for segment in segments[:-1]:
            self._check_size(segment, segment.base_offset)
        for segment in segments[:-1]:
            segment.load_index()
        contents = Contents((*segments,), EpochFile(self._files, self._folder), self._manifest)
        if segments:
            segments[-1].finished = None  # it takes appends, if later segments are lost
            self._cut_tail(segments[-1], contents)
            contents.epochs.write()
        return contents

    def _segment(self, base: int) -> Segment:
        return Segment(self._files, self._folder, base, self._limits)

    def _finished_segments(self) -> dict[int, FinishedSegment]:
        """Return the manifest's entries by base offset, and report missing segments."""
        manifest, finished = self._manifest.on_disk, {}
        for each in manifest.finished:
            if each.base in self._bases:
                finished[each.base] = each
            elif each.end > self._start:
                path = segment_path(self._folder, each.base)
                what = f"{path} is missing: offsets {each.base} to {each.end - 1}"
                self._findings.lost(what, max(each.base, self._start), each.end)
        begun = manifest.begun
        if begun is not None and begun not in self._bases and begun >= self._start:
            path = segment_path(self._folder, begun)
            what = f"{path} is missing: offsets from {begun} on"
            # Its batches in the journal, and where it ended, are considered later.
            self._findings.lost(what, begun, begun if self._told_end else None)
        return finished

    def _cut_excess(self, segment: Segment) -> None:
        """Cut off bytes after the end of a finished segment."""
        finished = segment.finished
        if finished is not None and finished.end > self._start and segment.size > finished.size:
            more = segment.size - finished.size
            self._findings.repairs.append(
                f"{segment.path}: cut off {more} bytes at byte {finished.size}, after the end"
            )
            segment.truncate(finished.size)

    def _check_size(self, segment: Segment, sound_to: int) -> None:
        """Report a loss if a finished segment is too short; it is sound up to offset `sound_to`."""
        finished = segment.finished
        if finished is None or finished.end <= self._start or segment.size >= finished.size:
            return
        self._findings.lost(
            f"{segment.path} is cut: it has {segment.size} of {finished.size} bytes, offsets "
            f"{segment.base_offset} to {finished.end - 1}",
            sound_to,
            finished.end,
        )

    def _salvage(self, segments: Sequence[Segment]) -> list[Segment]:
        """Rewrite segments that have unsound parts without those parts.

        This invalidates their manifest entries, as well as those with another checksum.
        """
        mend_tail(segments[-1], self._mark(), self._findings)
        dense = {each.base_offset for each in segments if _is_dense(each.finished)}
        found = scan(self._files, self._folder, self._bases, dense)
        self._findings.repairs += mend(self._files, found)
        if self._cover is not None:
            self._findings.repairs += fill(found, self._cover)
        kept: list[Segment] = []
        for segment, sound, going_on in zip(segments, found, [*self._bases[1:], None], strict=True):
            for gap in sound.gaps(going_on):
                self._note_gap(gap)
            if going_on is not None:
                self._check_size(segment, sound.following)
            kept.append(self._without_unsound(segment, sound))
        return kept

    def _without_unsound(self, segment: Segment, sound: SoundSegment) -> Segment:
        if not sound.is_whole:
            sound.write(self._files)
            self._written_anew.add(segment.base_offset)
            known, segment = segment.finished, self._segment(segment.base_offset)
            segment.finished = known  # in case all of it was mended
        if not _is_as_known(segment):
            segment.finished = None
        return segment

    def _note_gap(self, gap: Loss) -> None:
        if gap.start == gap.stop and gap.first < self._void:
            return  # given up before
        self._findings.repairs.append(gap.what)
        if gap.end is not None and gap.end > max(gap.first, self._start):
            self._findings.losses.append(gap)

    def _cut_tail(self, active: Segment, contents: Contents) -> None:
        """Cut off the unsound end of the last segment, if this loses nothing."""
        # The position in a mark does not hold once bytes before it were left out.
        mark = None if active.base_offset in self._written_anew else self._mark()
        known = KnownLog(mark, self._points(active), self._cover, self._end, self._read_most)
        valid, contents.next_offset = sound_end(active, contents.epochs, known, self._findings)
        scanned = valid - (active.point.size if active.point is not None else 0)
        contents.unsynced = scanned > 0 or valid != active.size
        if valid != active.size:
            active.truncate(valid)
        active.read_first_timestamp()

    def drop_deleted(self, log: Log) -> None:
        """Start the log where the checkpoint says, and remove the segments before that.

        After a power cut the log may end before its start: then it is empty and continues there.
        """
        if self._start:
            deleted = log.begin_at(self._start)
            log.skip_to(log.start_offset)
            for segment in deleted:
                with suppress(OSError):  # the next start tries again
                    segment.remove()

    def add_from_journal(self, log: Log, cover: JournalCover) -> None:
        """Append the batches that only the journals have, and make the whole log durable."""
        for data in cover.batches_from(log.next_offset):
            base, _, epoch, *_ = FIELDS.unpack_from(data)
            if base != log.next_offset or epoch < log.last_epoch:
                self._findings.gap(log.next_offset, log.last_epoch, base, epoch, cover.damage)
                log.skip_to(base)
            log.append(data)
        # Batches in the file may be in the page cache only, and the journal may be removed soon.
        log.sync_all()
        if log.last_epoch in cover.missing_epochs:
            self._manifest.note_lost_flushes(log.next_offset)

    def check_end(self, log: Log) -> None:
        """Report a loss if the log once extended, or may have extended, beyond its present end."""
        end, given_up = log.next_offset, self._manifest.on_disk.given_up
        flushes_lost_at = self._manifest.on_disk.flushes_lost_at
        damage = self._cover.damage if self._cover is not None else ""
        why = f" ({damage})" if damage else ""
        expected = self._expected_end()
        if EPOCH_FILE in self._names and given_up < 0 and not self._bases and not end:
            what = f"{self._folder}: its segments are missing"
            self._findings.lost(what, 0, expected if self._told_end else None)
        elif end < expected:
            what = f"{self._folder} ends at offset {end}, but reached {expected - 1}{why}"
            self._findings.lost(what, end, expected)
        elif self._cover is not None and self._cover.may_lack and end > given_up:
            what = f"{self._folder} may lack records from offset {end} on{why}"
            self._findings.lost(what, end, None)
        elif end <= flushes_lost_at and not self._is_covered(flushes_lost_at - 1):
            what = (
                f"{self._folder} may lack records from offset {end} on: a journal that "
                f"they went through is missing from {parent_of(self._folder)}/journals{why}"
            )
            self._findings.lost(what, end, None)

    @property
    def _told_end(self) -> int:
        """Where the log ended, if the journals have this for certain; else 0."""
        cover = self._cover
        return cover.end if cover is not None and not cover.may_lack else 0

    def _is_covered(self, offset: int) -> bool:
        """Return whether journals reach beyond an offset: the missing journal was put back."""
        cover = self._cover
        return cover is not None and (offset < cover.end or cover.reaches(offset, offset + 1))

    def _expected_end(self) -> int:
        """Return the offset that the log must reach; 0 if unknown."""
        mark = self._mark()
        told = self._cover.end if self._cover is not None else 0
        expected = max(told, mark.end if mark else 0)
        return 0 if expected <= self._void else expected

    def _mark(self) -> Mark | None:
        """Return the newest mark, unless all records before it were deleted or given up."""
        return newest(*self._marks())

    def _marks(self) -> list[Mark]:
        marks = [self._manifest.on_disk.mark, self._cover.mark if self._cover is not None else None]
        return [mark for mark in marks if mark and self._void < mark.end <= self._end]

    def _points(self, active: Segment) -> list[RecoveryPoint]:
        """Return the recovery points of the last segment, newest first."""
        if self._accepted:
            return []  # every byte is verified
        marks = [mark for mark in self._marks() if mark.base == active.base_offset]
        points = [mark.point for mark in marks if mark.point and mark.point.end <= self._end]
        return sorted(points, reverse=True)

    @property
    def _void(self) -> int:
        """Earlier knowledge about records before this offset is void."""
        return max(self._manifest.on_disk.given_up, self._start)

    def finish(self, log: Log) -> None:
        """Hand over the repairs, and durably note which losses were accepted or have been undone.

        The journal that was put back is removed after the next flush, so the note is written first.
        """
        log.repairs, log.losses = self._findings.repairs, self._findings.losses
        if self._accepted:
            self._manifest.given_up = max(log.next_offset, self._expected_end())
            log.write_manifest()
            self._files.remove(f"{self._folder}/{ACCEPT_FILE}")
        elif self._manifest.on_disk.flushes_lost_at >= 0:
            log.write_manifest()


def _is_dense(finished: FinishedSegment | None) -> bool:
    """Return whether the offsets of a segment are known to be consecutive."""
    return finished is not None and finished.crc is not None and not finished.compacted


def _is_as_known(segment: Segment) -> bool:
    """Return whether a segment matches its manifest entry, as far as that is known."""
    known = segment.finished
    if known is None:
        return True
    if known.crc is None:
        return segment.size == known.size
    return segment.size == known.size and segment.is_as_written(known.size, known.crc)
