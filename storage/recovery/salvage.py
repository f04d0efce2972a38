"""Keeps the sound batches of a damaged log, after an operator has accepted the loss.

First all segments are scanned (`scan`) for the parts to keep, and the gaps between them. Batches
with only a damaged header are mended (`mend`), and gaps are filled with batches that a journal
still has (`fill`). Then the segments that change are rewritten (`SoundSegment.write`), one after
the other: a crash leaves each in its old or its new state.
"""

from bisect import bisect_left, insort
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from crc32c import crc32c

from groupkeeper.protocol.record_batch import CRC_START, HEADER_SIZE, LENGTH_OVERHEAD, MAGIC, patch
from groupkeeper.storage.errors import Loss
from groupkeeper.storage.files.files import Files, parent_of
from groupkeeper.storage.files.whole import opened
from groupkeeper.storage.journal.journals import JournalCover
from groupkeeper.storage.log.scan import Batch, locate_batches, next_candidate, valid_batches
from groupkeeper.storage.log.segment import INDEX_SUFFIXES, LOG_SUFFIX, segment_path
from groupkeeper.storage.log.window import Window

MENDED_BYTES: Final = 64 * 1024 * 1024
"""Larger batches are not mended, because they would have to fit in memory."""

MAX_EPOCH: Final = 2**31 - 1

_MAGIC: Final = bytes([MAGIC])


@dataclass(slots=True)
class _Part:
    """Consecutive batches: bytes `start` to `end` of the segment, or `data` in place of them.

    `start` and `end` of batches from a journal are 0: they replace no bytes.
    """

    start: int
    end: int
    first: int
    """The offset of the first batch."""
    following: int
    """The offset after the last batch."""
    epochs: tuple[int, int]
    """Epochs of the first and the last batch."""
    data: bytes = b""

    @classmethod
    def of(cls, batch: Batch, start: int, end: int, data: bytes = b"") -> "_Part":
        offsets = batch.base_offset, batch.last_offset + 1
        return cls(start, end, *offsets, (batch.epoch, batch.epoch), data)

    def take(self, batch: Batch, *, dense: bool) -> bool:
        """Add the next batch. Returns False and adds nothing if bytes lie between the part and the
        batch, or if offsets are missing between them although the segment is `dense`.
        """
        if batch.position != self.end or (dense and batch.base_offset != self.following):
            return False
        self.end += batch.size
        self.following = batch.last_offset + 1
        self.epochs = self.epochs[0], batch.epoch
        return True


@dataclass(slots=True)
class SoundSegment:
    """The kept parts of one segment."""

    path: str
    base: int
    dense: bool
    """Whether offsets must be consecutive: not if the segment was, or may have been, compacted."""
    size: int = 0
    parts: list[_Part] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether all bytes of the file are kept, and none are added."""
        at = 0
        for part in self.parts:
            if part.data or part.start != at:
                return False
            at = part.end
        return at == self.size

    @property
    def following(self) -> int:
        """The offset after the last kept batch."""
        return self.parts[-1].following if self.parts else self.base

    def take(self, batch: Batch) -> None:
        if not self.parts or not self.parts[-1].take(batch, dense=self.dense):
            start = batch.position
            self.parts.append(_Part.of(batch, start, start + batch.size))

    def insert(self, part: _Part) -> None:
        """Add a part with data, where its offsets belong."""
        insort(self.parts, part, key=lambda each: each.first)

    def gaps(self, going_on: int | None) -> Iterator[Loss]:
        """Yield the gaps in bytes or offsets before, between and after the parts.

        If only offsets are missing, `start` equals `stop`. `going_on`: the base offset of the next
        segment; None: this is the end of the log.
        """
        end, due, told = 0, self.base, 0
        for part, start in zip(self.parts, self._starts(), strict=True):
            in_file = part.end > part.start
            lacks = part.first > due and (self.dense or start > end)
            if lacks or (in_file and start > max(end, told)):
                yield self._gap(due, part.first, end, start)
                told = start
            if in_file:
                end = part.end
            due = part.following
        if self.size > max(end, told):
            yield self._gap(due, going_on, end, self.size)

    def _gap(self, first: int, following: int | None, start: int, end: int) -> Loss:
        offsets = ""
        if following is not None and following > first:
            offsets = f"offsets {first} to {following - 1}"
        if start == end:
            what = f"{self.path}: {offsets} are missing at byte {start}"
        else:
            what = f"{self.path}: left out bytes {start} to {end - 1}"
            what += f", {offsets}" if offsets else ""
        return Loss(what, first, following, self.path, start, end)

    def _starts(self) -> list[int]:
        """Return, for each part, the start of the first part from it on that is in the file; the
        size of the file if none is.
        """
        starts: list[int] = []
        start = self.size
        for part in reversed(self.parts):
            if part.end > part.start:
                start = part.start
            starts.append(start)
        return starts[::-1]

    def write(self, files: Files) -> None:
        """Durably rewrite the segment, and remove its indexes. Raises OSError."""
        with (
            opened(files, self.path) as source,
            opened(files, f"{self.path}.sound", create=True) as target,
        ):
            written = 0
            for part in self.parts:
                if part.data:
                    files.write(target, part.data, written)
                else:
                    files.copy(source, part.start, part.end - part.start, target, written)
                written += len(part.data) or part.end - part.start
            files.truncate(target, written)
            files.sync(target)
        for suffix in INDEX_SUFFIXES:
            files.remove(self.path.removesuffix(LOG_SUFFIX) + suffix)
        files.rename(f"{self.path}.sound", self.path)
        files.sync_folder(parent_of(self.path))


def scan(
    files: Files, folder: str, bases: Sequence[int], dense: Collection[int]
) -> list[SoundSegment]:
    """Find what can be kept of the segments with these base offsets. Raises OSError.

    `dense`: the base offsets of segments in which no offset may be missing.
    """
    segments = [SoundSegment(segment_path(folder, base), base, base in dense) for base in bases]
    for segment, batch in _in_order(_sound(files, segments)):
        segment.take(batch)
    return segments


def _sound(files: Files, segments: Sequence[SoundSegment]) -> Iterator[tuple[SoundSegment, Batch]]:
    """Yield all batches that may belong to their segment and have a sound checksum."""
    for segment, later in pairwise([*segments, None]):
        assert segment is not None
        end = later.base if later is not None else None
        with opened(files, segment.path) as handle:
            segment.size = files.size(handle)
            for batch in _sound_in(Window(files, handle, segment.size), segment.base):
                if end is None or batch.last_offset < end:
                    yield segment, batch


def _sound_in(window: Window, base: int) -> Iterator[Batch]:
    """Yield all batches with a sound checksum, which covers neither offset nor epoch."""
    position, lowest = 0, base
    while position < window.size:
        before = position
        for batch in valid_batches(window, position, base):
            yield batch
            position, lowest = batch.position + batch.size, batch.last_offset + 1
        if position == before:
            position = next_candidate(window, position, lowest)


def _in_order(
    batches: Iterator[tuple[SoundSegment, Batch]],
) -> Iterator[tuple[SoundSegment, Batch]]:
    """Yield the batches whose offsets and epochs ascend.

    Of two neighbours that do not ascend, one is left out: the first if the second follows the batch
    before both, or else the second.
    """
    before: Batch | None = None
    held: tuple[SoundSegment, Batch] | None = None
    for each in batches:
        batch = each[1]
        if held is None or _follows(batch, held[1]):
            if held is not None:
                yield held
                before = held[1]
            held = each
        elif before is None or _follows(batch, before):
            held = each
    if held is not None:
        yield held


def _follows(batch: Batch, other: Batch) -> bool:
    return batch.base_offset > other.last_offset and batch.epoch >= other.epoch


def mend(files: Files, segments: Sequence[SoundSegment]) -> list[str]:
    """Mend batches that are damaged only in fields that no checksum covers: offset, length, epoch.

    The gap determines these fields if the checksum is right for all of its bytes, and the batch has
    as many offsets as are missing. Returns a message for each batch. Raises OSError.
    """
    lines: list[str] = []
    for segment, later in pairwise([*segments, None]):
        assert segment is not None
        for gap in list(segment.gaps(later.base if later is not None else None)):
            if not HEADER_SIZE <= gap.stop - gap.start <= MENDED_BYTES:
                continue
            batch = _mended(files, gap, *_epochs_around(segments, gap.first))
            if batch is not None:
                segment.insert(batch)
                lines.append(
                    f"{segment.path}: mended the header of the batch at byte {gap.start}, offsets "
                    f"{batch.first} to {batch.following - 1}"
                )
    return lines


def _epochs_around(segments: Sequence[SoundSegment], offset: int) -> tuple[int, int]:
    """Return the epochs of the last batch before an offset, and of the first one from it on.

    If only one of these batches exists, both epochs are from it.
    """
    parts = [part for segment in segments for part in segment.parts]
    at = bisect_left(parts, offset, key=lambda part: part.first)
    epochs = [part.epochs[1] for part in parts[:at][-1:]]
    epochs += [part.epochs[0] for part in parts[at : at + 1]]
    return (epochs[0], epochs[-1]) if epochs else (0, MAX_EPOCH)


def _mended(files: Files, gap: Loss, lowest: int, highest: int) -> _Part | None:
    """Return the bytes in a gap as the batch expected there; None if they are not that batch."""
    with opened(files, gap.path) as handle:
        data = files.read(handle, gap.stop - gap.start, gap.start)
    epoch = int.from_bytes(data[12:16], "big")
    if not lowest <= epoch <= highest:
        epoch = lowest
    length = (len(data) - LENGTH_OVERHEAD).to_bytes(4, "big")
    data = patch(b"".join((data[:8], length, data[12:16], _MAGIC, data[17:])), gap.first, epoch)
    if crc32c(data[CRC_START:]) != int.from_bytes(data[17:21], "big"):
        return None
    [batch] = locate_batches(data, gap.first)
    if gap.end not in (None, batch.last_offset + 1):
        return None
    return _Part.of(batch, gap.start, gap.stop, data)


def fill(segments: Sequence[SoundSegment], cover: JournalCover) -> list[str]:
    """Fill gaps with the batches of a journal; return a message for each gap.

    The end of the log, and offsets removed by compaction, are not gaps.
    """
    lines: list[str] = []
    damaged = {gap.first for each in segments for gap in each.gaps(None) if gap.start < gap.stop}
    parts = [(segment, part) for segment in segments for part in segment.parts]
    for (segment, one), (_, other) in pairwise(parts):
        if one.following == other.first or not (segment.dense or one.following in damaged):
            continue
        found: list[_Part] = []
        for data in cover.within(one.following, other.first):
            [batch] = locate_batches(data, int.from_bytes(data[:8], "big"))
            part = _Part.of(batch, 0, 0, data)
            if (found or [one])[-1].epochs[1] <= part.epochs[0] <= other.epochs[0]:
                found.append(part)
        for part in found:
            [segment for segment in segments if segment.base <= part.first][-1].insert(part)
        if found:
            lines.append(
                f"{segment.path}: offsets {found[0].first} to {found[-1].following - 1} are taken "
                "from the journal"
            )
    return lines
