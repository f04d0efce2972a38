"""Finds the sound part of a log's last segment, and decides whether the rest may be cut off.

Bytes before a recovery point (recovery_point.py) need not be scanned.

Theory of operation. Sound bytes in the page cache need not be on disk: after a failed sync the
kernel marks the pages clean although the disk has other contents. So bytes that only a journal
makes durable are rewritten exactly as they were verified, and the next sync writes them out.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from crc32c import crc32c

from groupkeeper.storage.journal.journals import JournalCover
from groupkeeper.storage.log.chunks import check_epoch
from groupkeeper.storage.log.epochs import EpochFile
from groupkeeper.storage.log.scan import Batch, batches_after, valid_batches
from groupkeeper.storage.log.segment import MAX_RELATIVE_OFFSET, Segment
from groupkeeper.storage.recovery.findings import Findings
from groupkeeper.storage.recovery.marks import Mark, RecoveryPoint
from groupkeeper.storage.recovery.recovery_point import resume


@dataclass(slots=True, frozen=True)
class KnownLog:
    """What is known about a log before its last segment is read."""

    mark: Mark | None
    """The newest mark."""
    points: Sequence[RecoveryPoint]
    """Recovery points of the last segment, newest first."""
    cover: JournalCover | None
    end: int
    """Batches from this offset on do not count."""
    read_most: int
    """Maximum number of bytes to read before a recovery point: see `resume`."""


class TailScan:
    """A scan over the last segment, which also rewrites bytes that may not be on disk."""

    def __init__(
        self,
        segment: Segment,
        point: RecoveryPoint | None,
        mark: Mark | None,
        unsure_from: int | None,
        last: tuple[int, bytes] | None,
    ) -> None:
        """Begin at `point`, or at the first byte if it is None.

        `unsure_from`: the offset from which on nothing is known to be on disk; None: everything is.

        `last`: base offset and bytes of the last batch in the journal. No checksum covers the base
        offset and the epoch of a batch, and for the last one no later batch contradicts them.
        """
        self._last_base, self._last = (-1, b"") if last is None else last
        self._from = (0, segment.base_offset) if point is None else (point.size, point.end)
        self.is_not_last = False
        """Whether the file ends with a batch that differs from the last one in the journal."""
        self._segment = segment
        self._window = segment.window()
        self._buffer, self._start = self._window.buffer, self._from[0]
        self._unsure_from = unsure_from
        self._rewrite_at: int | None = None
        self._mark = mark
        self.fits_mark = mark is None or mark.size <= self._start
        """Whether the bytes up to the mark have the mark's checksum."""

    def run(self, epochs: EpochFile, end: int) -> tuple[int, int]:
        """Scan up to offset `end`; return the number of sound bytes and the next offset.

        Adds the sound batches to the indexes and to `epochs`, and computes the segment's checksum.
        """
        active = self._segment
        valid, next_offset = self._from
        epoch = epochs.last_epoch if valid else -1  # the file is unchecked so far
        for batch in valid_batches(self._window, valid, next_offset):
            if batch.base_offset >= end:
                break
            if next_offset == self._last_base and not self._is_last(batch):
                self.is_not_last = batch.position + batch.size == active.size
                break
            if batch.last_offset - active.base_offset > MAX_RELATIVE_OFFSET:
                break  # no checksum covers its offset
            if self._window.buffer is not self._buffer:
                self._passed(valid)
                self._buffer, self._start = self._window.buffer, valid
            check_epoch(active.path, batch.base_offset, batch.epoch, epoch)
            epoch = batch.epoch
            active.note(batch)
            epochs.note(epoch, batch.base_offset)
            if self._rewrite_at is None and self._is_unsure(batch.base_offset):
                self._rewrite_at = batch.position
            valid = batch.position + batch.size
            next_offset = batch.last_offset + 1
        self._passed(valid)
        return valid, next_offset

    def _is_last(self, batch: Batch) -> bool:
        at = self._window.find(batch.position, batch.size)
        return self._window.view[at : at + batch.size] == self._last

    def _is_unsure(self, offset: int) -> bool:
        return self._unsure_from is not None and offset >= self._unsure_from

    def _passed(self, end: int) -> None:
        """Process the bytes in the window up to a position, which are sound."""
        data = memoryview(self._buffer)[: end - self._start]
        segment, mark = self._segment, self._mark
        if mark is not None and self._start < mark.size <= end:
            at = mark.size - self._start
            self.fits_mark = crc32c(data[:at], segment.crc) == mark.crc
        segment.crc = crc32c(data, segment.crc)
        if self._rewrite_at is not None and end > self._rewrite_at:
            at = max(self._rewrite_at, self._start)
            segment.rewrite(bytes(data[at - self._start :]), at)


def mend_tail(active: Segment, mark: Mark | None, findings: Findings) -> None:
    """Restore the bytes before the mark in a sector that was damaged by a torn append."""
    if mark is None or mark.base != active.base_offset:
        return
    start = mark.size - len(mark.tail)
    if active.size < start or active.read(start, len(mark.tail)) == mark.tail:
        return
    active.rewrite(mark.tail, start)
    active.size = max(active.size, mark.size)
    findings.repairs.append(
        f"{active.path}: restored bytes {start} to {mark.size - 1}, before offset {mark.end}"
    )


def sound_end(
    active: Segment, epochs: EpochFile, known: KnownLog, findings: Findings
) -> tuple[int, int]:
    """Return the number of sound bytes of a segment, and the next offset; see `TailScan.run`.

    Raises Corrupt if sound batches follow a damaged one and the journals lack the batches in
    between, or if the segment ends before its mark.
    """
    mark, cover, end = known.mark, known.cover, known.end
    here = mark if mark is not None and mark.base == active.base_offset else None
    mend_tail(active, here, findings)
    point = resume(active, epochs, known.points, known.read_most)
    if point is None:
        epochs.load(active.base_offset)
    unsure_from = _unsure_from(cover, mark)
    last = cover.last() if cover is not None and unsure_from is not None else None
    scan = TailScan(active, point, here, unsure_from, last)
    valid, next_offset = scan.run(epochs, end)
    active.sound_size = 0 if active.unread else valid
    if next_offset >= end:
        return valid, next_offset
    if here is not None and valid >= here.size and not scan.fits_mark:
        what = f"{active.path}: the header of a batch before byte {here.size} is damaged"
        findings.lost(what, here.end, here.end)
    loss = _loss(active, valid, next_offset, cover, here)
    if loss and not scan.is_not_last:
        findings.lost(loss, next_offset, max(here.end if here is not None else 0, next_offset))
    if valid < active.size:
        findings.repairs.append(
            f"{active.path}: cut off {active.size - valid} bytes at byte {valid}, from offset "
            f"{next_offset} on"
        )
    return valid, next_offset


def _loss(
    active: Segment, valid: int, next_offset: int, cover: JournalCover | None, mark: Mark | None
) -> str:
    """Describe the loss after the sound part of a segment; "" if the journals have it."""
    known = mark.end if mark is not None else 0
    count, sound = 0, next_offset
    if valid < active.size:
        count, sound = batches_after(active.window(), valid, next_offset)
    end = max(known, sound)
    if (not count and next_offset >= known) or (cover and cover.reaches(next_offset, end)):
        return ""
    if valid < active.size:
        what = f"the batch at byte {valid} is damaged, {count} sound ones follow"
    else:
        what = f"the file ends at byte {valid}"
    offsets = (
        f", and offsets {next_offset} to {known - 1} were there" if known > next_offset else ""
    )
    return f"{active.path}: {what}{offsets}"


def _unsure_from(cover: JournalCover | None, mark: Mark | None) -> int | None:
    """Return the offset from which on only journals make a log durable; None if nowhere."""
    if cover is None or cover.first is None:
        return None
    return cover.first if mark is None else mark.end
