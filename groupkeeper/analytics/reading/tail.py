"""Follows the log of a partition while it grows: where it ends, how far to read next, and whether
it is still the log that was read.

A `Bookmark` is the progress in a log. It names no file: pieces.py looks for the files that hold the
records at the moment.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Final, NamedTuple, TypeVar

from groupkeeper.analytics.errors import AnalyticsError
from groupkeeper.analytics.reading.open_segment import Known, OpenSegment
from groupkeeper.analytics.reading.partition_log import PartitionLog, list_segments
from groupkeeper.analytics.reading.pieces import Piece, base_before, pieces
from groupkeeper.analytics.reading.stretch import Stretch
from groupkeeper.analytics.reading.walk import Header

UNKNOWN: Final = -1
_REMEMBERED: Final = 4
"""So many places of a log are found without its index: the last ones."""
_ATTEMPTS: Final = 10
_HORIZON: Final = 0x40
_NO_END: Final = 2**63 - 1

T = TypeVar("T")


class Bookmark(NamedTuple):
    """An offset where a batch begins, or the end of the log, and the leader epoch and the CRC of
    the batch before it.
    """

    offset: int
    epoch: int = UNKNOWN
    crc: int = UNKNOWN
    is_gone: bool = False
    """The log could not be found any more."""


class Tail:
    """Looks at one log again and again. A look costs what is new since the last one.

    All methods raise AnalyticsError if files cannot be read.
    """

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self._known: dict[int, Known] = {}
        """The batches that end at some offsets."""
        self._end = Bookmark(UNKNOWN)
        self._seen: tuple[int, int] = (0, 0)
        """Inode and size of the last segment, of which this is the end."""

    def start(self) -> Bookmark:
        """The first offset that is there."""
        bases = list_segments(self.log).bases
        return Bookmark(bases[0] if bases else 0)

    def end(self) -> Bookmark | None:
        """Behind the last whole batch. None if the log has no files."""
        return self._at(_NO_END, self._end_in)

    def is_rewritten(self, mark: Bookmark) -> bool:
        """Whether the batch before a bookmark is not the one that was there. As far as compaction
        leaves a way to know.
        """
        return bool(self._at(mark.offset, lambda segment: _is_rewritten(segment, mark)))

    def floor(self, offset: int) -> Bookmark:
        """An offset, or where the batch begins that it is in."""

        def look(segment: OpenSegment) -> Bookmark:
            _, before, after = segment.locate(offset)
            begin = min(offset, after.base) if after is not None else offset
            is_next = before is not None and before.until == begin
            return self._mark(segment, before) if before and is_next else Bookmark(begin)

        return self._at(offset, look) or Bookmark(offset)

    def pending(self, mark: Bookmark) -> int:
        """About how many bytes follow a mark."""
        listing = list_segments(self.log)
        segments = {**listing.live, **listing.archived}
        later = sum(found.size for base, found in segments.items() if base >= mark.offset)
        left = self._at(mark.offset, lambda each: each.size - each.locate(mark.offset).position)
        return later + (left or 0)

    def after(self, mark: Bookmark, end: Bookmark, size: int) -> Bookmark:
        """About `size` bytes behind a bookmark, and one batch at least, but not behind `end`."""
        while mark.offset < end.offset and size > 0:
            # Pieces may be half as large again.
            piece = next(self._pieces(mark.offset, end.offset, max(1, size * 2 // 3)))
            size -= max(piece.size, 1)
            mark = self.floor(piece.until)
        return end if mark.offset == end.offset else mark

    def stretches(self, first: int, until: int, limit: int) -> Iterator[Stretch]:
        """Cut the offsets [first, until) into stretches of about `limit` bytes at most."""
        begin, size = first, 0
        for piece in self._pieces(first, until, limit):
            if size and size + piece.size > limit:
                yield self._stretch(begin, piece.first, size)
                begin, size = piece.first, 0
            size += piece.size
        if begin < until:
            yield self._stretch(begin, until, size)

    def _stretch(self, first: int, until: int, size: int) -> Stretch:
        return Stretch(self.log, first, until, size, known=self._nearest(first))

    def _pieces(self, first: int, until: int, limit: int) -> Iterator[Piece]:
        return pieces(self.log, first, until, limit, self._nearest(first))

    def _at(self, offset: int, look: Callable[[OpenSegment], T]) -> T | None:
        """What `look` says about the segment with the last batch before an offset; None if there is
        none.
        """
        for _ in range(_ATTEMPTS):
            listing = list_segments(self.log)
            segments = listing.live or listing.archived
            base = base_before(segments, offset - 1)
            if base is None:
                return None
            folder = self.log.folder if listing.live else self.log.archive
            assert folder is not None, "it was listed"
            path = folder / f"{base:020d}.log"
            try:
                with closing(OpenSegment(path, base, self._nearest(offset))) as segment:
                    return look(segment)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise AnalyticsError(f"cannot read {path}: {error.strerror}") from error
        raise AnalyticsError(f"the files of {self.log.place} change faster than they are read")

    def _end_in(self, segment: OpenSegment) -> Bookmark:
        seen = segment.inode, segment.size
        if seen != self._seen:
            last = segment.last()
            # Before a segment without a batch, the last one is in another segment.
            self._end = self._mark(segment, last) if last else self.floor(segment.base)
            self._seen = seen
        return self._end

    def _mark(self, segment: OpenSegment, before: Header) -> Bookmark:
        """The bookmark behind a batch."""
        header = segment.header(before)
        self._known.pop(before.until, None)
        self._known[before.until] = Known(segment.inode, before.position, before.base)
        while len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]
        return Bookmark(before.until, header.leader_epoch, header.crc)

    def _nearest(self, offset: int) -> Known | None:
        ends = [end for end in self._known if end <= offset]
        return self._known[max(ends)] if ends else None


def _is_rewritten(segment: OpenSegment, mark: Bookmark) -> bool:
    _, before, after = segment.locate(mark.offset)
    if mark.crc == UNKNOWN:
        return False
    if after is not None and after.base < mark.offset:
        return True
    if before is None or not segment.is_sound(before):
        return False
    header = segment.header(before)
    is_whole = before.records == before.until - before.base and not header.attributes & _HORIZON
    if before.until == mark.offset and is_whole:
        return header.crc != mark.crc
    # Compaction has changed or removed it. Epochs never fall.
    later = segment.header(after).leader_epoch if after is not None else mark.epoch
    return not header.leader_epoch <= mark.epoch <= later
