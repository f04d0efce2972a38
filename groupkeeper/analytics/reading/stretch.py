"""The rows of the offsets between two places of a log, and what became of those that have none."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from groupkeeper.analytics.errors import AnalyticsError
from groupkeeper.analytics.reading.open_segment import Known
from groupkeeper.analytics.reading.parse import SCHEMA, parse, text_rows
from groupkeeper.analytics.reading.partition_log import PartitionLog
from groupkeeper.analytics.reading.pieces import Piece, pieces
from groupkeeper.analytics.reading.plan import LARGEST_CHUNK, Split
from groupkeeper.analytics.reading.problems import Problem, is_damage

_LOSSES: Final = frozenset({Problem.DELETED, Problem.MISSING})


@dataclass(frozen=True, slots=True)
class Stretch:
    """Offsets [first, until) of a log, about `size` bytes.

    With `problem` it is not read, but told. `known` is a batch before it: the task looks for the
    stretch there first, if the file is that one still.
    """

    log: PartitionLog
    first: int
    until: int
    size: int = 0
    problem: Problem = Problem.NONE
    known: Known | None = None


def read_stretch(
    stretch: Stretch,
    names: Sequence[str] = SCHEMA.names,
    *,
    fail_on_loss: bool = False,
) -> Iterator[pa.RecordBatch]:
    """The rows of its whole batches, and rows with `problem` that count the offsets without one.

    Raises AnalyticsError if offsets are gone for another reason than compaction, with
    `fail_on_loss`; damage inside of a segment is rows, as in `parse`.
    """
    log = stretch.log
    if stretch.problem:
        yield _told(log, stretch.problem, stretch.first, stretch.until).select(names)
        return
    for piece in pieces(log, stretch.first, stretch.until, LARGEST_CHUNK, stretch.known):
        if piece.gap:
            if fail_on_loss and piece.gap in _LOSSES:
                raise AnalyticsError(loss(log, piece.gap, piece.first, piece.until))
            yield _told(log, piece.gap, piece.first, piece.until).select(names)
        else:
            yield from _rows(log, piece, names)


def loss(log: PartitionLog, problem: Problem, first: int, until: int) -> str:
    """Why a stream stops, and what to do."""
    return (
        f"{log.name}: {_text(problem, first, until)} in {log.place.parent}; to go on without them, "
        "set failOnDataLoss to false"
    )


def _rows(log: PartitionLog, piece: Piece, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    segment, first = piece.segment, min(piece.first, piece.lowest)
    assert segment is not None, "no gap"
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
    log: PartitionLog, problem: Problem, first: int, until: int, count: int = 0
) -> pa.RecordBatch:
    split = Split(str(log.place), log.partition, 0, 0, last=False, topic=log.topic)
    return text_rows(split, [(None, _text(problem, first, until, count), None)])


def _text(problem: Problem, first: int, until: int, count: int = 0) -> str:
    """`count`: so many of the offsets [first, until), if not all."""
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
