"""Follows all logs of a topic: from one progress to the next, and what to read between them.

Progress is a `Bookmark` for each log, by the log's name. A log that appears is read from offset 0
on. What became of a log that cannot be read on is told once: the progress makes a step for it in
which nothing of that log is read.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, Literal

from groupkeeper.analytics.errors import AnalyticsError
from groupkeeper.analytics.reading.partition_log import PartitionLog
from groupkeeper.analytics.reading.problems import Problem
from groupkeeper.analytics.reading.segments import topic_of
from groupkeeper.analytics.reading.stretch import Stretch, loss
from groupkeeper.analytics.reading.tail import UNKNOWN, Bookmark, Tail

Progress = Mapping[str, Bookmark]
Starting = Literal["earliest", "latest"] | Mapping[int, int]
"""Offsets by partition, of which LATEST and EARLIEST are two numbers."""
LATEST: Final = -1
EARLIEST: Final = -2


class Follower:
    """All methods raise AnalyticsError: for files that cannot be read, and for lost records if
    `fail_on_loss`.
    """

    def __init__(
        self, topic: str, find: Callable[[], Mapping[str, PartitionLog]], *, fail_on_loss: bool
    ) -> None:
        """`find` is asked for the topic's logs at every look."""
        self._topic = topic
        self._find = find
        self._fail_on_loss = fail_on_loss
        self._tails: dict[str, Tail] = {}

    def beginning(self, starting: Starting) -> Progress:
        """Where to start in the logs that are there. Partitions that are not named start at their
        first offset; an offset inside of a batch starts at that batch.
        """
        tails = self._look()
        if isinstance(starting, str):
            offsets = dict.fromkeys(tails, LATEST if starting == "latest" else EARLIEST)
            return {name: _begin(tails[name], offset) for name, offset in offsets.items()}
        partitions = {tail.log.partition for tail in tails.values()}
        for partition in starting:
            if partition not in partitions:
                raise AnalyticsError(f"startingOffsets: there is no partition {partition}")
        return {
            name: _begin(tail, starting.get(tail.log.partition, EARLIEST))
            for name, tail in tails.items()
        }

    def ends(self) -> Progress:
        """Where all logs end now."""
        found = {name: tail.end() for name, tail in self._look().items()}
        return {name: end for name, end in found.items() if end is not None}

    def next(
        self, start: Progress, max_bytes: int | None = None, targets: Progress | None = None
    ) -> Progress:
        """How far to read from `start` on: about `max_bytes` if they are given, and not beyond
        `targets` if these are.
        """
        for name in start:
            if topic_of(Path(name)) != self._topic:
                raise AnalyticsError(f"the checkpoint is of another source: it has {name}")
        now = self.ends()
        wanted = now if targets is None else targets
        found: dict[str, Bookmark] = {**start}
        pending: dict[str, int] = {}
        for name in {**start, **wanted}:
            mark = start.get(name, Bookmark(0))
            found[name] = self._checked(name, mark, now.get(name))
            is_new = name in wanted and wanted[name].offset > mark.offset
            if is_new and found[name] == mark:
                pending[name] = self._tails[name].pending(mark) if max_bytes else 0
        total = sum(pending.values())
        for name, size in pending.items():
            found[name] = wanted[name]
            if max_bytes and total > max_bytes:
                mark = start.get(name, Bookmark(0))
                share = max(1, max_bytes * size // total)
                found[name] = self._tails[name].after(mark, wanted[name], share)
        return found

    def stretches(self, start: Progress, end: Progress, limit: int) -> Iterator[Stretch]:
        """What is to be read, and told, from one progress to the next, by logs."""
        tails = self._look()
        for name, mark in end.items():
            before, tail = start.get(name, Bookmark(0)), tails.get(name)
            log = tail.log if tail is not None else PartitionLog(Path(name), None)
            if before.offset >= mark.offset:
                if problem := _told_by(before, mark):
                    yield Stretch(log, mark.offset, before.offset, problem=problem)
            elif tail is None:
                yield Stretch(log, before.offset, mark.offset, problem=Problem.DELETED)
            else:
                yield from tail.stretches(before.offset, mark.offset, limit)

    def _look(self) -> Mapping[str, Tail]:
        known = self._tails
        self._tails = {
            name: known[name] if name in known and known[name].log == log else Tail(log)
            for name, log in self._find().items()
        }
        return self._tails

    def _checked(self, name: str, mark: Bookmark, end: Bookmark | None) -> Bookmark:
        """The mark, or a step from it if the log does not go on from there."""
        tail = self._tails.get(name)
        if tail is None or end is None:
            step, problem = mark._replace(is_gone=True), Problem.VANISHED
        elif mark.is_gone:
            return mark._replace(is_gone=False)
        elif end.offset < mark.offset:
            step, problem = end, Problem.CUT
        elif end.offset > mark.offset and tail.is_rewritten(mark):
            floor = tail.floor(mark.offset)
            step = floor if floor.offset == mark.offset else Bookmark(mark.offset)
            problem = Problem.REWRITTEN
        else:
            return mark
        if step != mark and self._fail_on_loss:
            log = tail.log if tail is not None else PartitionLog(Path(name), None)
            raise AnalyticsError(loss(log, problem, step.offset, mark.offset))
        return step


def _told_by(before: Bookmark, mark: Bookmark) -> Problem:
    """What a step tells that reads nothing."""
    if mark.is_gone and not before.is_gone:
        return Problem.VANISHED
    if mark.offset < before.offset:
        return Problem.CUT
    is_other = before.crc not in (UNKNOWN, mark.crc)
    return Problem.REWRITTEN if is_other else Problem.NONE


def _begin(tail: Tail, offset: int) -> Bookmark:
    start, end = tail.start(), tail.end() or tail.start()
    if offset in (EARLIEST, LATEST):
        return start if offset == EARLIEST else end
    if not start.offset <= offset <= end.offset:
        raise AnalyticsError(
            f"startingOffsets: partition {tail.log.partition} has the offsets {start.offset} to "
            f"{end.offset}, not {offset}"
        )
    return tail.floor(offset)
