"""The records of a partition's log by offsets: which bytes of which files hold them now.

Offsets never change, and files do: segments roll, compaction replaces them, the archive keeps them
as they were, retention deletes them. So offsets are looked for when they are read: in the archive
first, then in the segments, and where neither has them in a compacted segment that is not in its
place yet.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from groupkeeper.analytics.errors import AnalyticsError
from groupkeeper.analytics.reading.coverage import kind_of_gap
from groupkeeper.analytics.reading.open_segment import Known, OpenSegment
from groupkeeper.analytics.reading.partition_log import (
    PartitionLog,
    Segments,
    list_segments,
)
from groupkeeper.analytics.reading.problems import Problem
from groupkeeper.analytics.reading.segments import SegmentFile

_ATTEMPTS: Final = 10
"""How often files are looked for that are replaced again and again."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Offsets [first, until) and the bytes [start, end) of an open segment that hold them.

    Without a segment, no file holds them; `gap` says why.
    """

    first: int
    until: int
    segment: OpenSegment | None = None
    start: int = 0
    end: int = 0
    lowest: int = 0
    """Where the first batch begins if that is before `first`."""
    gap: Problem = Problem.NONE

    @property
    def size(self) -> int:
        return self.end - self.start


class _Changed(Exception):
    """A file is not the one that was listed."""


def pieces(
    log: PartitionLog, first: int, until: int, limit: int, known: Known | None = None
) -> Iterator[Piece]:
    """Pieces that together have the offsets [first, until), in order, of about `limit` bytes at
    most.

    Both are offsets where a batch begins, or the end of the log. A piece's segment is open until
    the next piece is asked for. Raises AnalyticsError.
    """
    finder = _Finder(log, known)
    while first < until:
        piece = finder.piece(first, until, limit)
        try:
            yield piece
        finally:
            if piece.segment is not None:
                piece.segment.close()
        first = piece.until


class _Finder:
    def __init__(self, log: PartitionLog, known: Known | None) -> None:
        self._log = log
        self._known = known
        self._listing = list_segments(log)

    def piece(self, first: int, until: int, limit: int) -> Piece:
        is_sure = False
        for _ in range(_ATTEMPTS):
            try:
                found = self._look(first, until, limit)
            except _Changed:
                pass
            else:
                if found is not None:
                    return found
                if is_sure:
                    return self._gap(first, until)
                is_sure = True
            self._listing = list_segments(self._log)
        raise AnalyticsError(f"the files of {self._log.place} change faster than they are read")

    def _look(self, first: int, until: int, limit: int) -> Piece | None:
        """The best piece that begins with `first`. None if there is a gap. Raises _Changed."""
        best: Piece | None = None
        stop = until
        for segments, folder, ending in self._sources():
            # What comes later in a better source, or in a later segment, is read from there.
            stop = min(stop, _base_behind(segments, first, until))
            segment = self._open(segments, folder, ending, first)
            if segment is None:
                continue
            piece = self._piece_in(segment, first, stop, limit)
            if piece is None or (best is not None and best.lowest <= piece.lowest):
                segment.close()
                continue
            if best is not None and best.segment is not None:
                best.segment.close()
            best = piece
            if best.lowest <= first:
                break
        return best

    def _sources(self) -> Iterator[tuple[Segments, Path | None, str]]:
        """The best one first, with folder and the end of the names of its files."""
        log, listing = self._log, self._listing
        yield listing.archived, log.archive, ".log"
        yield listing.live, log.folder, ".log"
        yield listing.swapped, log.folder, ".log.swap"

    def _open(
        self, segments: Segments, folder: Path | None, ending: str, offset: int
    ) -> OpenSegment | None:
        """The segment that may have an offset. Raises _Changed."""
        base = base_before(segments, offset)
        if base is None or folder is None or not segments[base].size:
            return None
        path = folder / f"{base:020d}{ending}"
        try:
            segment = OpenSegment(path, base, self._known)
        except FileNotFoundError as error:
            raise _Changed from error
        except OSError as error:
            raise AnalyticsError(f"cannot read {path}: {error.strerror}") from error
        if segment.inode != segments[base].inode:
            segment.close()
            raise _Changed
        return segment

    def _piece_in(self, segment: OpenSegment, first: int, stop: int, limit: int) -> Piece | None:
        """What a segment has of the offsets [first, stop); None if it has none of them.

        Bytes behind the last batch are damage and stand for the rest of the offsets, but at the end
        of the log, where they are unfinished.
        """
        start, _, after = segment.locate(first)
        if after is None:
            live = self._listing.live
            is_last = not live or segment.base == max(live)
            if is_last or start == segment.size:
                return None
            return Piece(first, stop, segment, start, segment.size, lowest=stop)
        if after.base >= stop:
            return None
        end, before, behind = segment.locate(stop)
        if behind is None and before is not None and before.until > first:
            stop = min(stop, before.until)
        if end - start > limit * 3 // 2:
            base = segment.boundary(start, start + limit)
            if base is not None and first < base < stop:
                end, stop = segment.locate(base).position, base
        return Piece(first, stop, segment, start, end, after.base)

    def _gap(self, first: int, until: int) -> Piece:
        listing = self._listing
        sources = (listing.archived, listing.live, listing.swapped)
        stop = min(_base_behind(each, first, until) for each in sources)
        around = listing.live or listing.archived
        base = base_before(around, first)
        if base is None:
            return Piece(first, stop, gap=Problem.DELETED)
        folder = (self._log.folder if listing.live else self._log.archive) or self._log.place
        near = [
            SegmentFile(folder / f"{each:020d}.log", self._log.partition, each, found.size)
            for each, found in around.items()
            if each >= base
        ]
        is_compacted = len(near) > 1 and kind_of_gap(near) == Problem.COMPACTED
        gap = Problem.COMPACTED_AWAY if is_compacted else Problem.MISSING
        return Piece(first, stop, gap=gap)


def base_before(segments: Segments, offset: int) -> int | None:
    """The base of the segment that may have an offset."""
    bases = [*segments]
    number = bisect_right(bases, offset)
    return bases[number - 1] if number else None


def _base_behind(segments: Segments, offset: int, until: int) -> int:
    """The base of the next segment, if that is before `until`; else `until`."""
    bases = [*segments]
    number = bisect_right(bases, offset)
    return min(bases[number], until) if number < len(bases) else until
