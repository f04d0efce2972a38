"""
Where the last segment of a log ends, as far as it is sound, and whether the rest may go.

Looks at batches only; what is done about it is decided in log.py.
"""

from collections.abc import Iterator
from typing import Protocol

from storage.epochs import EpochFile
from storage.errors import Corrupt
from storage.reading import check_epoch
from storage.scan import batches_after, valid_batches
from storage.segment import Segment


class Cover(Protocol):
    """What a journal holds for a log: finished batches in offset order."""

    def reaches(self, first: int, end: int) -> bool:
        """Whether there is anything from offset `first` up to `end`, and all of it is held."""
        ...

    def batches_from(self, offset: int) -> Iterator[bytes]:
        """The batches whose last offset is `offset` or later."""
        ...


def sound_end(active: Segment, epochs: EpochFile, end: int, cover: Cover | None) -> tuple[int, int]:
    """
    How many bytes of the segment are sound, and the next offset; what is sound comes into its
    indexes and the epochs. From offset `end` on nothing counts. Raises Corrupt if sound batches
    follow a bad one and `cover` lacks what lies between.
    """
    valid, epoch, next_offset = 0, -1, active.base_offset
    for batch in valid_batches(active.window(), 0, active.base_offset):
        if batch.base_offset >= end:
            break
        check_epoch(active.path, batch, epoch)
        epoch = batch.epoch
        active.note(batch)
        epochs.note(epoch, batch.base_offset)
        valid = batch.position + batch.size
        next_offset = batch.last_offset + 1
    if valid < active.size:
        count, sound = batches_after(active.window(), valid, next_offset)
        repairable = cover is not None and cover.reaches(next_offset, sound)
        if count and not repairable and next_offset < end:
            raise Corrupt(
                f"{active.path}: the batch at byte {valid} is damaged, {count} sound ones follow: "
                f"restore the file, or lose them with: truncate -s {valid} {active.path}"
            )
    return valid, next_offset
