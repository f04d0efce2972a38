"""Reads the rows of a range of offsets of a log, and reports offsets without rows.

Offsets never change, but files do: segments roll, compaction replaces them, the archive keeps the
originals, retention deletes them. So files are looked up by offset when they are read: first in the
archive, then in the segments, then in compacted segments that are not renamed yet.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from groupkeeper.analytics.errors import AnalyticsError
from groupkeeper.analytics.reading import parse
from groupkeeper.analytics.reading.columns import SCHEMA, text_rows
from groupkeeper.analytics.reading.partition_log import (
    NO_HINT,
    Hint,
    Listing,
    OpenSegment,
    PartitionFolders,
    base_behind,
    file_with,
    looked_at,
)
from groupkeeper.analytics.reading.plan import LARGEST_CHUNK, Split
from groupkeeper.analytics.reading.problems import Problem, is_damage
from groupkeeper.analytics.reading.segments import SegmentFile, kind_of_gap

_LOSSES: Final = frozenset({Problem.DELETED, Problem.MISSING})


@dataclass(frozen=True, slots=True)
class Stretch:
    """Offsets [first, until) of a log, about `size` bytes. With `problem`, they are not read but
    reported. `hint`: a batch before `first`.
    """

    log: PartitionFolders
    first: int
    until: int
    size: int = 0
    problem: Problem = Problem.NONE
    hint: Hint = NO_HINT


@dataclass(frozen=True, slots=True)
class _Piece:
    """Offsets [first, until) and the bytes [start, end) of an open segment that hold them. Without
    a segment, no file holds them, and `gap` is the reason.
    """

    first: int
    until: int
    segment: OpenSegment | None = None
    start: int = 0
    end: int = 0
    lowest: int = 0
    """Base offset of the first batch if it is below `first`."""
    gap: Problem = Problem.NONE

    @property
    def size(self) -> int:
        return self.end - self.start


def pieces(
    log: PartitionFolders, first: int, until: int, limit: int, hint: Hint = NO_HINT
) -> Generator[_Piece, None, None]:
    """Yield pieces that together cover the offsets [first, until), in order, each of about `limit`
    bytes at most.

    Both are offsets where a batch begins, or the end of the log. A piece's segment stays open until
    the next piece is requested. Raises AnalyticsError.
    """
    listing = looked_at(log, lambda listing: listing)
    while first < until:
        look = partial(_look, first=first, until=until, limit=limit, hint=hint)
        piece = looked_at(log, look, listing)
        if piece is None:
            # Look again: a file that is renamed while its folder is listed may be missed.
            listing = looked_at(log, lambda listing: listing)
            piece = looked_at(log, look, listing)
        if piece is None:
            piece = looked_at(log, partial(_gap, log=log, first=first, until=until), listing)
        try:
            yield piece
        finally:
            if piece.segment is not None:
                hint = Hint(piece.segment.inode, piece.start)
                piece.segment.close()
        first = piece.until


def _look(listing: Listing, first: int, until: int, limit: int, hint: Hint) -> _Piece | None:
    """Return the best piece that begins at `first`; None if there is a gap."""
    best: _Piece | None = None
    stop = until
    for files in listing:
        # Later offsets of a better source, or of the next segment, are read from there.
        stop = min(stop, base_behind(files, first, until))
        file = file_with(files, first)
        if file is None or not file.size:
            continue
        segment = OpenSegment(file, hint)
        live = listing.live
        is_last = not live or segment.base == live[-1].base
        piece = _piece_in(segment, first, stop, limit, is_last=is_last)
        if piece is None or (best is not None and best.lowest <= piece.lowest):
            segment.close()
            continue
        if best is not None and best.segment is not None:
            best.segment.close()
        best = piece
        if best.lowest <= first:
            break
    return best


def _piece_in(
    segment: OpenSegment, first: int, stop: int, limit: int, *, is_last: bool
) -> _Piece | None:
    """Return the piece of a segment in [first, stop); None if it has none of these offsets.

    Bytes after the last batch are damage and stand for the remaining offsets, except at the end of
    the log (`is_last`), where they are an unfinished batch.
    """
    start, _, after = segment.locate(first)
    if after is None:
        if is_last or start == segment.size:
            return None
        return _Piece(first, stop, segment, start, segment.size, lowest=stop)
    if after.base >= stop:
        return None
    end, before, behind = segment.locate(stop)
    if behind is None and before is not None and before.until > first:
        stop = min(stop, before.until)
    if end - start > limit * 3 // 2:
        base = segment.boundary(start, start + limit)
        if base is not None and first < base < stop:
            end, stop = segment.locate(base).position, base
    return _Piece(first, stop, segment, start, end, after.base)


def _gap(listing: Listing, log: PartitionFolders, first: int, until: int) -> _Piece:
    stop = min(base_behind(files, first, until) for files in listing)
    around = listing.live or listing.archived
    file = file_with(around, first)
    if file is None:
        return _Piece(first, stop, gap=Problem.DELETED)
    near = [
        SegmentFile(each.path, log.partition, each.base, each.size)
        for each in around[around.index(file) :]
    ]
    is_compacted = len(near) > 1 and kind_of_gap(near) == Problem.COMPACTED
    return _Piece(first, stop, gap=Problem.COMPACTED_AWAY if is_compacted else Problem.MISSING)


def read_stretch(
    stretch: Stretch, names: Sequence[str] = SCHEMA.names, *, fail_on_loss: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all batches, and rows with `problem` that count offsets without a row.

    With `fail_on_loss`, raises AnalyticsError if offsets are missing for a reason other than
    compaction. Damage inside a segment becomes rows, as in `parse`.
    """
    log = stretch.log
    if stretch.problem:
        yield _told(log, stretch.problem, stretch.first, stretch.until).select(names)
        return
    for piece in pieces(log, stretch.first, stretch.until, LARGEST_CHUNK, stretch.hint):
        if piece.gap:
            if fail_on_loss and piece.gap in _LOSSES:
                raise AnalyticsError(loss(log, piece.gap, piece.first, piece.until))
            yield _told(log, piece.gap, piece.first, piece.until).select(names)
        else:
            yield from _rows(log, piece, names)


def loss(log: PartitionFolders, problem: Problem, first: int, until: int) -> str:
    """Return the message of a stream that stops at a loss, with its remedy."""
    return (
        f"{log.name}: {_text(problem, first, until)} in {log.place.parent}; to continue without "
        "them, set failOnDataLoss to false"
    )


def _rows(log: PartitionFolders, piece: _Piece, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    segment, first = piece.segment, min(piece.first, piece.lowest)
    assert segment is not None, "not a gap"
    split = Split(
        str(segment.path),
        log.partition,
        piece.start,
        piece.end,
        last=False,
        first=first,
        until=piece.until,
        only=(first, piece.until),
        topic=log.topic,
    )
    given, is_damaged = 0, False
    wanted = list(dict.fromkeys((*names, "offset", "problem")))
    for batch in parse(segment.read(piece.start, piece.end), split, wanted):
        offsets, problems = batch.column("offset"), batch.column("problem")
        given += len(offsets) - offsets.null_count
        is_damaged |= any(map(is_damage, pc.unique(problems.drop_null()).to_pylist()))
        yield batch.select(names)
    missing = piece.until - first - given
    if missing:
        problem = Problem.WITHOUT_RECORD if is_damaged else Problem.COMPACTED_AWAY
        yield _told(log, problem, first, piece.until, missing).select(names)


def _told(
    log: PartitionFolders, problem: Problem, first: int, until: int, count: int = 0
) -> pa.RecordBatch:
    split = Split(str(log.place), log.partition, 0, 0, last=False, topic=log.topic)
    return text_rows(split, [(None, _text(problem, first, until, count), None)])


def _text(problem: Problem, first: int, until: int, count: int = 0) -> str:
    """Describe a problem; `count` is the number of affected offsets if it is not all."""
    match problem:
        case Problem.CUT:
            which = f"at {first}, and {until - 1} was read"
        case Problem.REWRITTEN | Problem.VANISHED:
            which = f"read up to {until - 1}"
        case _:
            which = f"{first} to {until - 1}"
            if 0 < count < until - first:
                which = f"{count} of {which}"
    return f"{problem.text}: {which}"
