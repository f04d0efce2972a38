"""Follows all logs of a topic: from one progress to the next, and the offsets to read in between.

Progress is a `Bookmark` per log name. A new log is read from offset 0. The fate of a log that
cannot be continued is reported once, in a step of the progress that reads nothing of it.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from groupkeeper.analytics.errors import AnalyticsError
from groupkeeper.analytics.reading.partition_log import (
    NO_END,
    NO_HINT,
    Hint,
    Listing,
    OpenSegment,
    PartitionFolders,
    file_with,
    looked_at,
)
from groupkeeper.analytics.reading.problems import Problem
from groupkeeper.analytics.reading.segments import topic_of
from groupkeeper.analytics.reading.stretch import Stretch, loss, pieces
from groupkeeper.analytics.reading.walk import Header

UNKNOWN: Final = -1
EARLIEST: Final = "earliest"
LATEST: Final = "latest"
_HORIZON: Final = 0x40

T = TypeVar("T")


class Bookmark(NamedTuple):
    """The progress in a log: an offset where a batch begins, or the end of the log, with the leader
    epoch and the CRC of the batch before it.
    """

    offset: int
    epoch: int = UNKNOWN
    crc: int = UNKNOWN
    is_gone: bool = False
    """The log was not found any more."""
    hint: Hint = NO_HINT
    """Place of that batch, where the search starts, so that a look costs only what is new."""


Bookmarks = Mapping[str, Bookmark]
_BEGINNING: Final = Bookmark(0)


class Follower:
    """Progress and stretches of one topic. All methods raise AnalyticsError: for unreadable files,
    and for lost records if `fail_on_loss`.
    """

    def __init__(
        self, topic: str, find: Callable[[], Mapping[str, PartitionFolders]], *, fail_on_loss: bool
    ) -> None:
        """`find` returns the topic's logs; it is called for every look."""
        self._topic = topic
        self._find = find
        self._fail_on_loss = fail_on_loss

    def beginning(self, starting: str) -> Bookmarks:
        """Return the initial progress of the existing logs: their first offsets (EARLIEST) or their
        ends (LATEST).
        """
        logs = self._find()
        first = {name: _first(log) for name, log in logs.items()}
        return first if starting == EARLIEST else {**first, **_ends(logs, {})}

    def ends(self) -> Bookmarks:
        """Return the current ends of all logs."""
        return _ends(self._find(), {})

    def next(
        self, start: Bookmarks, max_bytes: int | None = None, targets: Bookmarks | None = None
    ) -> Bookmarks:
        """The next progress: about `max_bytes` after `start` if given, not beyond `targets`."""
        for name in start:
            if topic_of(Path(name)) != self._topic:
                raise AnalyticsError(f"the checkpoint belongs to another source: it names {name}")
        logs = self._find()
        now = _ends(logs, start)
        wanted = now if targets is None else targets
        found: dict[str, Bookmark] = {}
        pending: dict[str, int] = {}
        for name in {**start, **wanted}:
            mark = start.get(name, _BEGINNING)
            found[name] = self._checked(name, logs.get(name), mark, now.get(name))
            is_new = name in wanted and wanted[name].offset > mark.offset
            if is_new and found[name] == mark:
                pending[name] = _pending(logs[name], mark) if max_bytes else 0
        total = sum(pending.values())
        for name, size in pending.items():
            found[name] = wanted[name]
            if max_bytes and total > max_bytes:
                mark = start.get(name, _BEGINNING)
                share = max(1, max_bytes * size // total)
                found[name] = _after(logs[name], mark, wanted[name], share)
        return found

    def stretches(self, start: Bookmarks, end: Bookmarks, limit: int) -> Iterator[Stretch]:
        """Yield stretches of about `limit` bytes to read or report between two progresses."""
        logs = self._find()
        for name, mark in end.items():
            before, log = (
                start.get(name, _BEGINNING),
                logs.get(name, PartitionFolders(Path(name), None)),
            )
            if before.offset >= mark.offset:
                if problem := _told_by(before, mark):
                    yield Stretch(log, mark.offset, before.offset, problem=problem)
            elif name not in logs:
                yield Stretch(log, before.offset, mark.offset, problem=Problem.DELETED)
            else:
                yield from _stretches(log, before, mark.offset, limit)

    def _checked(
        self, name: str, log: PartitionFolders | None, mark: Bookmark, end: Bookmark | None
    ) -> Bookmark:
        """Return the mark, or a step from it if the log does not continue there."""
        if log is None or end is None:
            step, problem = mark._replace(is_gone=True), Problem.VANISHED
        elif mark.is_gone:
            return mark._replace(is_gone=False)
        elif end.offset < mark.offset:
            step, problem = end, Problem.CUT
        elif end.offset > mark.offset and _is_rewritten(log, mark):
            floor = _floor(log, mark.offset)
            step = floor if floor.offset == mark.offset else Bookmark(mark.offset)
            problem = Problem.REWRITTEN
        else:
            return mark
        if step != mark and self._fail_on_loss:
            log = log or PartitionFolders(Path(name), None)
            raise AnalyticsError(loss(log, problem, step.offset, mark.offset))
        return step


def _told_by(before: Bookmark, mark: Bookmark) -> Problem:
    """Return the problem that a step without reading reports."""
    if mark.is_gone and not before.is_gone:
        return Problem.VANISHED
    if mark.offset < before.offset:
        return Problem.CUT
    is_other = before.crc not in (UNKNOWN, mark.crc)
    return Problem.REWRITTEN if is_other else Problem.NONE


# -- one log -------------------------------------------------------------------------------------


def _first(log: PartitionFolders) -> Bookmark:
    bases = looked_at(log, lambda listing: [each.base for each in (*listing[0], *listing[1])])
    return Bookmark(min(bases, default=0))


def _ends(logs: Mapping[str, PartitionFolders], near: Bookmarks) -> Bookmarks:
    """The end of the last whole batch of each log that has files. `near`: earlier progress."""
    hints = {name: mark.hint for name, mark in near.items()}
    found = {}
    for name, log in logs.items():
        end = _in_segment(log, NO_END, hints.get(name, NO_HINT), _end_in)
        # The newest segment has no batch: the last batch is in an earlier one.
        found[name] = _floor(log, end) if isinstance(end, int) else end
    return {name: end for name, end in found.items() if end is not None}


def _end_in(segment: OpenSegment) -> Bookmark | int:
    """Return the end of the last batch; only an offset if the segment has no batch."""
    last = segment.last()
    return _mark(segment, last) if last else segment.base


def _is_rewritten(log: PartitionFolders, mark: Bookmark) -> bool:
    """Return whether the batch before a bookmark was replaced, if compaction left evidence."""

    def look(segment: OpenSegment) -> bool:
        _, before, after = segment.locate(mark.offset)
        if after is not None and after.base < mark.offset:
            return True
        if before is None or not segment.is_sound(before.position):
            return False
        header = segment.header(before)
        is_whole = before.records == before.until - before.base
        if before.until == mark.offset and is_whole and not header.attributes & _HORIZON:
            return header.crc != mark.crc
        # Compaction has changed or removed it. Epochs never fall.
        later = segment.header(after).leader_epoch if after is not None else mark.epoch
        return not header.leader_epoch <= mark.epoch <= later

    return mark.crc != UNKNOWN and bool(_in_segment(log, mark.offset, mark.hint, look))


def _floor(log: PartitionFolders, offset: int, hint: Hint = NO_HINT) -> Bookmark:
    """Return a bookmark at the offset, or at the start of the batch that contains it."""

    def look(segment: OpenSegment) -> Bookmark:
        _, before, after = segment.locate(offset)
        begin = min(offset, after.base) if after is not None else offset
        is_next = before is not None and before.until == begin
        return _mark(segment, before) if before and is_next else Bookmark(begin)

    return _in_segment(log, offset, hint, look) or Bookmark(offset)


def _pending(log: PartitionFolders, mark: Bookmark) -> int:
    """Return roughly how many bytes follow a mark."""
    listing = looked_at(log, lambda listing: listing)
    sizes = {each.base: each.size for each in (*listing.live, *listing.archived)}
    later = sum(size for base, size in sizes.items() if base >= mark.offset)
    left = _in_segment(
        log, mark.offset, mark.hint, lambda each: each.size - each.locate(mark.offset).position
    )
    return later + (left or 0)


def _after(log: PartitionFolders, mark: Bookmark, end: Bookmark, size: int) -> Bookmark:
    """Advance a bookmark by about `size` bytes and one batch at least, but not beyond `end`."""
    while mark.offset < end.offset and size > 0:
        # Pieces may exceed the limit by half.
        limit = max(1, size * 2 // 3)
        with closing(pieces(log, mark.offset, end.offset, limit, mark.hint)) as found:
            piece = next(found)
        size -= max(piece.size, 1)
        mark = _floor(log, piece.until, mark.hint)
    return end if mark.offset == end.offset else mark


def _stretches(log: PartitionFolders, start: Bookmark, until: int, limit: int) -> Iterator[Stretch]:
    """Cut the offsets from a bookmark on into stretches."""
    begin, hint, size = start.offset, start.hint, 0
    for piece in pieces(log, begin, until, limit, hint):
        if size and size + piece.size > limit:
            yield Stretch(log, begin, piece.first, size, hint=hint)
            begin, size = piece.first, 0
            hint = Hint(piece.segment.inode, piece.start) if piece.segment else NO_HINT
        size += piece.size
    if begin < until:
        yield Stretch(log, begin, until, size, hint=hint)


def _in_segment(
    log: PartitionFolders, offset: int, hint: Hint, look: Callable[[OpenSegment], T]
) -> T | None:
    """Apply `look` to the segment with the last batch before an offset; None if there is none."""

    def see(listing: Listing) -> T | None:
        file = file_with(listing.live or listing.archived, offset - 1)
        if file is None:
            return None
        with closing(OpenSegment(file, hint)) as segment:
            return look(segment)

    return looked_at(log, see)


def _mark(segment: OpenSegment, before: Header) -> Bookmark:
    """Return the bookmark after a batch."""
    header = segment.header(before)
    hint = Hint(segment.inode, before.position)
    return Bookmark(before.until, header.leader_epoch, header.crc, hint=hint)
