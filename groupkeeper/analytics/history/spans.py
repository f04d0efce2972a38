"""Which coordinators wrote a partition's log, and from which offset on nothing of it is missing:
the tables `epochs` and `coverage`.
"""

from collections.abc import Iterable
from typing import Any, Self

from groupkeeper.analytics.history.feed import Span
from groupkeeper.analytics.history.generations import instant
from groupkeeper.analytics.history.writer import Known, Row, row

OFFSETS_LOG = "__consumer_offsets"


def known_of(
    spans: Iterable[Span], lost_until: Iterable[int] = (), before: "Spans | None" = None
) -> Known:
    """How far a partition is known whose spans these are, all of them that follow `before`, which
    is changed. `lost_until`: where records are there again after some were lost; missing offsets
    that are not listed were compacted.
    """
    whole = before or Spans(-1)
    for each in spans:
        whole.add(each)
    return Known(whole.whole_from, tuple(sorted(lost_until)))


class Spans:
    """Adds up spans, which are fed in the order of their offsets."""

    def __init__(self, partition: int) -> None:
        self._partition = partition
        self._epoch: Span | None = None
        """The last epoch so far."""
        self._all: Span | None = None
        self._done: list[Row] = []

    def add(self, span: Span) -> None:
        """The next records."""
        before = self._epoch
        if before is not None and before.leader_epoch != span.leader_epoch:
            self._done.append(self._row(before))
            before = None
        self._epoch = _joined(before, span)
        self._all = _joined(self._all, span)

    @property
    def whole_from(self) -> int:
        """The offset from which on nothing is missing."""
        # Offsets begin at 0: a log that begins later lacks what was before.
        whole = self._all
        return 0 if whole is None else whole.whole_from

    def take(self) -> list[Row]:
        """Epochs that are over."""
        rows, self._done = self._done, []
        return rows

    def open(self, known: Known) -> dict[str, list[Row]]:
        """The last epoch, and the coverage."""
        if self._epoch is None or self._all is None:
            return {"epochs": [], "coverage": []}
        whole = self._all
        place = {"log": OFFSETS_LOG, "partition": self._partition}
        coverage = row(
            "coverage",
            **place,
            first_offset=whole.first_offset,
            last_offset=whole.last_offset,
            known_from_offset=max(whole.whole_from, known.from_offset),
            known_from=instant(whole.whole_ms),
            records=whole.records,
            **{"from": instant(whole.first_ms), "until": instant(whole.last_ms)},
        )
        return {"epochs": [self._row(self._epoch)], "coverage": [coverage]}

    def _row(self, span: Span) -> Row:
        return row(
            "epochs",
            log=OFFSETS_LOG,
            partition=self._partition,
            epoch=span.leader_epoch,
            first_offset=span.first_offset,
            last_offset=span.last_offset,
            **{"from": instant(span.first_ms), "until": instant(span.last_ms)},
        )

    def state(self) -> list[Any]:
        """As JSON."""
        return [self._partition, self._epoch, self._all]

    @classmethod
    def restore(cls, state: list[Any]) -> Self:
        """As it was."""
        partition, epoch, whole = state
        spans = cls(partition)
        spans._epoch = epoch and Span(*epoch)
        spans._all = whole and Span(*whole)
        return spans


def _joined(before: Span | None, span: Span) -> Span:
    if before is None:
        return span
    is_whole = span.whole_from == span.first_offset == before.last_offset + 1
    return Span(
        before.first_offset,
        span.last_offset,
        before.whole_from if is_whole else span.whole_from,
        before.whole_ms if is_whole else span.whole_ms,
        span.leader_epoch,
        before.first_ms,
        max(before.last_ms, span.last_ms),
        before.records + span.records,
    )
